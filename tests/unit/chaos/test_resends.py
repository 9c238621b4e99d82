"""The checker of chaos runs of resends finds each fault that is planted in a clean run."""

import json
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from tests.chaos.checker.finding import Finding
from tests.chaos.checker.records import Record
from tests.chaos.checker.resends import judge

FIRST = "0199c1f2-0000-7000-8000-000000000001"
PLAN = {"told": "run.told", "handled": "run.handled", "dialogs": [FIRST]}


class Topics:
    """The records of a run: items 0 to 3 are told, 0 to 2 are handled, and 3 is a dead letter."""

    def __init__(self) -> None:
        self._offsets = count()
        self.records: list[Record] = []
        for number in range(4):
            self.note("told", number)
        for number in range(3):
            self.note("handled", number)
        self.letter(3)
        self.event("RENEWED", generation=1)

    def note(self, name: str, number: int, chain: str = FIRST) -> None:
        self._add(f"run.{name}", json.dumps({"first": FIRST, "n": number, "chain": chain}).encode())

    def letter(self, number: int, **headers: bytes) -> None:
        body = b"\x01\x02" + json.dumps({"first": FIRST, "n": number}, separators=(",", ":")).encode()
        self._add("ns.resend-source.dead-letter", body, tuple((f"dl.{name}", value) for name, value in headers.items()))

    def event(self, name: str, **fields: int) -> None:
        self._add("ns.events", json.dumps({"event": name, **fields}).encode())

    def _add(self, topic: str, value: bytes, headers: tuple[tuple[str, bytes | None], ...] = ()) -> None:
        self.records.append(Record(topic, 0, next(self._offsets), 0, FIRST.encode(), value, headers))

    def judged(self) -> Finding[Any]:
        return judge(PLAN, self.records)


def test_a_clean_run_is_clean() -> None:
    found = Topics().judged()
    assert found.clean
    assert found.line == (
        "dialogs 1 · items told 4 · handled 3 · dead letters 1 · first new dialogs 1 · second new dialogs 0 · third new dialogs 0 · "
        "lost 0, twice 0, out of order 0, undecided 0"
    )


@pytest.mark.parametrize(
    ("plant", "fault"),
    [
        (lambda it: it.note("told", 9), "lost"),
        (lambda it: it.note("handled", 2), "twice"),
        (lambda it: it.note("told", 2), "twice"),
        (lambda it: it.note("handled", 7), "twice"),
        (lambda it: it.letter(2), "undecided"),
        (lambda it: it.letter(3), "undecided"),
    ],
    ids=["no account of it", "handled twice", "told twice", "never told", "handled and a letter", "two letters"],
)
def test_a_planted_fault_is_found(plant: Callable[[Topics], None], fault: str) -> None:
    run = Topics()
    plant(run)
    found = run.judged()
    assert [name for name, items in found.wrong.items() if items] == [fault]


def test_a_held_message_is_not_decided_yet() -> None:
    run = Topics()
    run.note("told", 4)
    run.letter(4, held=b"true")
    assert run.judged().wrong["lost"] == [(FIRST, 4)]


def test_an_uncertain_letter_is_undecided() -> None:
    run = Topics()
    run.note("told", 4)
    run.letter(4, uncertain=b"true")
    assert run.judged().wrong["undecided"] == [(FIRST, 4)]


def test_items_in_another_order_are_found() -> None:
    run = Topics()
    for number in (5, 4):
        run.note("told", number)
        run.note("handled", number)
    assert run.judged().wrong["out of order"] == [(FIRST, 4)]


def test_there_is_no_order_between_a_dialog_and_one_that_the_application_began_after_it() -> None:
    run = Topics()
    for number, chain in ((5, "another"), (4, FIRST)):
        run.note("told", number)
        run.note("handled", number, chain)
    assert run.judged().clean
