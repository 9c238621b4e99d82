"""The settings of the product, in groups. Each setting has a name, a unit, a default, a minimum and a meaning. All defaults are safe.

The tables of ``docs/settings.md`` are generated from this module. The settings file and the command line use the names of this module.
The reason for any other duration of more than ten seconds in the code must be in ``tests/periods/exceptions.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from typing import Any, ClassVar, Self

from conversations.config_checks import check_bootstrap, check_least, check_types
from conversations.durations import DAY, HOUR, MINUTE, SECOND
from conversations.errors import DeclarationError
from conversations.protocol.limits import BODY_BYTES, FRAGMENT_BYTES, FRAGMENTS, RECORD_BODY
from conversations.protocol.topics import DEFAULT_NAMESPACE
from conversations.seal_keys import KeyProvider, check_place
from conversations.setting import Unit, period, setting

TEXT, JSON = "text", "json"
"""The forms of log lines."""


@dataclass(frozen=True)
class Kafka:
    """Address and settings of a Kafka cluster. Making this object does no I/O.

    Raises:
        DeclarationError: ``bootstrap`` is not a text of addresses ``host:port``.
    """

    bootstrap: str
    """Addresses of some brokers: ``host:port[,host:port...]``."""
    namespace: str = field(default=DEFAULT_NAMESPACE, kw_only=True)
    """First part of every topic name."""
    settings: Mapping[str, Any] = field(default_factory=dict, kw_only=True, repr=False)
    """Further settings for librdkafka: TLS, SASL, OAUTHBEARER, timeouts. ``repr`` does not show them, because they may be secret."""

    def __post_init__(self) -> None:
        """Refuse what cannot be the addresses of brokers."""
        check_bootstrap(self.bootstrap)


def check_kafka(given: object) -> None:
    """Check that an argument is a ``Kafka``.

    Raises:
        DeclarationError: it is something else, for example the text of an address.
    """
    if not isinstance(given, Kafka):
        raise DeclarationError(f"the cluster is given as Kafka('host:9092'), not as {given!r:.80}")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits for everything that could grow.

    Raises:
        ValueError: a limit is no positive whole number, or is larger than what fits into a record or a message.
    """

    body_bytes: int = setting(
        64_000_000, Unit.BYTES, f"Maximum bytes of the body of one message. The setting is at most {BODY_BYTES:,}."
    )
    fragment_bytes: int = setting(
        512_000, Unit.BYTES, f"Bytes of a body that go into one record. A larger body is sent in fragments, each in a record of its own. The setting is at most {FRAGMENT_BYTES:,}.",
    )  # fmt: skip
    assembled_bytes: int = setting(
        1_000_000_000, Unit.BYTES, "Maximum bytes of fragments per partition whose messages are not handled yet. At the limit, the dialog of a further message in fragments breaks.",
    )  # fmt: skip
    held_messages: int = setting(
        1_000, Unit.NUMBER, "Maximum number of held messages per dialog. Held messages wait for an earlier message that is missing.",
    )  # fmt: skip
    held_bytes: int = setting(
        64_000_000, Unit.BYTES, "Maximum bytes of held messages per partition. At the limit, the dialog of a further message breaks, and the message is not held.",
    )  # fmt: skip
    delayed_bytes: int = setting(
        256_000_000, Unit.BYTES, "Maximum bytes of delayed messages per partition. At the limit, a handler cannot send to a destination that accepts no records, and the handler runs again later.",
    )  # fmt: skip
    dialog_bytes: int = setting(
        16_000_000, Unit.BYTES, "Maximum bytes of one dialog that are held, that are delayed, and that are kept until they are acknowledged. The limit holds for each of the three. When the dialog ends, all these bytes go into one transaction.",
    )  # fmt: skip
    unacknowledged_bytes: int = setting(
        1_000_000_000, Unit.BYTES, "Maximum bytes of unacknowledged messages that a partition keeps as rows, to send them again. At this limit, and if a dialog has `dialog_bytes` of them, further messages are sent but not kept.",
    )  # fmt: skip
    step_bytes: int = setting(
        32_000_000, Unit.BYTES, "A step that has read this many bytes reads no further records. A step that has written this many bytes starts no further work. A transaction may have twice as many bytes as this limit, plus the records of the last item.",
    )  # fmt: skip
    flow_bytes: int = setting(
        2_000_000, Unit.BYTES, "Bytes of fragments that a step transmits, and of large records that it reads. Further ones wait for the next steps, so that a large message does not hold up other dialogs.",
    )  # fmt: skip
    waiting_bytes: int = setting(
        64_000_000, Unit.BYTES, "Maximum bytes of waiting rows per partition. Above the limit, the partition stops reading its queue until the bytes are less than half of the limit.",
    )  # fmt: skip
    parked_messages: int = setting(
        10_000, Unit.NUMBER, "Maximum number of messages of a dialog that wait behind a failed message. If there are more, the dialog breaks.",
    )  # fmt: skip
    parked_bytes: int = setting(
        64_000_000,
        Unit.BYTES,
        "Maximum bytes per partition that wait behind failed messages. Above the limit, the next message does not wait: its dialog breaks. The same limit holds for two other kinds of bytes. Each of these kinds is counted separately. The first kind is messages that are parked by the brake, while messages of other peers are handled. The second kind is all other messages that are parked by the brake, or because the queue is off. If the second kind is above the limit, the partition stops reading its queue.",
    )
    cached_bytes: int = setting(
        0, Unit.BYTES, "Bytes of endpoints that a worker keeps decoded in memory, for all its partitions together. 0 is an eighth of the memory of the machine or container. An endpoint and its lane count as 3 kB; the state of its group takes up to 4 KB more. Larger state is read from the local copy each time it is needed.", least=0,
    )  # fmt: skip

    @property
    def record_body(self) -> int:
        """Largest body of a message that comes in one record: of a feed, a pool or an operator, in bytes."""
        return min(self.body_bytes, RECORD_BODY)

    def __post_init__(self) -> None:
        """Refuse limits that would stop a worker later."""
        check_least(self)
        if self.body_bytes > BODY_BYTES:
            raise ValueError(f"body_bytes is at most {BODY_BYTES}: a message goes into one transaction")
        if self.fragment_bytes > FRAGMENT_BYTES:
            raise ValueError(
                f"fragment_bytes is at most {FRAGMENT_BYTES}: the fragment and the rest of the envelope must fit into one record"
            )
        if self.body_bytes > self.fragment_bytes * FRAGMENTS:
            raise ValueError(
                f"body_bytes is at most {FRAGMENTS} times fragment_bytes: a message has at most {FRAGMENTS} fragments"
            )


@dataclass(frozen=True, kw_only=True)
class Brake:
    """The settings of the brake: how many failed dialogs of a peer turn it on, and how often a message of the peer is tried then.

    Without the brake, a release of the application that fails on every message would give up on every message. While the brake is on for
    a peer, no attempt counts, and no message of the peer is given up on. The messages wait in their order. Once in each
    interval ``probe``, the worker tries one of them. The first message that succeeds turns the brake off. The messages of other peers are
    handled as before.

    When the messages of several peers fail, a peer's number of failed dialogs includes dialogs of the other peers. Each other peer adds at
    most half of the setting ``dialogs``. So the failures of one peer do not turn the brake on for others. The brake turns on for a peer
    only if the peer itself has at least two failed dialogs (one if ``dialogs`` is 1), and at least a twentieth of ``dialogs``.

    Raises:
        DeclarationError: a setting has a wrong type, a number or a time is not positive, the share is above 1, or ``dialogs`` is above ``MOST_DIALOGS``.
    """

    MOST_DIALOGS: ClassVar[int] = 10_000
    """Maximum number of failed dialogs of a peer that a worker remembers."""

    dialogs: int = setting(
        100,
        Unit.NUMBER,
        f"If a peer has this number of failed dialogs within the window, the brake turns on. The setting is at most {MOST_DIALOGS:,}.",
    )
    share: float = setting(
        0.5,
        Unit.SHARE,
        "The brake turns on only if at least this share of the peer's handlers in the window failed. With 0, only the number of dialogs decides.",
        least=0,
    )
    window: timedelta = setting(timedelta(seconds=60), Unit.TIME, "How long a failure counts for the brake.")
    probe: timedelta = setting(
        timedelta(seconds=1), Unit.TIME, "Time between two messages of a peer that are tried while its brake is on."
    )

    def __post_init__(self) -> None:
        """Refuse limits that make no sense."""
        check_types(self, DeclarationError)
        if not 1 <= self.dialogs <= self.MOST_DIALOGS or not 0 <= self.share <= 1:
            raise DeclarationError(f"a brake: dialogs is from 1 to {self.MOST_DIALOGS}, share from 0 to 1")
        if min(self.window, self.probe) <= timedelta(0):
            raise DeclarationError("a brake: window and probe are more than zero")

    def scaled(self, factor: float) -> Brake:
        """Return a copy whose times are divided by ``factor``."""
        return replace(self, window=self.window / factor, probe=self.probe / factor)


@dataclass(frozen=True, kw_only=True)
class Periods:
    """The periods of a namespace, in microseconds. The defaults fit together.

    All workers, clients and topics of a namespace must have the same periods. ``Periods.scaled`` divides all periods by one factor, so that
    a test can cover weeks.

    Raises:
        ValueError: a period is no positive whole number, or two of them contradict each other.
    """

    lifetime: int = period(
        1 * DAY,
        "Lifetime of a dialog whose contract does not set a lifetime.",
        "the dialog breaks on both sides (-8489)",
    )
    request_lifetime: int = period(
        1 * MINUTE, "Minimum lifetime of the dialog of a client's `request`.", "the dialog breaks on both sides (-8489)"
    )
    start_within: int = period(
        1 * HOUR,
        "How long the first message of a dialog can begin the peer's endpoint, in log time from the transmission of the message. A shorter lifetime of the dialog shortens this time.",
        "the message is refused",
    )
    clock_ahead: int = period(
        1 * DAY,
        "The first message of a dialog contains `accept_until`, the time until which the message may begin the dialog. This period is the longest time from the log time of the record to `accept_until`.",
        "a record with a later `accept_until` is set aside, because the dialog's tombstone would have to be kept until then",
    )
    grace: int = period(
        10 * MINUTE,
        "How long, in log time, a tombstone is kept after the last moment at which a repeated message could begin the dialog again.",
        "the tombstone is deleted",
    )
    tick_after: int = period(
        1 * HOUR,
        "How long a queue may be idle while tombstones wait for log time to pass.",
        "the worker writes a tick, which advances log time",
    )
    command_life: int = period(
        1 * DAY,
        "How long, in log time, a worker remembers that a command took effect. A command is also refused if it is older than this period, or is dated more than this period ahead.",
        "the row of the command is deleted, and an older command is refused",
    )
    spoken_known: int = period(
        23 * HOUR,
        "Maximum age of a row that the Spark job `speak` writes again: `command_life` minus the time that the command needs to arrive.",
        "the row is refused",
    )
    spoken_ahead: int = period(
        10 * MINUTE,
        "How far the time in a row of the Spark job `speak` may be ahead of the job's clock.",
        "the row is refused",
    )
    letter_life: int = period(
        90 * DAY,
        "Maximum time for which a letter is open; also the retention of dead-letter topics.",
        "the row of the letter and the letter are deleted",
    )
    inbox_kept: int = period(
        7 * DAY,
        "Retention of the topics of queues, commands and decisions.",
        "the record is deleted, whether it was read or not",
    )
    retries_kept: int = period(
        7 * DAY, "Retention of retry topics. Operators read them; workers do not.", "the record is deleted"
    )
    events_kept: int = period(30 * DAY, "Retention of the events topic.", "the event is deleted")
    operators_kept: int = period(90 * DAY, "Retention of the operators topic.", "the redrive or the note is deleted")
    metrics_kept: int = period(30 * DAY, "Retention of the metrics topic.", "the row is deleted")
    state_segment: int = period(
        10 * MINUTE, "`segment.ms` of state topics.", "the segment is closed, and can be compacted"
    )
    deletes_kept: int = period(
        1 * DAY,
        "`delete.retention.ms` of state topics. A local copy is trusted for half of this time.",
        "Kafka drops the null records of deleted rows. A local copy that is too old is thrown away and restored from its topic",
    )
    blocked_first: int = period(
        4 * SECOND,
        "First pause before a destination that accepts no records is tried again. Each pause is twice as long as the pause before, up to `blocked_last`.",
        "the destination is tried again",
    )
    blocked_last: int = period(
        64 * SECOND,
        "Longest pause before a destination that accepts no records is tried again.",
        "the destination is tried again",
    )
    fence_for: int = period(
        10 * MINUTE,
        "How long the initiator of a broken dialog asks its peer what the peer has accepted. The pauses are those of a blocked destination.",
        "the messages without an acknowledgement become dead letters of the initiator",
    )
    refused_after: int = period(
        1 * HOUR,
        "How long an envelope waits while the worker has no right to write to its destination.",
        "its dialog breaks (-8494), and the bytes of its envelopes become dead letters",
    )
    stale_after: int = period(
        10 * MINUTE,
        "How long a worker repeats the restore of a partition while Kafka's answers lack committed rows.",
        "the partition is set aside, because Kafka lost acknowledged records, or the topic was replaced by an older copy",
    )
    step: int = period(
        1 * MINUTE,
        "Length of the intervals by which far deadlines are grouped in memory.",
        "the deadlines of the interval after the next are put in exact order, and rows whose time has come are deleted",
    )
    topics_looked_at: int = period(
        30 * SECOND,
        "Time between two checks of a worker's own topics.",
        "the worker asks Kafka whether its topics are still the same",
    )
    unreachable_after: int = period(
        20 * SECOND,
        "How long Kafka may leave a worker's calls unanswered.",
        "the worker counts as not ready, and continues to try; the health page shows the unanswered call",
    )
    archive_stale: int = period(
        1 * DAY,
        "If a write of the archive has not finished after this time, its files are no longer needed.",
        "the next run of the archive deletes them",
    )

    def __post_init__(self) -> None:
        """Refuse periods that contradict each other. A record must outlive everything that depends on it."""
        check_least(self)
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
"""Each pair has a tuple with names of periods, and the name of one longer period.

The sum of the tuple's periods must be less than the longer period.
"""

_BRAKE = Brake()
_LIMITS = Limits()
_PERIODS = Periods()


@dataclass(frozen=True, kw_only=True)
class WorkerSettings:
    """Settings of a worker.

    Raises:
        ValueError: a setting has a wrong type, or a number or a time is less than its least value.
    """

    concurrency: int = setting(
        16,
        Unit.NUMBER,
        "Maximum number of `def` handlers that run at the same time. `async def` handlers are counted separately, with the same maximum. `def` handlers that never wait share one thread.",
    )
    batch: int = setting(5_000, Unit.NUMBER, "Maximum number of records that a step reads.")
    step: timedelta = setting(
        timedelta(seconds=1), Unit.TIME, "Time after which a step starts no further work. The next step does the rest.", least=0,
    )  # fmt: skip
    hold: timedelta = setting(
        timedelta(milliseconds=50), Unit.TIME, "Longest time that ENDs and acknowledgements wait for other records to share a transaction with. With 0 they wait for nothing. No END waits for a service with a handler `on_end`.", least=0,
    )  # fmt: skip
    patience: timedelta = setting(
        timedelta(milliseconds=50),
        Unit.TIME,
        "How long a step waits for its handlers before it commits without the slow ones. While handlers keep returning, or other work is finished, the step waits up to 1 s longer.",
        least=0,
    )
    revocation: timedelta = setting(
        timedelta(seconds=5), Unit.TIME, "How long running handlers may take to finish when their partition moves to another worker or their worker stops.", least=0,
    )  # fmt: skip
    replaced_after: timedelta = setting(
        timedelta(minutes=2), Unit.TIME,
        "How long a process of `conversations run` may stand still before the supervisor kills it and starts another one: it sends no report, because a handler holds Python's interpreter lock, or it finishes no step although Kafka answers. It is at least `worker.revocation`, and 10 s or `periods.unreachable_after`, and 5 s.",
    )  # fmt: skip
    clock_off: timedelta = setting(
        timedelta(seconds=10),
        Unit.TIME,
        "Maximum difference between the machine's clock and log time without a warning. The worker always uses log time.",
        least=0,
    )
    deaths: int = setting(
        3,
        Unit.NUMBER,
        "If this number of processes die while a suspect message runs alone, the message is given up on.",
    )
    rollbacks: int | None = setting(
        5,
        Unit.NUMBER,
        "If this number of consecutive steps fails in this library's code around a handler, the queue of the partition goes off. With `never` (in code None) the queue stays on.",
        never=True,
    )
    brake: Brake | None = setting(
        _BRAKE,
        Unit.SWITCH,
        "The brake, which limits a peer with which very many dialogs fail: `on` or `off` (in code None).",
        least=0,
    )
    log_format: str = setting(
        TEXT, Unit.WORD, "Form of the log lines of `conversations run`: `text` for people, or `json` for programs, one object a line. `--log-json` means `json`.",
        words=(TEXT, JSON),
    )  # fmt: skip
    keys: KeyProvider | str | None = setting(
        None, Unit.PLACE, "Where the keys of peers are, for [sealing](sealing.md): `file:PATH`, `environment:NAME` or `class:MODULE:NAME`. In code also a `KeyProvider`. With `never` (in code None) nothing is sealed.",
        never=True,
    )  # fmt: skip
    limits: Limits = _LIMITS
    periods: Periods = _PERIODS
    """Periods of the namespace, the same for all its workers, clients and topics."""
    slot: str | None = None
    """Name of this worker, the same after a restart. A restarted worker aborts the transaction that was open when the worker stopped."""

    def __post_init__(self) -> None:
        """Refuse values below their least value, and keys that are nowhere."""
        check_least(self)
        if isinstance(self.keys, str):
            check_place(self.keys)

    def scaled(self, factor: float) -> WorkerSettings:
        """Return a copy with all periods and the brake's times divided by ``factor``. The time limits of handlers do not change.

        Raises:
            ValueError: ``Periods.scaled`` refuses the factor.
        """
        periods = self.periods.scaled(factor)  # checks the factor
        return replace(self, periods=periods, brake=None if self.brake is None else self.brake.scaled(factor))
