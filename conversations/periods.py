"""How long things last: every period of the product that is longer than ten seconds, as one frozen group of settings.

They belong together: all workers, clients and topics of a namespace have the same, and none may be changed so that another
one loses its meaning. ``Periods.scaled`` shortens all of them in one proportion, so that weeks can be lived through in a test.
Periods are microseconds, as all times of the protocol.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Self

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR


def _period(default: int, meaning: str, end: str) -> Any:
    """Declare a period, with the words that the table in docs/periods.md has for it."""
    return field(default=default, metadata={"meaning": meaning, "end": end})


@dataclass(frozen=True, kw_only=True)
class Periods:
    """Periods in microseconds; the defaults are safe together.

    Raises:
        ValueError: one is not positive, or two of them contradict each other.
    """

    lifetime: int = _period(
        1 * DAY, "lifetime of a dialog whose contract names none", "the dialog breaks on both sides (-8489)"
    )
    request_lifetime: int = _period(
        1 * MINUTE, "least lifetime of the dialog of a client's `request`", "the dialog breaks on both sides (-8489)"
    )
    start_within: int = _period(
        1 * HOUR,
        "log time within which a first message begins the peer's endpoint, unless its dialog lives shorter",
        "the message is refused",
    )
    clock_ahead: int = _period(
        1 * DAY,
        "how far beyond its record's log time a first message may claim to be good for",
        "the record is set aside: a tombstone would have to be kept for ever",
    )
    grace: int = _period(
        10 * MINUTE, "log time a tombstone outlives what could revive its dialog", "the tombstone is deleted"
    )
    tick_after: int = _period(
        1 * HOUR, "how long a queue is idle while tombstones wait for log time to pass", "the worker asks for a tick"
    )
    command_life: int = _period(
        1 * DAY,
        "log time for which a command is known to have taken effect, and how old or far ahead one may be",
        "its row is deleted; an older command is refused",
    )
    spoken_known: int = _period(
        23 * HOUR,
        "age up to which the Spark job `speak` writes a row again: the memory of commands, less the way there",
        "the row is refused",
    )
    spoken_ahead: int = _period(
        10 * MINUTE, "how far the time of a row of `speak` may be ahead of the job's clock", "the row is refused"
    )
    letter_life: int = _period(
        90 * DAY,
        "how long a letter is open, and dead-letter topics keep it",
        "the row of the letter is deleted, and the letter",
    )
    inbox_kept: int = _period(7 * DAY, "retention of queues and commands", "the record is deleted, read or not")
    retries_kept: int = _period(7 * DAY, "retention of retry topics, which only show", "the record is deleted")
    events_kept: int = _period(30 * DAY, "retention of the events", "the event is deleted")
    metrics_kept: int = _period(30 * DAY, "retention of the metrics", "the row is deleted")
    state_segment: int = _period(
        10 * MINUTE, "`segment.ms` of state topics", "the segment is closed, and can be compacted"
    )
    deletes_kept: int = _period(
        1 * DAY,
        "`delete.retention.ms` of state topics; a local copy is trusted for half of it",
        "the mark of a deleted row goes; an older copy is thrown away and built anew",
    )
    blocked_first: int = _period(
        4 * SECOND,
        "first pause of a destination that takes no records, doubled up to the last",
        "the destination is tried again",
    )
    blocked_last: int = _period(64 * SECOND, "longest such pause", "the destination is tried again")
    refused_after: int = _period(
        1 * HOUR,
        "how long an envelope waits for the right to write to its destination",
        "its dialog breaks (-8494), and its bytes become dead letters",
    )
    stale_after: int = _period(
        10 * MINUTE,
        "how long a partition is restored again while Kafka answers with rows from before what is committed",
        "the partition is set aside: acknowledged records are lost, or somebody put old ones there",
    )
    step: int = _period(
        1 * MINUTE,
        "width of the intervals by which times far ahead are kept in memory",
        "deadlines of the interval after the next are put in exact order; rows whose time it holds are forgotten",
    )
    topics_looked_at: int = _period(
        30 * SECOND, "from one look of a worker at its own topics to the next", "it asks whether they are the same"
    )
    unreachable_after: int = _period(
        20 * SECOND,
        "how long a worker's Kafka may leave its questions unanswered",
        "the worker is not ready, and the health page says what it tries; it goes on trying",
    )
    archive_stale: int = _period(
        1 * DAY,
        "age after which files that a broken write of the archive left are nobody's",
        "the next compaction deletes them",
    )

    def __post_init__(self) -> None:
        """Refuse periods that are wrong together: a record may not be gone before the last that still depends on it."""
        for name in (found.name for found in fields(self)):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be more than zero")
        for shorter, longer in _ORDER:
            least = sum(getattr(self, name) for name in shorter)
            if getattr(self, longer) <= least:
                raise ValueError(f"{longer} must be more than {' + '.join(shorter)}")
        if self.blocked_last < self.blocked_first:
            raise ValueError("blocked_last must not be less than blocked_first")

    def scaled(self, factor: float) -> Self:
        """Return periods that are all shorter by one factor.

        Raises:
            ValueError: one would be shorter than a millisecond, which Kafka counts in; or the factor is not positive.
        """
        if not factor > 0:
            raise ValueError(f"periods are divided by a positive number, not {factor}")
        shorter = {found.name: int(getattr(self, found.name) / factor) for found in fields(self)}
        if min(shorter.values()) < 1_000:
            raise ValueError(f"divided by {factor:g} some periods are shorter than a millisecond")
        return type(self)(**shorter)


_ORDER = (
    (("grace",), "tick_after"),
    (("grace",), "start_within"),
    (("start_within", "grace"), "command_life"),
    (("spoken_known",), "command_life"),
    (("lifetime", "grace"), "inbox_kept"),
    (("start_within", "grace"), "inbox_kept"),
    (("clock_ahead", "grace"), "inbox_kept"),
    (("command_life",), "inbox_kept"),
    (("inbox_kept",), "letter_life"),
    (("step",), "grace"),
    (("state_segment",), "deletes_kept"),
    (("grace",), "deletes_kept"),
)
"""What must be longer than what, in one proportion or not."""


def milliseconds(period: int) -> int:
    """Return a period as Kafka's settings and timestamps count it."""
    return period // 1_000
