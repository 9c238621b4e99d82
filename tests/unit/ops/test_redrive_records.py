"""The records of redrives in the operators topic: plans in parts, and what runs write; all of it without Kafka."""

import json
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from conversations import DeclarationError
from conversations_ops.operate.operators_topic import PART, Written, fields_of
from conversations_ops.operate.redrive.journal import MANY, Entry, History, parts
from conversations_ops.operate.redrive.known import LOST, Known, State
from conversations_ops.operate.redrive.outcomes import Outcome
from conversations_ops.operate.redrive.plan import Care, Plan, PlannedLetter
from conversations_ops.operate.redrive.selection import Selector
from conversations_ops.operate.redrive.stored import head_in, plan_in, records_of
from conversations_ops.read_model.file import File
from conversations_ops.read_model.redrives import plan, redrives

NAME = "rd-1f"


def planned(letters: int) -> Plan:
    many = tuple(PlannedLetter(f"desk.queue-0-{n}", "desk", n, "ValueError: x" * 10, 1) for n in range(letters))
    return Plan(NAME, "conv", "2026-11-20T10:00:00+00:00", "ann", Selector("desk"), Care(2, 5.0, 3), many, 1)


def put(file: File, records: Sequence[tuple[str, Any]], offset: int = 0) -> None:
    with file.transaction() as connection:
        for at, (key, fields) in enumerate(records, offset):
            row = (key, at, json.dumps(fields))
            connection.execute("INSERT OR REPLACE INTO operators VALUES (?, ?, ?)", row)


def test_a_long_plan_is_stored_in_parts_and_found_whole(tmp_path: Path) -> None:
    made = planned(8_000)
    records = list(records_of(made, "a"))
    assert len(records) == 5
    assert all(len(json.dumps(fields)) < 2 * PART for _, fields in records)
    with File(tmp_path / "model") as file:
        put(file, records)
        assert plan(file, NAME) == made
        assert plan(file, "rd-0") is None
        (found,) = redrives(file)
    assert (found.letters, found.outcomes, found.state(0)) == (8_000, {"open": 8_000}, State.PLANNED)


def test_a_plan_that_is_written_again_is_never_mixed_with_the_first_one(tmp_path: Path) -> None:
    first = planned(8_000)
    second = first._replace(care=Care(1, 1.0, 1), letters=first.letters[::-1])
    with File(tmp_path / "model") as file:
        put(file, list(records_of(first, "a")))
        put(file, list(records_of(second, "b"))[:2], 100)
        assert plan(file, NAME) == first
        put(file, list(records_of(second, "b"))[2:], 102)
        assert plan(file, NAME) == second


def test_a_plan_that_lacks_a_part_is_refused(tmp_path: Path) -> None:
    with File(tmp_path / "model") as file:
        put(file, list(records_of(planned(8_000), "a"))[1:])
        with pytest.raises(DeclarationError, match="a part of the plan is missing"):
            plan(file, NAME)


@pytest.mark.parametrize(
    "wrong", [{"letters": "7"}, {"parts": True}, {"redrive": "../x"}, {"revision": 7}, {"made_by": None}]
)
def test_a_head_that_is_none_is_no_plan(tmp_path: Path, wrong: dict[str, object]) -> None:
    *parts, (key, head) = records_of(planned(1), "a")
    assert head_in(head) is not None
    assert head_in({**head, **wrong}) is None
    with File(tmp_path / "model") as file:
        put(file, [*parts, (key, {**head, **wrong})])
        assert plan(file, NAME) is None
        assert redrives(file) == []


def test_a_plan_of_another_version_is_refused() -> None:
    (_, part), (_, head) = records_of(planned(1), "a")
    with pytest.raises(DeclarationError, match="another version of this program"):
        plan_in({**head, "version": 2}, [part])


@pytest.mark.parametrize("value", [None, b"", b"7", b"{", b"[" * 100_000, b"\xff"])
def test_a_record_that_is_no_object_has_no_fields(value: bytes | None) -> None:
    assert fields_of(value) == {}


def log(*records: tuple[str, dict[str, object]]) -> list[Written]:
    return [Written(offset, f"redrive/{NAME}/{key}", fields) for offset, (key, fields) in enumerate(records)]


_numbers = count()


def sent(run: str, letter: str, outcome: Outcome, command: str = "") -> tuple[str, dict[str, object]]:
    return letters(run, {letter: Entry(outcome, command)})


def letters(run: str, entries: Mapping[str, Entry]) -> tuple[str, dict[str, object]]:
    """Return a record as the topic gives it back: JSON has no tuples."""
    return f"letters/{run}/{next(_numbers)}", json.loads(json.dumps({"letters": entries}))


def of_an_earlier_release(run: str, letter: str, outcome: Outcome, command: str = "") -> tuple[str, dict[str, object]]:
    return f"letter/{run}/{letter}", {"outcome": outcome.value, "command": command}


def test_the_last_run_owns_the_redrive_and_what_a_lost_run_writes_later_is_left_out() -> None:
    history = History(NAME)
    history.take(
        log(
            ("run/a", {"by": "ann"}),
            sent("a", "one/1", Outcome.SENT, "c1"),
            sent("a", "two", Outcome.SENT, "c2"),
            sent("a", "two", Outcome.HANDLED),
            ("run/b", {"by": "ben"}),
            sent("a", "three", Outcome.SENT, "c3"),
            sent("b", "four", Outcome.SENT, "c4"),
            sent("a", "four", Outcome.HANDLED),
            of_an_earlier_release("a", "four", Outcome.HANDLED),
        )
    )
    assert history.run == "b"
    assert history.entries == {
        "one/1": Entry(Outcome.SENT, "c1"),
        "two": Entry(Outcome.HANDLED),
        "four": Entry(Outcome.SENT, "c4"),
    }


def test_a_record_has_many_letters_and_those_of_an_earlier_release_have_one() -> None:
    history = History(NAME)
    both = {"one": Entry(Outcome.SENT, "c1"), "two": Entry(Outcome.HANDLED)}
    history.take(
        log(("run/a", {"by": "ann"}), of_an_earlier_release("a", "three/3", Outcome.SENT, "c3"), letters("a", both))
    )
    assert history.entries == both | {"three/3": Entry(Outcome.SENT, "c3")}
    history.take(log(of_an_earlier_release("a", "three/3", Outcome.BACK), letters("a", {"one": Entry(Outcome.ENDED)})))
    assert history.entries == {
        "one": Entry(Outcome.ENDED),
        "two": Entry(Outcome.HANDLED),
        "three/3": Entry(Outcome.BACK),
    }


def test_many_letters_are_written_in_records_of_a_limited_size() -> None:
    entries = {f"desk.queue-0-{n}": Entry(Outcome.SENT, "c") for n in range(2 * MANY + 1)}
    made = list(parts(entries))
    assert [len(it) for it in made] == [MANY, MANY, 1]
    assert {letter: entry for it in made for letter, entry in it.items()} == entries
    assert list(parts({})) == []


def test_a_history_takes_only_what_belongs_to_its_redrive_and_can_be_understood() -> None:
    history = History(NAME)
    other = [it._replace(key=it.key.replace(NAME, "rd-2")) for it in log(("run/x", {"by": "eve"}))]
    odd = log(
        ("run/a", {"by": "ann"}),
        ("letter/a/one", {"outcome": "eaten"}),
        ("letter/a/two", {}),
        ("letter", {"outcome": "sent"}),
        ("letters/a/0", {"letters": 7}),
        ("letters/a/1", {"letters": {"one": "sent", "two": ["sent"], "three": ["eaten", ""], "four": [["sent"], ""]}}),
        ("letters/a/2", {"letters": ["one", "two"]}),
        ("letters/a", {"letters": {"one": ["sent", ""]}}),
    )
    history.take([*odd, *other, Written(9, "note/[]", {}), Written(9, "", {})])
    assert (history.run, history.entries) == ("a", {})


def test_a_redrive_is_over_when_every_letter_has_its_outcome() -> None:
    letters = tuple(PlannedLetter(name, "s", 1, "x", 0) for name in ("a", "b"))
    history = History(NAME)
    history.take(log(("run/r", {"by": "ann"})))
    assert not history.is_over(letters)
    for letter, outcome, over in (("a", Outcome.HANDLED, False), ("b", Outcome.SENT, False), ("b", Outcome.BACK, True)):
        history.take(log(sent("r", letter, outcome)))
        assert history.is_over(letters) is over


def test_a_redrive_without_news_does_not_run() -> None:
    it = Known(NAME, "ann", "", 1, 5, 100, {}, None)
    lost = 100 + int(LOST * 1_000_000)
    assert (it.state(lost - 1), it.state(lost)) == (State.RUNS, State.LOST)
    assert it._replace(end="done").state(100) is State.ENDED
