"""Every setting of the product: its name, unit, default, least value and meaning, in frozen groups. Every default is safe.

``docs/settings.md`` is generated from this module. The settings file and the command line use the names of this module.
Any other duration of more than ten seconds in the code needs a reason. ``tests/periods`` finds durations without a reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from enum import StrEnum
from typing import Any, ClassVar, Self

from conversations.errors import DeclarationError
from conversations.protocol.limits import BODY_BYTES
from conversations.protocol.topics import DEFAULT_NAMESPACE
from conversations.units import DAY, HOUR, MINUTE, SECOND


class Unit(StrEnum):
    """The unit of a setting."""

    TIME = "time"
    """A ``timedelta``; in ``Periods`` whole microseconds, like all times of the protocol."""
    BYTES = "bytes"
    NUMBER = "number"
    SHARE = "share"
    """A part of one, from 0 to 1."""
    SWITCH = "switch"
    """A group of settings, or None for off."""


def _setting(default: Any, unit: Unit, meaning: str, *, least: int = 1, end: str = "", never: bool = False) -> Any:
    """Declare a setting.

    ``least`` is its least value, 0 or 1. ``end`` tells what happens when its time is over. ``never`` is True if it may be None.
    """
    told = {"unit": unit, "meaning": meaning, "least": least, "end": end, "never": never}
    return field(default=default, metadata=told)


def _period(default: int, meaning: str, end: str) -> Any:
    """Declare a period, in microseconds."""
    return _setting(default, Unit.TIME, meaning, end=end)


def _check_least(group: Any) -> None:
    for it in fields(group):
        value, least = getattr(group, it.name), it.metadata.get("least", 0)
        if isinstance(value, timedelta):
            value //= timedelta(microseconds=1)
        if isinstance(value, int | float) and value < least:
            raise ValueError(f"{it.name} must {'be more than zero' if least else 'not be less than zero'}")


@dataclass(frozen=True)
class Kafka:
    """Address and settings of a Kafka cluster. Making this object does no I/O."""

    bootstrap: str
    """Addresses of some brokers: ``host:port[,host:port...]``."""
    namespace: str = field(default=DEFAULT_NAMESPACE, kw_only=True)
    """First part of every topic name."""
    settings: Mapping[str, Any] = field(default_factory=dict, kw_only=True, repr=False)
    """More librdkafka settings, passed on unchanged: TLS, SASL, OAUTHBEARER, timeouts. ``repr`` leaves them out: they may be secret."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds on everything that could grow.

    Raises:
        ValueError: a limit is not positive, or ``body_bytes`` is more than a record of the queue can have.
    """

    body_bytes: int = _setting(900_000, Unit.BYTES, f"Largest body of one message; at most {BODY_BYTES:,}.")
    held_messages: int = _setting(
        1_000, Unit.NUMBER, "Messages of a dialog that are kept while an earlier message is missing."
    )
    held_bytes: int = _setting(
        64_000_000,
        Unit.BYTES,
        "Bytes of held messages per partition. At the limit, the dialog of the next message that would be held breaks.",
    )
    delayed_bytes: int = _setting(
        256_000_000,
        Unit.BYTES,
        "Bytes of delayed messages per partition. At the limit, a handler that sends to a destination that takes no records is run again later.",
    )
    dialog_bytes: int = _setting(
        16_000_000,
        Unit.BYTES,
        "Most held bytes of one dialog, and most delayed bytes of one dialog. When the dialog ends, they all go into one transaction.",
    )
    step_bytes: int = _setting(
        32_000_000,
        Unit.BYTES,
        "Bytes that a step reads, and bytes that it writes, before it starts no further work. "
        "A transaction may be as large as both together, plus the records of the last item.",
    )
    waiting_bytes: int = _setting(
        64_000_000,
        Unit.BYTES,
        "Bytes of waiting rows per partition. At the limit, the partition stops reading its queue until half of them are gone.",
    )
    parked_messages: int = _setting(
        10_000, Unit.NUMBER, "Messages of a dialog that may wait behind a failed message. A dialog with more breaks."
    )
    parked_bytes: int = _setting(
        64_000_000,
        Unit.BYTES,
        "Bytes per partition that wait behind failed messages. At the limit, the dialog of the next such message breaks. "
        "The same limit holds, separately, for bytes that wait for the brake while messages of other peers are handled. "
        "When all other bytes that wait for the brake or for their queue to be on reach the limit, the partition stops reading its queue.",
    )
    cached_endpoints: int = _setting(
        50_000,
        Unit.NUMBER,
        "Endpoints that a worker keeps decoded in memory, for all its partitions together. An endpoint takes about 3 KB with its lane, "
        "and up to 4 KB for the state of its group. Larger state is read from the local copy each time it is needed.",
    )

    def __post_init__(self) -> None:
        """Refuse limits that would stop a worker later."""
        _check_least(self)
        if self.body_bytes > BODY_BYTES:
            raise ValueError(
                f"body_bytes is at most {BODY_BYTES}: the body and the rest of the envelope must fit into one record"
            )


@dataclass(frozen=True, kw_only=True)
class Brake:
    """When a worker brakes a peer: after how many failed dialogs, and how often it then tries one of the peer's messages.

    Without the brake, a release that fails on every message would give up on every message. While the brake is on for a peer, no
    attempt counts, and none of its messages is given up on. The messages wait in their order, and one of them is tried every
    ``probe``. The first that succeeds turns the brake off. The messages of other peers are handled as before.

    When several peers fail, failed dialogs of the others count for a peer too, from each other peer at most half of ``dialogs``. So one
    failing peer alone does not brake the others. A peer is braked only if it has at least two failed dialogs itself, and at least a
    twentieth of ``dialogs``.

    Raises:
        DeclarationError: a number or a time is not positive, the share is above 1, or ``dialogs`` is above ``MOST_DIALOGS``.
    """

    MOST_DIALOGS: ClassVar[int] = 10_000
    """Most failed dialogs of a peer that a worker remembers."""

    dialogs: int = _setting(
        100,
        Unit.NUMBER,
        f"Number of different failed dialogs within the window that turns the brake on for a peer; at most {MOST_DIALOGS:,}.",
    )
    share: float = _setting(
        0.5,
        Unit.SHARE,
        "Least share of the peer's handlers in the window that must have failed. With 0 only the number of dialogs counts.",
        least=0,
    )
    window: timedelta = _setting(timedelta(seconds=60), Unit.TIME, "How long a failure counts.")
    probe: timedelta = _setting(
        timedelta(seconds=1), Unit.TIME, "Time between two messages of a peer that are tried while its brake is on."
    )

    def __post_init__(self) -> None:
        """Refuse limits that make no sense."""
        if not 1 <= self.dialogs <= self.MOST_DIALOGS or not 0 <= self.share <= 1:
            raise DeclarationError(f"a brake: dialogs is from 1 to {self.MOST_DIALOGS}, share from 0 to 1")
        if min(self.window, self.probe) <= timedelta(0):
            raise DeclarationError("a brake: window and probe are more than zero")

    def scaled(self, factor: float) -> Brake:
        """Return a copy whose times are divided by ``factor``."""
        return replace(self, window=self.window / factor, probe=self.probe / factor)


@dataclass(frozen=True, kw_only=True)
class Periods:
    """Every period of the product that is longer than ten seconds, in microseconds. The defaults are safe together.

    Periods belong to a namespace: all its workers, clients and topics must have the same periods. ``Periods.scaled`` divides
    all periods by one factor, so that a test can cover weeks.

    Raises:
        ValueError: a period is not positive, or two of them contradict each other.
    """

    lifetime: int = _period(
        1 * DAY, "Lifetime of a dialog whose contract names none.", "the dialog breaks on both sides (-8489)"
    )
    request_lifetime: int = _period(
        1 * MINUTE, "Least lifetime of the dialog of a client's `request`.", "the dialog breaks on both sides (-8489)"
    )
    start_within: int = _period(
        1 * HOUR,
        "Log time after its transmission within which a first message can begin the peer's endpoint. A shorter lifetime of the dialog shortens it.",
        "the message is refused",
    )
    clock_ahead: int = _period(
        1 * DAY,
        "A first message says until when it may begin its dialog. This is how far that time may be after the log time of its record.",
        "a record with a later time is set aside, because its tombstone would have to be kept as long",
    )
    grace: int = _period(
        10 * MINUTE,
        "Log time that a tombstone stays after the time when a message could last begin its dialog again.",
        "the tombstone is deleted",
    )
    tick_after: int = _period(
        1 * HOUR,
        "How long a queue may be idle while tombstones wait for log time to pass.",
        "the worker writes a tick, by which log time passes",
    )
    command_life: int = _period(
        1 * DAY,
        "Log time for which a worker remembers that a command took effect; also the most that a command may be old, or ahead in time.",
        "the row of the command is deleted; an older command is refused",
    )
    spoken_known: int = _period(
        23 * HOUR,
        "Age up to which the Spark job `speak` writes a row again: `command_life` minus the time that the command needs to arrive.",
        "the row is refused",
    )
    spoken_ahead: int = _period(
        10 * MINUTE,
        "How far the time of a row of the Spark job `speak` may be ahead of the job's clock.",
        "the row is refused",
    )
    letter_life: int = _period(
        90 * DAY,
        "How long a letter is open; also the retention of dead-letter topics.",
        "the row of the letter and the letter are deleted",
    )
    inbox_kept: int = _period(
        7 * DAY, "Retention of queue topics and commands topics.", "the record is deleted, whether it was read or not"
    )
    retries_kept: int = _period(
        7 * DAY, "Retention of retry topics. Operators read them; workers do not.", "the record is deleted"
    )
    events_kept: int = _period(30 * DAY, "Retention of the events topic.", "the event is deleted")
    metrics_kept: int = _period(30 * DAY, "Retention of the metrics topic.", "the row is deleted")
    state_segment: int = _period(
        10 * MINUTE, "`segment.ms` of state topics.", "the segment is closed, and can be compacted"
    )
    deletes_kept: int = _period(
        1 * DAY,
        "`delete.retention.ms` of state topics. A local copy is trusted for half of this time.",
        "Kafka drops the null record of a deleted row; an older local copy is thrown away and restored from its topic",
    )
    blocked_first: int = _period(
        4 * SECOND,
        "First pause before a destination that takes no records is tried again. Each pause is twice the one before, up to `blocked_last`.",
        "the destination is tried again",
    )
    blocked_last: int = _period(
        64 * SECOND,
        "Longest pause before a destination that takes no records is tried again.",
        "the destination is tried again",
    )
    refused_after: int = _period(
        1 * HOUR,
        "How long an envelope waits while the worker has no right to write to its destination.",
        "its dialog breaks (-8494), and the bytes of its envelopes become dead letters",
    )
    stale_after: int = _period(
        10 * MINUTE,
        "How long a worker repeats the restore of a partition while Kafka's answers lack committed rows.",
        "the partition is set aside: either Kafka lost acknowledged records, or old records were put back",
    )
    step: int = _period(
        1 * MINUTE,
        "Length of the intervals in which far deadlines are kept in memory.",
        "the deadlines of the interval after the next are put in exact order, and rows whose time has come are deleted",
    )
    topics_looked_at: int = _period(
        30 * SECOND,
        "Time between two checks of a worker's own topics.",
        "the worker asks Kafka whether its topics are still the same",
    )
    unreachable_after: int = _period(
        20 * SECOND,
        "How long Kafka may leave a worker's calls unanswered.",
        "the worker counts as not ready and keeps trying; the health page shows the unanswered call",
    )
    archive_stale: int = _period(
        1 * DAY,
        "Age after which files of an unfinished write of the archive are no longer needed.",
        "the next run of the archive deletes them",
    )

    def __post_init__(self) -> None:
        """Refuse periods that contradict each other. A record must outlive everything that depends on it."""
        _check_least(self)
        for shorter, longer in _ORDER:
            least = sum(getattr(self, name) for name in shorter)
            if getattr(self, longer) <= least:
                raise ValueError(f"{longer} must be more than {' + '.join(shorter)}")
        if self.blocked_last < self.blocked_first:
            raise ValueError("blocked_last must not be less than blocked_first")

    def scaled(self, factor: float) -> Self:
        """Return a copy with all periods divided by ``factor``.

        Raises:
            ValueError: the factor is not positive, or a period would be shorter than Kafka's unit, a millisecond.
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
"""Pairs of periods: the second must be longer than the sum of the first ones."""

_BRAKE = Brake()
_LIMITS = Limits()
_PERIODS = Periods()


@dataclass(frozen=True, kw_only=True)
class WorkerSettings:
    """Settings of a worker.

    Raises:
        ValueError: a number or a time is less than its least value.
    """

    concurrency: int = _setting(
        16, Unit.NUMBER, "Most handlers that run at the same time. Handlers that never wait share one thread anyway."
    )
    batch: int = _setting(5_000, Unit.NUMBER, "Most records that a step reads.")
    step: timedelta = _setting(
        timedelta(seconds=1),
        Unit.TIME,
        "How long a step works before it starts no further work. The rest follows in the next step.",
        least=0,
    )
    patience: timedelta = _setting(
        timedelta(milliseconds=50),
        Unit.TIME,
        "How long a step waits for its handlers before it commits without the slow ones.",
        least=0,
    )
    revocation: timedelta = _setting(
        timedelta(seconds=5),
        Unit.TIME,
        "How long running handlers may take to finish when their partition moves to another worker or their worker stops.",
        least=0,
    )
    clock_off: timedelta = _setting(
        timedelta(seconds=10),
        Unit.TIME,
        "Most difference between the machine's clock and the log's time without a warning. The worker always uses the log's time.",
        least=0,
    )
    deaths: int = _setting(
        3,
        Unit.NUMBER,
        "Number of process deaths, with this message's handler running and nothing else suspect, after which the message is given up on.",
    )
    rollbacks: int | None = _setting(
        5,
        Unit.NUMBER,
        "Number of steps in a row that fail in this library's code around a handler, after which the queue of the partition goes off. "
        "With `never` (in code None) it stays on.",
        never=True,
    )
    brake: Brake | None = _setting(
        _BRAKE,
        Unit.SWITCH,
        "The brake, which slows down a peer when very many of its dialogs fail: `on` or `off` (in code None).",
        least=0,
    )
    limits: Limits = _LIMITS
    periods: Periods = _PERIODS
    """Periods of the namespace, the same for all its workers, clients and topics."""
    slot: str | None = None
    """Name of this worker, the same after a restart. A restarted worker aborts the open transaction of the one before."""

    def __post_init__(self) -> None:
        """Refuse values below their least value."""
        _check_least(self)

    def scaled(self, factor: float) -> WorkerSettings:
        """Return a copy with all periods and the brake's times divided by ``factor``. The time limits of handlers stay.

        Raises:
            ValueError: as ``Periods.scaled``.
        """
        periods = self.periods.scaled(factor)  # checks the factor
        return replace(self, periods=periods, brake=None if self.brake is None else self.brake.scaled(factor))
