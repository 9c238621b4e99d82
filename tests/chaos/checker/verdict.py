"""What the checker found: violations by name, figures, and the account of every direction of every dialog."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

SHOWN = 50
"""Violations printed at most."""


class Class(Enum):
    """Headings of the figures."""

    LOST = "lost"
    TWICE = "twice"
    DISORDER = "out of order"
    STATE = "state disagrees"
    UNACCOUNTED = "unaccounted"


class Kind(Enum):
    """Every violation the checker knows, by name, and the heading it counts under."""

    COMMAND_LOST = "command lost", Class.LOST
    MESSAGE_LOST = "message lost", Class.LOST
    SEQUENCE_GAP = "gap in the numbers", Class.LOST
    REPLY_MISSING = "reply missing", Class.LOST
    END_LOST = "END lost", Class.LOST
    LETTER_LOST = "record neither used nor set aside", Class.LOST
    LETTER_BYTES = "dead letter without the original bytes", Class.LOST
    COPY_LACKS = "a reader lacks messages", Class.LOST
    COPY_TWICE = "a reader has messages twice", Class.TWICE
    COPY_INVENTS = "a reader has messages nobody sent", Class.UNACCOUNTED
    SENT_TWICE = "sent twice", Class.TWICE
    NUMBER_TWICE = "two messages with one number", Class.TWICE
    HANDLED_TWICE = "handled twice", Class.TWICE
    REPLY_TWICE = "reply twice", Class.TWICE
    LETTER_TWICE = "dead letter twice", Class.TWICE
    LETTER_NOT_OPEN = "dead letter that no row knows", Class.LOST
    LETTER_OF_HANDLED = "handled and dead-lettered", Class.TWICE
    ROW_REVIVED = "closed endpoint revived", Class.TWICE
    OUT_OF_ORDER = "out of order", Class.DISORDER
    HANDLER_ORDER = "handlers ran out of order", Class.DISORDER
    STATE_COUNT = "count of the group's state is off", Class.STATE
    STATE_DIGEST = "digest is off", Class.STATE
    STATE_MISSING = "group's state missing", Class.STATE
    ENDPOINT_ROW = "endpoint row disagrees", Class.STATE
    ENDPOINT_MISSING = "endpoint row missing", Class.STATE
    TOMBSTONE_MISSING = "tombstone missing", Class.STATE
    TOMBSTONE_EARLY = "tombstone forgotten too early", Class.STATE
    PARTITION_AHEAD = "position beyond the topic", Class.STATE
    PARTITION_BEHIND = "position behind the topic", Class.STATE
    PARTITION_MISSING = "partition row missing", Class.STATE
    LOG_TIME = "log time of the partition row is off", Class.STATE
    LETTER_ROW = "row of no open letter", Class.STATE
    QUEUE_OFF = "queue left off", Class.STATE
    COMMAND_ROW = "command row missing", Class.STATE
    ROW_BROKEN = "row cannot be read", Class.STATE
    WAITING_LEFT = "waiting row left behind", Class.UNACCOUNTED
    SUM = "sums do not agree", Class.UNACCOUNTED
    WRONG_PARTITION = "wrong partition", Class.UNACCOUNTED
    WRONG_BYTES = "not what was sent", Class.UNACCOUNTED
    SENT_BY_NOBODY = "sent by nobody", Class.UNACCOUNTED
    UNPLANNED_DIALOG = "dialog nobody planned", Class.UNACCOUNTED
    UNPLANNED_END = "ended without being asked", Class.UNACCOUNTED
    BROKEN_DIALOG = "dialog broken", Class.UNACCOUNTED
    UNBELIEVABLE = "broken record nobody injected", Class.UNACCOUNTED
    LETTER_UNFOUNDED = "dead letter without a reason", Class.UNACCOUNTED
    EVENT_MISSING = "set aside without an event", Class.UNACCOUNTED
    EVENT_UNFOUNDED = "event of nothing set aside", Class.UNACCOUNTED
    GAVE_UP = "message given up on", Class.UNACCOUNTED
    OTHER_FATE = "not what its policy says", Class.UNACCOUNTED
    NOT_TOLD = "skipped, and the sender not told", Class.UNACCOUNTED
    COMMAND_REFUSED = "command refused", Class.UNACCOUNTED
    ACKNOWLEDGED_UNSENT = "acknowledges what was never sent", Class.UNACCOUNTED
    HANDLER_MISSING = "handled without a handler's note", Class.UNACCOUNTED
    HANDLER_OF_NOTHING = "handler ran for what was never sent", Class.UNACCOUNTED
    NOTE_BROKEN = "handler's note cannot be read", Class.UNACCOUNTED
    OPEN_TRANSACTION = "transaction left open", Class.UNACCOUNTED

    def __init__(self, text: str, heading: Class) -> None:
        """Take the name and the heading apart."""
        self.text = text
        self.heading = heading


class Violation(NamedTuple):
    """One thing that must not be."""

    kind: Kind
    where: str
    """Dialog or position."""
    what: str

    def __str__(self) -> str:
        """Name, place and fact in one line."""
        return f"{self.kind.text}: {self.where}: {self.what}"


@dataclass(slots=True)
class Direction:
    """What became of the messages of one direction of one dialog, by number: the sum of the design's "nothing lost"."""

    sent: int = 0
    """Messages numbered by their sender, an END not included."""
    unread: set[int] = field(default_factory=set)
    waiting: set[int] = field(default_factory=set)
    """Kept as a row: held, delayed, or waiting for their handler."""
    handled: set[int] = field(default_factory=set)
    dead_lettered: set[int] = field(default_factory=set)
    missing: set[int] = field(default_factory=set)
    """What none of the others accounts for."""


@dataclass(slots=True)
class Verdict:
    """Everything found."""

    violations: list[Violation] = field(default_factory=list)
    figures: dict[str, int] = field(default_factory=dict)
    """Counts of what was there, by name."""
    account: dict[tuple[str, bool], Direction] = field(default_factory=dict)
    """By conversation and whether its messages go from the initiator to the target."""

    @property
    def clean(self) -> bool:
        """True when nothing is wrong."""
        return not self.violations

    def add(self, kind: Kind, where: str, what: str) -> None:
        """Note a violation."""
        self.violations.append(Violation(kind, where, what))

    def kinds(self) -> set[Kind]:
        """Which violations there are."""
        return {violation.kind for violation in self.violations}

    def count(self, heading: Class) -> int:
        """How many violations stand under a heading."""
        return sum(violation.kind.heading is heading for violation in self.violations)

    def lines(self) -> list[str]:
        """Return one line of figures, then one line per violation."""
        figures = self.figures
        shown = ["messages", "dialogs"]
        parts = [(name, figures.get(name, 0)) for name in shown]
        parts += [(heading.value, self.count(heading)) for heading in Class]
        parts += [(name, number) for name, number in figures.items() if name not in shown]
        lines = [" · ".join(f"{name} {number:,}" for name, number in parts)]
        lines += [str(violation) for violation in self.violations[:SHOWN]]
        if len(self.violations) > SHOWN:
            lines.append(f"and {len(self.violations) - SHOWN:,} more")
        return lines

    def plain(self) -> dict[str, Any]:
        """As JSON, violations complete."""
        return {
            "clean": self.clean,
            "line": self.lines()[0],
            "figures": self.figures,
            "headings": {heading.value: self.count(heading) for heading in Class},
            "violations": [
                {"name": violation.kind.text, "where": violation.where, "what": violation.what}
                for violation in self.violations
            ],
        }
