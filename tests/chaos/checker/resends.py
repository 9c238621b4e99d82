"""``python -m tests.chaos.checker.resends --bootstrap HOST:PORT --records DIR``: judges a chaos run of resends; exit codes as the checker's.

It compares three committed accounts of each item: the topic in which its sender noted it, the topic in which its receiver did, and the dead
letters of both services. It knows nothing of the numbers and states of dialogs.

Order is judged within a dialog and the dialogs that replaced it. If nothing of a broken dialog could be sent again, the application began another one,
and between these two there is no order.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from tests.chaos.checker.__main__ import CLEAN, KAFKA, USAGE, VIOLATED
from tests.chaos.checker.finding import Finding
from tests.chaos.checker.reader import Unreachable, read
from tests.chaos.checker.records import Record

Item = tuple[str, int]
"""Id of the first dialog, and the number of the item."""


class Note(NamedTuple):
    """What a handler noted of an item, in the transaction that sent or handled it."""

    item: Item
    dialog: str
    """The dialog on which it was sent, in the notes of the sender; else empty."""
    chain: str
    """The first of the dialogs that replaced each other, in the notes of the receiver; else empty."""


_ITEM = re.compile(rb'\{"first":\s?"([0-9a-f-]{36})",\s?"n":\s?(\d+)\}')


def judge(plan: Mapping[str, Any], records: Iterable[Record]) -> Finding[Item]:
    """Compare what was told with what was handled and what became a dead letter."""
    told: Counter[Item] = Counter()
    handled: dict[tuple[str, str], list[int]] = defaultdict(list)
    letters: Counter[Item] = Counter()
    uncertain: set[Item] = set()
    events: Counter[str] = Counter()
    for record in sorted(records, key=lambda it: it.position):
        if record.topic == plan["told"]:
            told[noted(record).item] += 1
        elif record.topic == plan["handled"]:
            (first, number), _, chain = noted(record)
            handled[first, chain].append(number)
        elif record.topic.endswith(".dead-letter"):
            item = given_up(record)
            if item is not None:
                letters[item] += 1
                if dict(record.headers).get("dl.uncertain") == b"true":
                    uncertain.add(item)
        else:
            _event(record, events)
    times = Counter((first, n) for (first, _), numbers in handled.items() for n in numbers)
    return Finding[Item](
        {
            "lost": sorted(told.keys() - times.keys() - letters.keys()),
            "twice": sorted(item for item, count in (told + times).items() if told[item] != 1 or count > 2),
            "out of order": [(first, b) for (first, _), numbers in handled.items() for a, b in pairwise(numbers) if b < a],
            "undecided": sorted(uncertain | (times.keys() & letters.keys()) | {it for it, n in letters.items() if n > 1}),
        },
        {
            "dialogs": len(plan["dialogs"]), "items told": len(told), "handled": len(times), "dead letters": len(letters),
            **{f"{name} new dialogs": events[str(number)] for number, name in enumerate(("first", "second", "third"), 1)},
        },
    )  # fmt: skip


def noted(record: Record) -> Note:
    """Return what a handler noted in a plain topic."""
    note = json.loads(record.value or b"")
    return Note((note["first"], note["n"]), note.get("dialog", ""), note.get("chain", ""))


def given_up(record: Record) -> Item | None:
    """Return the item whose bytes a dead letter keeps. None for other letters, and for a letter whose message still waits in its dialog."""
    found = _ITEM.search(record.value or b"")
    if found is None or dict(record.headers).get("dl.held") == b"true":
        return None
    return found[1].decode(), int(found[2])


def _event(record: Record, events: Counter[str]) -> None:
    event = json.loads(record.value or b"{}")
    if event.get("event") == "RENEWED":
        events[str(event["generation"])] += 1


def topics(plan: Mapping[str, Any]) -> list[str]:
    """Name the topics that are read."""
    letters = [f"{plan['namespace']}.{service}.dead-letter" for service in plan["services"]]
    return [plan["told"], plan["handled"], f"{plan['namespace']}.events", *letters]


def main(arguments: Sequence[str] | None = None) -> int:
    """Check a run and print the finding; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos.checker.resends", description="Judge a chaos run of resends from its topics."
    )
    parser.add_argument("--bootstrap", required=True, help="brokers, as host:port,...")
    parser.add_argument("--records", required=True, type=Path, help="directory with plan.json")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    options = parser.parse_args(arguments)
    try:
        plan = json.loads((options.records / "plan.json").read_text(encoding="utf-8"))
        found = judge(plan, read(options.bootstrap, topics(plan)).records)
    except (OSError, ValueError, Unreachable) as error:
        sys.stderr.write(f"{error}\n")
        return KAFKA if isinstance(error, Unreachable) else USAGE
    sys.stdout.write(json.dumps(found.plain(), indent=2) if options.json else found.line)
    sys.stdout.write("\n")
    return CLEAN if found.clean else VIOLATED


if __name__ == "__main__":
    sys.exit(main())
