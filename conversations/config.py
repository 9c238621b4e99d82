"""Every setting of the product: its name, unit, default, least value and meaning, in frozen groups. Every default is safe.

``docs/settings.md`` is made from here, and the settings file and the options of the command line take their names from here.
A length of more than ten seconds that stands elsewhere in the code needs a reason: ``tests/periods`` finds it.
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
    """A ``timedelta``; in periods whole microseconds, as all times of the protocol."""
    BYTES = "bytes"
    NUMBER = "number"
    SHARE = "share"
    """A part of one, from 0 to 1."""
    SWITCH = "switch"
    """A group of settings that is on, or None."""


def _setting(default: Any, unit: Unit, meaning: str, *, least: int = 1, end: str = "", never: bool = False) -> Any:
    """Declare a setting.

    ``least`` is its least value, 0 or 1; ``end`` what follows when its time is over; ``never`` says that it may be None.
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
    """How to reach a Kafka cluster; making one does no I/O."""

    bootstrap: str
    """``host:port[,host:port...]`` of some brokers."""
    namespace: str = field(default=DEFAULT_NAMESPACE, kw_only=True)
    """First part of every topic name."""
    settings: Mapping[str, Any] = field(default_factory=dict, kw_only=True, repr=False)
    """Further librdkafka settings, passed through: TLS, SASL, OAUTHBEARER, timeouts. No part of ``repr``: there are passwords."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds on everything that could grow.

    Raises:
        ValueError: one is not positive, or bodies are larger than a record of the queue may be.
    """

    body_bytes: int = _setting(900_000, Unit.BYTES, f"Largest body of one message; at most {BODY_BYTES:,}.")
    held_messages: int = _setting(
        1_000, Unit.NUMBER, "Messages of a dialog that are kept while an earlier message is missing."
    )
    held_bytes: int = _setting(
        64_000_000,
        Unit.BYTES,
        "Bytes of held messages per partition. At the limit, the dialog of the next held message breaks.",
    )
    delayed_bytes: int = _setting(
        256_000_000,
        Unit.BYTES,
        "Bytes per partition that wait for a destination that takes no records. At the limit, handlers that would add to them wait too.",
    )
    dialog_bytes: int = _setting(
        16_000_000,
        Unit.BYTES,
        "Held bytes of one dialog, and delayed bytes of one dialog. The end of the dialog puts so much into one transaction.",
    )
    step_bytes: int = _setting(
        32_000_000,
        Unit.BYTES,
        "Bytes that a step reads, and bytes that it writes, before it takes on nothing more. "
        "A transaction may have both, and what the last item adds.",
    )
    waiting_bytes: int = _setting(
        64_000_000,
        Unit.BYTES,
        "Bytes of waiting rows per partition. At the limit, the partition reads its queue no further.",
    )
    parked_messages: int = _setting(
        10_000, Unit.NUMBER, "Messages of a dialog that wait behind a failed message. A dialog with more breaks."
    )
    parked_bytes: int = _setting(
        64_000_000,
        Unit.BYTES,
        "Bytes per partition that wait behind failed messages. At the limit, the dialog of the next such message breaks. "
        "As many bytes may also wait for the brake while messages of other peers are handled. "
        "When other messages that wait for their queue reach the limit, the partition reads its queue no further.",
    )
    cached_endpoints: int = _setting(
        50_000,
        Unit.NUMBER,
        "Endpoints that a worker keeps decoded in memory; its partitions share them. One takes about 3 KB with its lane, "
        "and up to 4 KB of its group's state. Larger groups are read from the local copy when they are needed.",
    )

    def __post_init__(self) -> None:
        """Refuse limits that would stop a worker later."""
        _check_least(self)
        if self.body_bytes > BODY_BYTES:
            raise ValueError(
                f"body_bytes is at most {BODY_BYTES}: with what surrounds it a message must fit its topics"
            )


@dataclass(frozen=True, kw_only=True)
class Brake:
    """How many different dialogs of a peer may fail in a while before a worker slows down to one of its messages at a time.

    A release that fails on every message would otherwise give up on all of them. While the brake is on for a peer nothing of it is
    given up on and no attempt counts: its messages wait in their order, one of them is tried every ``probe``, and the first that
    succeeds ends it. Peers whose messages are handled go on as ever. When several peers fail, what fails of the others counts for
    each, of every other peer at most half of ``dialogs``: one alone brakes nobody else, and all of them nobody who has not failed at least
    twice.

    Raises:
        DeclarationError: a number or a time that is not positive, a share above 1, or more dialogs than are remembered.
    """

    MOST_DIALOGS: ClassVar[int] = 10_000
    """Failed dialogs of a peer that a worker remembers."""

    dialogs: int = _setting(
        100,
        Unit.NUMBER,
        f"Different dialogs of a peer that must have failed within the window; at most {MOST_DIALOGS:,}.",
    )
    share: float = _setting(
        0.5,
        Unit.SHARE,
        "The part that failures must be of all handlers of the peer in the window. With 0 the number of dialogs alone counts.",
        least=0,
    )
    window: timedelta = _setting(timedelta(seconds=60), Unit.TIME, "How long a failure counts.")
    probe: timedelta = _setting(
        timedelta(seconds=1), Unit.TIME, "From one try to the next while the brake is on for a peer."
    )

    def __post_init__(self) -> None:
        """Refuse limits that make no sense."""
        if not 1 <= self.dialogs <= self.MOST_DIALOGS or not 0 <= self.share <= 1:
            raise DeclarationError(f"a brake: dialogs is from 1 to {self.MOST_DIALOGS}, share from 0 to 1")
        if min(self.window, self.probe) <= timedelta(0):
            raise DeclarationError("a brake: window and probe are more than zero")

    def scaled(self, factor: float) -> Brake:
        """Return the same with times that are shorter by a factor."""
        return replace(self, window=self.window / factor, probe=self.probe / factor)


@dataclass(frozen=True, kw_only=True)
class Periods:
    """Every period of the product that is longer than ten seconds, in microseconds; the defaults are safe together.

    They belong to a namespace: its workers, clients and topics have the same. ``Periods.scaled`` shortens all of them in one
    proportion, so that weeks can be lived through in a test.

    Raises:
        ValueError: one is not positive, or two of them contradict each other.
    """

    lifetime: int = _period(
        1 * DAY, "Lifetime of a dialog whose contract names none.", "the dialog breaks on both sides (-8489)"
    )
    request_lifetime: int = _period(
        1 * MINUTE, "Least lifetime of the dialog of a client's `request`.", "the dialog breaks on both sides (-8489)"
    )
    start_within: int = _period(
        1 * HOUR,
        "Log time within which a first message begins the peer's endpoint. A dialog that lives shorter has its lifetime for it.",
        "the message is refused",
    )
    clock_ahead: int = _period(
        1 * DAY,
        "How far the end of a first message's time may be ahead of the log time of its record.",
        "the record is set aside, because its tombstone would have to be kept for ever",
    )
    grace: int = _period(
        10 * MINUTE,
        "Log time that a tombstone stays after the last message that could begin its dialog again.",
        "the tombstone is deleted",
    )
    tick_after: int = _period(
        1 * HOUR, "How long a queue is idle while tombstones wait for log time to pass.", "the worker asks for a tick"
    )
    command_life: int = _period(
        1 * DAY,
        "Log time for which a worker knows that a command took effect; also how old, or how far ahead, a command may be.",
        "the row of the command is deleted; an older command is refused",
    )
    spoken_known: int = _period(
        23 * HOUR,
        "Age up to which the Spark job `speak` writes a row again: `command_life` less the time on the way.",
        "the row is refused",
    )
    spoken_ahead: int = _period(
        10 * MINUTE, "How far the time of a row of `speak` may be ahead of the job's clock.", "the row is refused"
    )
    letter_life: int = _period(
        90 * DAY,
        "How long a letter is open; also the retention of dead-letter topics.",
        "the row of the letter is deleted, and the letter",
    )
    inbox_kept: int = _period(7 * DAY, "Retention of queues and commands.", "the record is deleted, read or not")
    retries_kept: int = _period(7 * DAY, "Retention of retry topics, which only show.", "the record is deleted")
    events_kept: int = _period(30 * DAY, "Retention of the events.", "the event is deleted")
    metrics_kept: int = _period(30 * DAY, "Retention of the metrics.", "the row is deleted")
    state_segment: int = _period(
        10 * MINUTE, "`segment.ms` of state topics.", "the segment is closed, and can be compacted"
    )
    deletes_kept: int = _period(
        1 * DAY,
        "`delete.retention.ms` of state topics. A local copy is trusted for half of it.",
        "the mark of a deleted row goes; an older copy is thrown away and built anew",
    )
    blocked_first: int = _period(
        4 * SECOND,
        "First pause of a destination that takes no records. Each pause is twice the one before, up to `blocked_last`.",
        "the destination is tried again",
    )
    blocked_last: int = _period(
        64 * SECOND, "Longest pause of a destination that takes no records.", "the destination is tried again"
    )
    refused_after: int = _period(
        1 * HOUR,
        "How long an envelope waits for the right to write to its destination.",
        "its dialog breaks (-8494), and its bytes become dead letters",
    )
    stale_after: int = _period(
        10 * MINUTE,
        "How long a partition is restored again while Kafka's answers lack committed rows.",
        "the partition is set aside: acknowledged records are lost, or somebody put old records there",
    )
    step: int = _period(
        1 * MINUTE,
        "Width of the intervals by which far deadlines are kept in memory.",
        "the deadlines of the interval after the next are put in exact order, and rows whose time has come are forgotten",
    )
    topics_looked_at: int = _period(
        30 * SECOND,
        "Time between two looks of a worker at its own topics.",
        "the worker asks whether its topics are the same",
    )
    unreachable_after: int = _period(
        20 * SECOND,
        "How long Kafka may leave a worker's questions unanswered.",
        "the worker is not ready and goes on trying; the health page says what it tries",
    )
    archive_stale: int = _period(
        1 * DAY,
        "Age after which files of an unfinished write of the archive belong to nobody.",
        "the next compaction deletes them",
    )

    def __post_init__(self) -> None:
        """Refuse periods that are wrong together: a record may not be gone before the last that still depends on it."""
        _check_least(self)
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

_BRAKE = Brake()
_LIMITS = Limits()
_PERIODS = Periods()


@dataclass(frozen=True, kw_only=True)
class WorkerSettings:
    """How a worker works.

    Raises:
        ValueError: a number or a time is less than its least value.
    """

    concurrency: int = _setting(
        16, Unit.NUMBER, "Handlers that may run at the same time. Handlers that never wait use one thread in any case."
    )
    batch: int = _setting(5_000, Unit.NUMBER, "Records that a step reads at most.")
    step: timedelta = _setting(
        timedelta(seconds=1),
        Unit.TIME,
        "How long a step works before it takes on nothing more. The rest follows in the next step.",
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
        "How long a partition that moves away, or a worker that stops, waits for running handlers.",
        least=0,
    )
    clock_off: timedelta = _setting(
        timedelta(seconds=10),
        Unit.TIME,
        "How far the machine's clock may be off the log's before the worker warns. The worker goes by the log's clock in any case.",
        least=0,
    )
    deaths: int = _setting(
        3,
        Unit.NUMBER,
        "Deaths of the process, while the handler of a message ran and nothing else was suspect, before the message is given up on.",
    )
    rollbacks: int | None = _setting(
        5,
        Unit.NUMBER,
        "Steps in a row that fail in the code around a handler before the queue of the partition goes off; `never` (in code None): it stays on.",
        never=True,
    )
    brake: Brake | None = _setting(
        _BRAKE,
        Unit.SWITCH,
        "Whether a peer whose dialogs fail by the hundred is slowed down: `on` or `off` (in code None).",
        least=0,
    )
    limits: Limits = _LIMITS
    periods: Periods = _PERIODS
    """The periods of all workers, clients and topics of the namespace."""
    slot: str | None = None
    """Names this worker across restarts, so that a restart ends the transaction its predecessor left open."""

    def __post_init__(self) -> None:
        """Refuse values that a worker could not work with."""
        _check_least(self)

    def scaled(self, factor: float) -> WorkerSettings:
        """Return the same with all periods shorter by a factor, and the brake's times; handlers get no less time.

        Raises:
            ValueError: as ``Periods.scaled``.
        """
        periods = self.periods.scaled(factor)  # checks the factor
        return replace(self, periods=periods, brake=None if self.brake is None else self.brake.scaled(factor))
