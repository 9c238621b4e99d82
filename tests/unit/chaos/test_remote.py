"""The checker of chaos runs of two clusters finds each fault that is planted in a clean run."""

import json
from collections.abc import Callable
from hashlib import sha256
from itertools import count
from typing import Any
from uuid import UUID

import pytest

from conversations.protocol.envelope import Envelope, Kind, Prefix, encode
from tests.chaos.checker.avro import KINDS
from tests.chaos.checker.finding import Finding
from tests.chaos.checker.records import Record
from tests.chaos.checker.remote import _identity, judge, topics

DIALOG = "0199c1f2-0000-7000-8000-000000000001"
LENGTH = 4
PLAN: dict[str, Any] = {
    "notes": "run.notes", "length": LENGTH, "dialogs": {"home": [DIALOG], "emea": []}, "namespace": "ns",
    "services": {"home": "left", "emea": "right"}, "clusters": ["home", "emea"],
}  # fmt: skip


def digest(kind: str, n: int) -> str:
    text = sha256(f"{DIALOG} {kind} {n}".encode()).hexdigest() * (1 + n % 4)
    return sha256(text.encode()).hexdigest()[:16]


class Topics:
    """The records of a run: each item is said, handled and replied to, in order, and the dialog ends."""

    def __init__(self) -> None:
        self._offsets = count()
        self.records: list[Record] = []
        self.note(told=[0, LENGTH])
        for kind in ("item", "reply"):
            for n in range(LENGTH):
                self.handled(kind, n)
                self.carried("right.queue", kind == "item", n)
                self.carried("emea.transmission", kind == "item", n)
        self.note(over=True)

    def note(self, **facts: object) -> None:
        self._add("run.notes", json.dumps({"dialog": DIALOG, **facts}).encode())

    def handled(self, kind: str, n: int, text: str = "") -> None:
        self.note(**{kind: n, "digest": text or digest(kind, n)})

    def letter(self) -> None:
        self._add("ns.left.dead-letter", b"")

    def carried(self, topic: str, from_initiator: bool, n: int) -> None:
        prefix = Prefix(UUID(DIALOG).bytes, from_initiator, "c", "left", "right", "k", True, 0, 9)
        envelope = Envelope(prefix, Kind.MESSAGE, n, -1, -1, sent_at=1, message_type="m", body=b"b")
        value = encode(envelope)
        self._add(f"ns.{topic}", value)

    def _add(self, topic: str, value: bytes, headers: tuple[tuple[str, bytes], ...] = ()) -> None:
        self.records.append(Record(topic, 0, next(self._offsets), 0, DIALOG.encode(), value, headers))

    def judged(self) -> Finding[Any]:
        return judge(PLAN, self.records)


def swapped(it: Topics) -> None:
    """The last two items are handled in the wrong order."""
    at = [i for i, record in enumerate(it.records) if b'"item"' in (record.value or b"")]
    it.records[at[-1]], it.records[at[-2]] = it.records[at[-2]], it.records[at[-1]]


def forgotten(it: Topics, word: bytes) -> Topics:
    it.records = [record for record in it.records if word not in (record.value or b"")]
    return it


def test_a_clean_run_is_clean() -> None:
    found = Topics().judged()
    assert found.clean
    assert found.line == (
        "dialogs 1 · messages 8 · transmitted 8 · transmitted again 0 · lost on the way 0 · came again 0 · came late 0 · unreadable 0 · "
        "lost 0, twice 0, out of order 0, undecided 0, delivered though damaged 0, never said 0"
    )


@pytest.mark.parametrize(
    ("plant", "faults"),
    [
        (lambda it: forgotten(it, b'"reply": 2'), {"lost": 1}),
        (lambda it: forgotten(it, b'"item": 3'), {"lost": 1}),
        (lambda it: it.handled("reply", LENGTH - 1), {"twice": 1}),
        (lambda it: it.note(told=[LENGTH - 1, LENGTH]), {"twice": 1}),
        (swapped, {"out of order": 1}),
        (lambda it: forgotten(it, b"over"), {"undecided": 1}),
        (lambda it: it.note(over=True), {"undecided": 1}),
        (lambda it: it.note(error=-8489), {"undecided": 1}),
        (Topics.letter, {"undecided": 1}),
        (lambda it: forgotten(it, b'"reply": 3').handled("reply", 3, "0" * 16), {"delivered though damaged": 1}),
        (lambda it: it.handled("reply", LENGTH), {"never said": 1}),
    ],
)  # fmt: skip
def test_each_fault_is_found(plant: Callable[[Topics], object], faults: dict[str, int]) -> None:
    topics = Topics()
    plant(topics)
    found = topics.judged()
    assert not found.clean
    assert {name: len(items) for name, items in found.wrong.items() if items} == faults


def test_the_figures_say_what_happened_on_the_way() -> None:
    it = Topics()
    it.carried("emea.transmission", True, 1)  # transmitted again, and lost
    it.carried("right.queue", False, 2)  # came again
    it.records.append(Record("ns.right.queue", 0, 99, 0, b"", b"?"))
    figures = it.judged().figures
    assert (figures["transmitted"], figures["transmitted again"]) == (9, 1)
    assert (figures["lost on the way"], figures["came again"], figures["unreadable"]) == (1, 1, 1)


def test_an_envelope_behind_a_later_one_came_late() -> None:
    it = Topics()
    late = [record for record in it.records if record.topic == "ns.right.queue"][:2]
    it.records = [record for record in it.records if record not in late] + late[::-1]
    assert it.judged().figures["came late"] == 2


def test_the_topics_of_both_clusters_are_read() -> None:
    assert topics(PLAN, "home") == ["run.notes", "ns.left.dead-letter", "ns.left.queue", "ns.emea.transmission"]
    assert topics(PLAN, "emea") == ["run.notes", "ns.right.dead-letter", "ns.right.queue", "ns.home.transmission"]


@pytest.mark.parametrize("number", [0, 63, 64, 200, 100_000])
def test_an_envelope_says_whose_it_is_and_its_number(number: int) -> None:
    it = Topics()
    it.carried("emea.transmission", True, number)
    way = UUID(DIALOG).bytes + b"\1"
    assert _identity(it.records[-1].value or b"") == (way, KINDS["MESSAGE"], number)
