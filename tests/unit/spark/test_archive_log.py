"""The chain of an archive's commits: what is read next, and what is refused."""

from dataclasses import replace

import pytest

from conversations.kafka.offsets import Extent, Place
from spark_jobs.errors import CheckpointError, SourceError
from spark_jobs.reading.archive_log import (
    Commit,
    Part,
    Stretch,
    after,
    check_same,
    commit_of,
    part_at,
    spare_parts,
    spark_offsets,
    to_compact,
    upcoming,
)

Q = "conv.loans.queue"
PART = Part(False, "loans", "2026-11-22", "0000000001-abcd", 7)
COMMIT = Commit(1, "conv", "", "now", {Q: (10, 20)}, {Q: "id"}, (PART,))


def extents(*bounds: tuple[int, int], topic_id: str = "id") -> dict[Place, Extent]:
    return {(Q, number): Extent(topic_id, *bound) for number, bound in enumerate(bounds)}


def test_a_commit_is_what_was_written() -> None:
    assert commit_of(COMMIT.to_json()) == COMMIT
    assert part_at(PART.path, 7) == PART


@pytest.mark.parametrize("text", ["", "[]", '{"version": 1}', '{"version": 1, "parts": [{"x": 1}]}'])
def test_what_is_no_commit_is_said_to_be_none(text: str) -> None:
    with pytest.raises(CheckpointError, match="cannot be read"):
        commit_of(text)
    with pytest.raises(CheckpointError, match="another version"):
        commit_of(COMMIT.to_json().replace('"version": 1', '"version": 2'))


def test_a_batch_goes_on_behind_the_last_and_takes_a_share_of_each_partition() -> None:
    stretches, holes = upcoming(COMMIT, extents((0, 100), (20, 22)), 40, accept_holes=False)
    assert (stretches, holes) == ({(Q, 0): Stretch(10, 30), (Q, 1): Stretch(20, 22)}, ())
    assert spark_offsets(stretches) == (f'{{"{Q}": {{"0": 10, "1": 20}}}}', f'{{"{Q}": {{"0": 30, "1": 22}}}}')
    following = after(COMMIT, stretches, {Q: "id"})
    assert (following.number, following.next) == (2, {Q: (30, 22)})


def test_what_is_archived_is_not_read_again() -> None:
    assert upcoming(COMMIT, extents((0, 10), (0, 20)), 40, accept_holes=False) == ({}, ())


def test_a_new_archive_begins_with_the_oldest_record_there_is() -> None:
    stretches, holes = upcoming(None, extents((5, 9), (0, 0)), 40, accept_holes=False)
    assert (stretches, holes) == ({(Q, 0): Stretch(5, 9), (Q, 1): Stretch(0, 0)}, ())


def test_dropped_records_stop_it_unless_they_are_accepted() -> None:
    dropped = extents((13, 13), (20, 20))
    with pytest.raises(SourceError, match=r"partition 0, offsets 10 to 12\. To archive .* --accept-holes"):
        upcoming(COMMIT, dropped, 40, accept_holes=False)
    stretches, holes = upcoming(COMMIT, dropped, 40, accept_holes=True)
    assert (stretches[Q, 0], holes) == (Stretch(13, 13), (f"{Q} partition 0, offsets 10 to 12",))


@pytest.mark.parametrize(
    "made_anew",
    [extents((0, 50), (0, 50), topic_id="other"), extents((0, 50), (0, 50), (0, 1)), extents((0, 9), (0, 20))],
)
def test_a_topic_made_anew_is_noticed(made_anew: dict[Place, Extent]) -> None:
    with pytest.raises(SourceError, match="deleted and made anew"):
        upcoming(COMMIT, made_anew, 40, accept_holes=True)


def test_an_archive_of_something_else_is_refused() -> None:
    check_same(COMMIT, "conv", "")
    for other in (("conv", "loans"), ("test", "")):
        with pytest.raises(CheckpointError, match="of all services in namespace 'conv'"):
            check_same(COMMIT, *other)


def test_only_what_stands_in_several_batches_is_put_together() -> None:
    again, other = replace_part(batch="0000000002-ef"), replace_part(day="2026-11-23")
    assert to_compact((PART, again, other)) == {PART.place: [PART, again]}
    assert replace(COMMIT, parts=()).parts == ()
    assert spare_parts((PART, again, other)) == 1


def test_many_days_of_many_services_are_no_reason_to_put_anything_together() -> None:
    days = [replace_part(service=f"s{number % 50}", day=f"day {number}") for number in range(1_000)]
    assert spare_parts(days) == 0


def replace_part(**fields: str) -> Part:
    return PART._replace(**fields)  # type: ignore[arg-type]  # of texts only
