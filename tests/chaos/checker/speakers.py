"""``python -m tests.chaos.checker.speakers --bootstrap HOST:PORT --records DIR``: judges a chaos run of speakers; exit codes as the checker's.

It reads the topics after the run. What was accepted by a speaker must have been heard once, in one order without holes, in which each speaker
has its own order. And no view of a reader may tell what was not there yet: each thing that a view tells needs a committed record whose
date is not later than the view.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import UUID

from tests.chaos.checker import avro
from tests.chaos.checker.__main__ import CLEAN, KAFKA, USAGE, VIOLATED
from tests.chaos.checker.finding import Finding
from tests.chaos.checker.reader import Unreachable, read
from tests.chaos.checker.records import Record

NEVER = 1 << 62
HANDLER = "handler"
COUNTS = ("sequenced", "acknowledged", "accepted", "handled", "counted")
"""The numbers of a view; each of them only grows."""
Side = tuple[str, bool]
"""A dialog, and whether its initiator's side is meant."""


@dataclass
class Dates:
    """When the first, the second, ... of some things were there, in milliseconds; each counts from the moment at which all before it are there."""

    reached: list[int] = field(default_factory=list)

    def add(self, count: int, at: int) -> None:
        """Note that there were ``count`` of them at a time."""
        missing = count - len(self.reached)
        self.reached.extend([at] * missing)

    def of(self, count: int) -> int:
        """Return when there were ``count`` of them."""
        if count <= 0:
            return 0
        return self.reached[count - 1] if count <= len(self.reached) else NEVER


@dataclass
class Truth:
    """What the committed records say."""

    numbers: dict[Side, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    """Dates of the numbered envelopes that a side sent."""
    repeated: list[Any] = field(default_factory=list)
    """Numbers that were sent twice."""
    ended: dict[Side, int] = field(default_factory=dict)
    """Dates of the ENDs that a side sent."""
    accepted: dict[Side, Dates] = field(default_factory=lambda: defaultdict(Dates))
    """Envelopes that a side accepted, by its rows."""
    heard: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    """What the handlers of the desk noted, in the order of the log."""
    handled: dict[Side, Dates] = field(default_factory=lambda: defaultdict(Dates))
    """Messages whose handlers on a side noted them."""
    told: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """What the handlers of the shop said."""
    letters: int = 0

    def sent(self, side: Side) -> Dates:
        """Return the dates of the envelopes that a side sent, up to the first number that is missing."""
        dates, found, latest = Dates(), self.numbers[side], 0
        for number in range(len(found)):
            if number not in found:
                break
            latest = max(latest, found[number])
            dates.add(number + 1, latest)
        return dates


def truth_of(plan: Mapping[str, Any], records: Iterable[Record]) -> Truth:
    """Take up the records of a run."""
    truth, desk = Truth(), plan["desk"]
    for record in sorted(records, key=lambda it: it.position):
        name = record.topic
        if name == plan["heard"]:
            dialog = (record.key or b"").decode()
            note = json.loads(record.value or b"")
            truth.heard[dialog].append(note)
            truth.handled[dialog, True].add(len(truth.heard[dialog]), record.timestamp)
        elif name == plan["told"]:
            dialog = (record.key or b"").decode()
            truth.told[dialog].append(json.loads(record.value or b"")["n"])
            truth.handled[dialog, False].add(len(truth.told[dialog]), record.timestamp)
        elif name.endswith(".queue"):
            _envelope(truth, record)
        elif name.endswith(".state"):
            _row(truth, record, initiator=name.endswith(f".{desk}.state"))
        elif name.endswith(".dead-letter"):
            truth.letters += 1
    return truth


def _envelope(truth: Truth, record: Record) -> None:
    fields = avro.ENVELOPE.decode(record.value or b"")
    side = str(UUID(bytes=fields["conversation_id"])), fields["from_initiator"]
    number = fields["seq"]
    if number < 0:
        return
    if number in truth.numbers[side]:
        truth.repeated.append((*side, number))
        return
    truth.numbers[side][number] = record.timestamp
    if fields["kind"] == "END":
        truth.ended[side] = record.timestamp


def _row(truth: Truth, record: Record, *, initiator: bool) -> None:
    key, value = record.key or b"", record.value
    if key[:1] != b"E" or value is None or (key[17:] == b"\1") is not initiator:
        return
    closed = value.startswith(avro.TOMBSTONE.head)
    count = avro.TOMBSTONE.decode(value)["accepted"] + 1 if closed else avro.ENDPOINT.decode(value)["next_in"]
    truth.accepted[str(UUID(bytes=key[1:17])), initiator].add(count, record.timestamp)


def judge(plan: Mapping[str, Any], views: Sequence[Mapping[str, Any]], records: Iterable[Record]) -> Finding[Any]:
    """Compare what speakers were told with what was heard, and what a reader told with what was there."""
    truth = truth_of(plan, records)
    finding = Finding[Any]({"lost": [], "twice": list(truth.repeated), "unasked": [], "holes": [], "out of order": []})
    speakers: Counter[str] = Counter()
    turns = 0
    for dialog in plan["dialogs"]:
        notes = truth.heard[dialog]
        heard = [(note["speaker"], note["n"]) for note in notes]
        speakers.update(speaker for speaker, _ in heard)
        turns += sum(a[0] != b[0] for a, b in pairwise(heard))
        _check_heard(finding, dialog, _accepted(plan, truth, dialog), heard)
        if [note["number"] for note in notes] != list(range(len(notes))):
            finding.wrong["holes"].append(dialog)
    finding.wrong |= _check_views(plan, views, truth)
    finding.wrong["letters"] = ["dead letters"] * truth.letters
    finding.figures = {
        "dialogs": len(plan["dialogs"]), **{f"of the {name}": speakers[name] for name in sorted(speakers)},
        "changes of speaker": turns, "views": len(views),
    }  # fmt: skip
    return finding


def _accepted(plan: Mapping[str, Any], truth: Truth, dialog: str) -> set[tuple[str, int]]:
    outside = {(name, n) for name, counts in plan["accepted"].items() for n in range(counts.get(dialog, 0))}
    return outside | {(HANDLER, n) for n in truth.told[dialog]}


def _check_heard(
    finding: Finding[Any], dialog: str, accepted: set[tuple[str, int]], heard: list[tuple[str, int]]
) -> None:
    times = Counter(heard)
    own: dict[str, list[int]] = defaultdict(list)
    for speaker, n in heard:
        own[speaker].append(n)
    finding.wrong["lost"] += [(dialog, *it) for it in sorted(accepted - times.keys())]
    finding.wrong["unasked"] += [(dialog, *it) for it in sorted(times.keys() - accepted)]
    finding.wrong["twice"] += [(dialog, *it) for it, count in sorted(times.items()) if count > 1]
    finding.wrong["out of order"] += [
        (dialog, name, b) for name, numbers in own.items() for a, b in pairwise(numbers) if b < a
    ]


def _check_views(plan: Mapping[str, Any], views: Sequence[Mapping[str, Any]], truth: Truth) -> dict[str, list[Any]]:
    ahead, back, refused = [], [], []
    before: dict[Side, Mapping[str, Any]] = {}
    sent = {(dialog, initiator): truth.sent((dialog, initiator)) for dialog in plan["dialogs"] for initiator in (True, False)}  # fmt: skip
    for view in views:
        side = view["dialog"], view["service"] == plan["desk"]
        peer = side[0], not side[1]
        told = {name: view[name] for name in COUNTS if view[name] is not None}
        dates = {
            "sequenced": (sent[side],), "acknowledged": (truth.accepted[peer],), "accepted": (sent[peer], truth.accepted[side]),
            "handled": (truth.handled[side],), "counted": (truth.handled[side],),
        }  # fmt: skip
        for name, number in told.items():
            if max(it.of(number) for it in dates[name]) > view["at"]:
                ahead.append((*side, name, number, view["at"]))
        if not _status_holds(view["status"], side, view["at"], truth, sent):
            ahead.append((*side, "status", view["status"], view["at"]))
        last = before.get(side, {})
        back += [(*side, name, count) for name, count in told.items() if count < (last.get(name) or 0)]
        refused += [(*side, view["refused"])] * bool(view["refused"])
        before[side] = view
    return {"told too early": ahead, "told backwards": back, "refused": refused}


def _status_holds(status: str, side: Side, at: int, truth: Truth, sent: Mapping[Side, Dates]) -> bool:
    """Return True if a status was true at a time. The desk is the side that ends."""
    dialog, initiator = side
    if status == "ended":
        return truth.ended.get((dialog, True), NEVER) <= at
    if status == "open":
        return initiator or sent[dialog, True].of(1) <= at
    return status == "not seen yet"


def topics(plan: Mapping[str, Any]) -> list[str]:
    """Name the topics that are read."""
    own = [f"{plan['namespace']}.{service}.{kind}" for service in (plan["desk"], plan["shop"]) for kind in ("queue", "state", "dead-letter")]  # fmt: skip
    return [plan["told"], plan["heard"], *own]


def main(arguments: Sequence[str] | None = None) -> int:
    """Check a run and print the finding; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos.checker.speakers", description="Judge a chaos run of speakers from its topics."
    )
    parser.add_argument("--bootstrap", required=True, help="brokers, as host:port,...")
    parser.add_argument("--records", required=True, type=Path, help="directory with plan.json and views.jsonl")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    options = parser.parse_args(arguments)
    try:
        plan = json.loads((options.records / "plan.json").read_text(encoding="utf-8"))
        lines = (options.records / "views.jsonl").read_text(encoding="utf-8").splitlines()
        found = judge(plan, [json.loads(line) for line in lines], read(options.bootstrap, topics(plan)).records)
    except (OSError, ValueError, Unreachable) as error:
        sys.stderr.write(f"{error}\n")
        return KAFKA if isinstance(error, Unreachable) else USAGE
    sys.stdout.write(json.dumps(found.plain(), indent=2) if options.json else found.line)
    sys.stdout.write("\n")
    return CLEAN if found.clean else VIOLATED


if __name__ == "__main__":
    sys.exit(main())
