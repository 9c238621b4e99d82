"""``python -m tests.chaos.checker.remote --bootstrap HOST:PORT --bootstrap HOST:PORT --records DIR``: judges a chaos run of two clusters.

It compares the committed notes of both sides of each dialog, from the topics of both clusters. The initiator has noted which items it said, and
the target has noted each item that it handled, in the transaction in which it replied. So each item must be noted by the target, and
each reply by the initiator: once, in order, with the text that the sender gave it. The dialogs must have ended without an error, and
no service may have a dead letter. Exit codes are the checker's.

The figures tell what the network and the forwarders have done to the envelopes: it reads the transmission topics and the queues.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.chaos.checker.__main__ import CLEAN, KAFKA, USAGE, VIOLATED
from tests.chaos.checker.avro import KINDS
from tests.chaos.checker.finding import Finding
from tests.chaos.checker.reader import Unreachable, read
from tests.chaos.checker.records import Record

Message = tuple[str, str, int]
"""Id of the dialog, ``item`` or ``reply``, and the number."""
HEAD = slice(10, 27)
"""Bytes of an envelope that are the id of the dialog, and the side that sent it."""
TEXTS, TIMES = 4, 2
"""The fields behind them: texts, a boolean and times. Then come the kind and the number."""


@dataclass
class Notes:
    """What the handlers of both clusters have noted."""

    told: Counter[Message] = field(default_factory=Counter)
    handled: Counter[Message] = field(default_factory=Counter)
    order: dict[tuple[str, str], list[int]] = field(default_factory=lambda: defaultdict(list))
    """Numbers of each direction, in the order in which they were handled."""
    damaged: list[Message] = field(default_factory=list)
    over: Counter[str] = field(default_factory=Counter)
    errors: list[Message] = field(default_factory=list)

    def take(self, note: Mapping[str, Any]) -> None:
        """Take one note. A target that has handled an item has said the reply."""
        dialog = note["dialog"]
        if "told" in note:
            self.told.update((dialog, "item", n) for n in range(*note["told"]))
        for kind in ("item", "reply"):
            if kind in note:
                message = dialog, kind, note[kind]
                self.handled[message] += 1
                self.order[dialog, kind].append(note[kind])
                if not _is_genuine(note["digest"], *message):
                    self.damaged.append(message)
        if "item" in note:
            self.told[dialog, "reply", note["item"]] += 1
        self.over[dialog] += "over" in note
        if "error" in note:
            self.errors.append((dialog, "error", note["error"]))


def _is_genuine(digest: str, dialog: str, kind: str, n: int) -> bool:
    """Return True for the digest of the text that the message may have: its own words, a few times or very many times."""
    unit = sha256(f"{dialog} {kind} {n}".encode()).hexdigest()
    if digest == sha256((unit * (1 + n % 4)).encode()).hexdigest()[:16]:
        return True
    # A text of 5 MB takes milliseconds, so it is made only for a digest that may be its digest.
    return unit[:2] <= "0f" and digest == sha256((unit * 80_000).encode()).hexdigest()[:16]


def judge(plan: Mapping[str, Any], records: Iterable[Record]) -> Finding[Message]:
    """Compare what was said with what was handled; the records are those of both clusters."""
    notes, journey, letters = Notes(), Journey(), list[Message]()
    for record in records:
        if record.topic == plan["notes"]:
            notes.take(json.loads(record.value or b""))
        elif record.topic.endswith(".dead-letter"):
            letters.append((record.topic, "letter", record.offset))
        else:
            journey.take(record)
    dialogs = [name for names in plan["dialogs"].values() for name in names]
    wanted = {(name, kind, n) for name in dialogs for kind in ("item", "reply") for n in range(plan["length"])}
    return Finding[Message](
        {
            "lost": sorted((notes.told.keys() | wanted) - notes.handled.keys()),
            "twice": sorted(it for counts in (notes.told, notes.handled) for it, count in counts.items() if count > 1),
            "out of order": [(*way, b) for way, numbers in notes.order.items() for a, b in pairwise(numbers) if b < a],
            "undecided": [(name, "over", notes.over[name]) for name in dialogs if notes.over[name] != 1] + notes.errors + letters,
            "delivered though damaged": notes.damaged,
            "never said": sorted(notes.handled.keys() - wanted),
        },
        {"dialogs": len(dialogs), "messages": len(notes.handled), **journey.figures()},
    )  # fmt: skip


class Journey:
    """The messages in the transmission topics, and what came of them in the queues."""

    def __init__(self) -> None:
        self._sent: Counter[tuple[bytes, int]] = Counter()
        self._came: Counter[tuple[bytes, int]] = Counter()
        self._highest: dict[bytes, int] = defaultdict(lambda: -1)
        self._late = self._unreadable = 0

    def take(self, record: Record) -> None:
        """Take a record of a transmission topic or of a queue."""
        try:
            way, kind, number = _identity(record.value or b"")
        except IndexError:
            self._unreadable += 1
            return
        if kind != KINDS["MESSAGE"]:
            return
        if record.topic.endswith(".transmission"):
            self._sent[way, number] += 1
            return
        self._came[way, number] += 1
        if self._came[way, number] == 1 and number < self._highest[way]:
            self._late += 1
        self._highest[way] = max(self._highest[way], number)

    def figures(self) -> dict[str, int]:
        """Return what happened on the way."""
        return {
            "transmitted": self._sent.total(), "transmitted again": self._sent.total() - len(self._sent),
            "lost on the way": (self._sent - self._came).total(), "came again": self._came.total() - len(self._came),
            "came late": self._late, "unreadable": self._unreadable,
        }  # fmt: skip


def _identity(value: bytes) -> tuple[bytes, int, int]:
    """Return the conversation id with the side, the kind and the number of an envelope.

    Raises:
        IndexError: the bytes are too short for an envelope.
    """
    at = HEAD.stop
    for _ in range(TEXTS):
        size, at = _number(value, at)
        at += size
    at += 1  # a boolean
    for _ in range(TIMES):
        _, at = _number(value, at)
    kind, at = _number(value, at)
    number, _ = _number(value, at)
    return value[HEAD], kind, number


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Decode the integer of Avro at a position; return the position after it, too."""
    found = shift = 0
    while True:
        byte = data[at]
        at += 1
        found |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return found >> 1 ^ -(found & 1), at


def topics(plan: Mapping[str, Any], cluster: str) -> list[str]:
    """Name the topics that are read on a cluster."""
    other = next(name for name in plan["clusters"] if name != cluster)
    space, service = plan["namespace"], plan["services"][cluster]
    return [
        plan["notes"],
        f"{space}.{service}.dead-letter",
        f"{space}.{service}.queue",
        f"{space}.{other}.transmission",
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Check a run and print the finding; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos.checker.remote", description="Judge a chaos run of two clusters from their topics."
    )
    parser.add_argument(
        "--bootstrap", required=True, action="append", help="brokers of a cluster, in the order of plan.json"
    )
    parser.add_argument("--records", required=True, type=Path, help="directory with plan.json")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    options = parser.parse_args(arguments)
    try:
        plan = json.loads((options.records / "plan.json").read_text(encoding="utf-8"))
        wheres = zip(options.bootstrap, plan["clusters"], strict=True)
        records = (it for where, cluster in wheres for it in read(where, topics(plan, cluster)).records)
        found = judge(plan, records)
    except (OSError, ValueError, KeyError, Unreachable) as error:
        sys.stderr.write(f"{error!r}\n")
        return KAFKA if isinstance(error, Unreachable) else USAGE
    sys.stdout.write(json.dumps(found.plain(), indent=2) if options.json else found.line)
    sys.stdout.write("\n")
    return CLEAN if found.clean else VIOLATED


if __name__ == "__main__":
    sys.exit(main())
