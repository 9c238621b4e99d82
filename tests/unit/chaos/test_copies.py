"""What readers made of the queues is compared with the queues; and local copies of state are damaged, kept and put back."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from tests.chaos.checker.check import check
from tests.chaos.checker.commands import Commands
from tests.chaos.checker.copies import COLUMNS, Message, Unreadable, archived, streamed
from tests.chaos.checker.envelopes import Envelopes
from tests.chaos.checker.letters import Letters
from tests.chaos.checker.topics import Topics
from tests.chaos.checker.verdict import Kind, Verdict
from tests.chaos.cluster.copies import damage, keep, put_back
from tests.unit.chaos.clean_run import Run, run

STRANGER = Message("00000000-0000-7000-8000-000000000000", to_target=True, number=0, kind="MESSAGE", body=b"{}")


@pytest.fixture(scope="module")
def clean() -> Run:
    return run(5)


@pytest.fixture(scope="module")
def said(clean: Run) -> list[Message]:
    """Every message on the wire."""
    verdict = Verdict()
    topics = Topics(clean.log, clean.plan)
    letters = Letters(topics, verdict)
    envelopes = Envelopes(topics, letters, Commands(topics, letters, verdict), verdict)
    return [
        Message(*direction, number, sent.kind, sent.body)
        for direction, wire in envelopes.wires.items()
        for number, sent in wire.first.items()
    ]


def kinds(clean: Run, archive: list[Message]) -> set[Kind]:
    return check(clean.log, clean.plan, clean.notes, copies={"archive": archive}).kinds()


def test_a_reader_that_has_everything_once_is_clean_whatever_the_order(clean: Run, said: list[Message]) -> None:
    error = said[0]._replace(number=-1, kind="ERROR")  # of the system: it has no number
    assert kinds(clean, [*reversed(said), error]) == set()


def test_a_reader_that_lacks_a_message_is_found(clean: Run, said: list[Message]) -> None:
    assert kinds(clean, said[1:]) == {Kind.COPY_LACKS}


def test_a_reader_that_has_a_message_twice_is_found(clean: Run, said: list[Message]) -> None:
    assert kinds(clean, [*said, said[3]]) == {Kind.COPY_TWICE}


def test_a_reader_with_a_message_nobody_sent_is_found(clean: Run, said: list[Message]) -> None:
    assert kinds(clean, [*said, STRANGER]) == {Kind.COPY_INVENTS}


def test_a_reader_with_other_bytes_is_found(clean: Run, said: list[Message]) -> None:
    assert kinds(clean, [said[0]._replace(body=b"other"), *said[1:]]) == {Kind.COPY_LACKS, Kind.COPY_INVENTS}


def write(folder: Path, *messages: Message) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    folder.mkdir(parents=True)
    columns = {name: list(column) for name, column in zip(COLUMNS, zip(*messages, strict=True), strict=True)}
    parquet.write_table(pyarrow.table(columns), folder / "part-0.parquet")


def test_of_an_archive_what_its_newest_commit_names_is_read(tmp_path: Path) -> None:
    part = {"set_aside": False, "service": "chaos-ledger", "day": "2026-11-22", "batch": "1-a"}
    place = tmp_path / "data" / "set_aside=false" / "of=chaos-ledger" / "day=2026-11-22"
    write(place / "batch=1-a", STRANGER)
    write(place / "batch=1-b", STRANGER._replace(number=1))  # of a run that was killed
    (tmp_path / "commits").mkdir()
    for number, parts in ((1, []), (2, [part])):
        (tmp_path / "commits" / f"{number:010d}.json").write_text(json.dumps({"parts": parts}))
    assert archived(tmp_path) == [STRANGER]


def test_a_directory_without_a_commit_is_no_archive(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="no commit"):
        archived(tmp_path)


def test_of_a_stream_every_batch_is_read(tmp_path: Path) -> None:
    write(tmp_path / "batch-0", STRANGER)
    write(tmp_path / "batch-1", STRANGER._replace(number=1))
    assert [message.number for message in streamed(tmp_path)] == [0, 1]


def local_copies(directory: Path) -> Path:
    for number in range(8):
        (directory / str(number)).mkdir(parents=True)
        (directory / str(number) / "000001.sst").write_bytes(bytes(range(256)) * 10)
        (directory / str(number) / "MANIFEST-000001").write_bytes(b"manifest")
    return directory


def files(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_as_many_copies_are_damaged_as_is_said(tmp_path: Path) -> None:
    directory = local_copies(tmp_path / "copies")
    before = files(directory)
    harmed = damage(directory, Random(5))
    after = files(directory)
    assert 0 < harmed == len({name.split("/")[0] for name, data in before.items() if after.get(name) != data})


def test_nothing_is_damaged_where_there_is_nothing(tmp_path: Path) -> None:
    assert damage(tmp_path / "not there", Random(5)) == 0


def test_a_copy_that_was_kept_is_put_back_whole(tmp_path: Path) -> None:
    directory = local_copies(tmp_path / "copies")
    before = files(directory)
    keep(directory, tmp_path / "old")
    (directory / "0" / "000002.sst").write_bytes(b"later")
    (directory / "9").mkdir()
    assert put_back(tmp_path / "old", directory)
    assert files(directory) == before
    assert not put_back(tmp_path / "old", directory), "once"
