"""Entries of the journal: who decided, what, and about what."""

import json
from pathlib import Path
from typing import Any

import pytest

from conversations_ops.operate.events import Told
from conversations_ops.operate.journal import Entry, entry, joined
from conversations_ops.read_model.events import Wanted, events
from conversations_ops.read_model.file import File

OFF = {"event": "QUEUE_DISABLED", "service": "fraud", "partition": 1, "reason": "ConnectionError: down"}
ON = {"event": "QUEUE_ENABLED", "service": "fraud", "by": "ann", "reason": "INC-1"}


@pytest.mark.parametrize(
    ("fields", "who", "about"),
    [
        ({**OFF, "cause": "policy", "by": "Look"}, "policy", "partition 1, Look"),
        ({**OFF, "cause": "rollbacks", "by": "5 rollbacks in a row"}, "worker", "partition 1, 5 rollbacks in a row"),
        ({**OFF, "cause": "operator", "by": "ann"}, "ann", "partition 1"),
        ({**ON, "partition": 0}, "ann", "partition 0"),
        ({"event": "RESOLVED", "conversation": "c-1", "cause": "policy", "by": "ben"}, "ben", "c-1"),
        ({"event": "REDRIVE_STARTED", "redrive": "rd-1", "by": "ben", "letters": 4}, "ben", "rd-1"),
        ({"event": "SETTLED", "by": "ben", "letters": ["a", "b", "c", "d"]}, "ben", "a, b, c, 1 more letter"),
        ({"event": "GROUP_NOTED", "by": "ben", "exception": "KeyError", "type": "Check"}, "ben", "KeyError at Check"),
    ],
)
def test_who_is_a_person_or_the_policy_or_the_worker_and_never_a_type(
    fields: dict[str, Any], who: str, about: str
) -> None:
    found = entry(Told(7, fields))
    assert (found.at, found.who, found.about) == (7, who, about)


def test_an_entry_tells_how_a_redrive_ended_and_why() -> None:
    fields = {"event": "REDRIVE_ENDED", "redrive": "rd-1", "by": "ann", "reason": "too slow", "end": "stopped"}
    assert entry(Told(7, fields)) == Entry(7, "ann", "REDRIVE_ENDED stopped", "", "rd-1", "too slow")


def test_the_rows_of_two_partitions_differ() -> None:
    first, second = (entry(Told(7, {**ON, "partition": number})) for number in (0, 1))
    assert first != second


def test_what_nobody_decided_is_in_no_journal(tmp_path: Path) -> None:
    told: list[dict[str, Any]] = [
        {**OFF, "cause": "policy", "by": "Look"},
        {"event": "DIALOG_BROKEN", "service": "fraud", "by": "credit"},
        {"event": "REDRIVE_PROGRESS", "redrive": "rd-1", "by": "ann"},
        {"event": "BRAKE_ON", "service": "fraud"},
    ]
    with File(tmp_path / "model") as file:
        with file.transaction() as connection:
            for offset, it in enumerate(told):
                row = (offset, 7, it["event"], "fraud", "", "", it.get("by", ""), json.dumps(it))
                connection.execute("INSERT INTO events VALUES (?,?,?,?,?,?,?,?)", row)
        assert [it.told.name for it in events(file, Wanted(by_person=True))] == ["QUEUE_DISABLED"]


def test_one_decision_about_all_partitions_is_one_entry() -> None:
    def told(number: int, at: int = 7, **fields: Any) -> Entry:
        return entry(Told(at, {**ON, "partition": number, **fields}))

    def abouts(*entries: Entry) -> list[str]:
        return [it.about for it in joined(entries)]

    assert abouts(told(1), told(0, at=9), told(2)) == ["partitions 0 to 2"]
    assert abouts(told(5), told(0)) == ["partitions 0, 5"]
    assert abouts(told(0)) == ["partition 0"]
    assert abouts(told(0), told(1, by="ben")) == ["partition 0", "partition 1"]
    assert abouts(told(0), told(1, service="pay")) == ["partition 0", "partition 1"]
    assert abouts(told(0), told(1, at=60_000_000)) == ["partition 0", "partition 1"]
    assert abouts(told(0), told(1, event="QUEUE_DISABLED"), told(2)) == ["partition 0", "partition 1", "partition 2"]
