"""The ports that the shell must supply: a transactional log, a state store and a clock.

Two shells implement these protocols: ``conversations.kafka`` on Apache Kafka and ``conversations.memory`` in one
process. One contract suite (``tests/contracts``) runs against both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import NamedTuple, Protocol

Headers = list[tuple[str, bytes]]
Produced = tuple[str, int, bytes | None, bytes | None, Headers | None]
"""A record to append, as a plain tuple: an ``Out`` is one, too, but takes longer to make."""


ANY_SIZE = 1 << 62
"""More bytes than any poll returns."""


class Record(Protocol):
    """One record as the log delivers it, with the methods of a confluent-kafka message, so none is wrapped."""

    def topic(self) -> str: ...
    def partition(self) -> int: ...
    def offset(self) -> int: ...
    def key(self) -> bytes | None: ...
    def value(self) -> bytes | None: ...
    def headers(self) -> Headers | None: ...
    def timestamp(self) -> tuple[int, int]: ...


class Out(NamedTuple):
    """One record to append in the step's transaction, to an explicit partition."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers | None = None


class Positions(NamedTuple):
    """Where to go on reading the inputs of a partition: the offset of the next record; None is the log's start."""

    queue: int | None
    commands: int | None


class Unanswered(NamedTuple):
    """What Kafka is asked, and nobody answers."""

    since: float
    """When it was asked first, as ``time.monotonic`` counts."""
    trying: str
    """An operation that is tried again, and its result."""


class Restored(NamedTuple):
    """One slice of a restore."""

    rows: Sequence[tuple[bytes, bytes | None]]
    """State rows in log order; a value of None deletes the key."""
    done: bool
    """True once everything committed before the assignment has been read."""
    next_offset: int
    """Offset of the state partition after these rows."""


class Restore(Protocol):
    """The reading of one state partition up to its last commit before the partition was assigned."""

    committed: int | None
    """The consumer group's queue offset of the partition, None when it has none; known once ``advance`` gave rows or is done."""
    with_row: bool
    """True when an owner committed that offset, together with the partition's row; known as ``committed``."""
    from_start: bool
    """True when the reading began at the log's start, so that an older local copy is worthless; known as ``committed``."""

    def advance(self, limit: int) -> Restored:
        """Read at most ``limit`` further rows without waiting long (tens of ms).

        Raises:
            KafkaUnreachable: no broker answers; begin a new one later.
            StaleAnswer: a broker does not know the newest records; begin a new one later.
            LogError: the state topic cannot be read.
        """

    def close(self) -> None:
        """Stop reading; harmless when already done."""


class Listener(Protocol):
    """Told about ownership of queue partitions, always from inside ``Connection.poll`` or ``Connection.close``."""

    def assigned(self, partitions: Sequence[int]) -> None: ...
    def revoked(self, partitions: Sequence[int]) -> None:
        """Last chance to commit: the partitions are still owned while this runs."""

    def lost(self, partitions: Sequence[int]) -> None:
        """The partitions belong to somebody else already: discard."""


class Connection(Protocol):
    """One worker's connection to the topics of its service. Only the polling thread, which joined, calls it.

    Any thread may ask for ``partitions`` and ``look_at_catalog``, which lanes need to send and to admit dialogs; so they never use
    the consumer.

    Raises:
        LogError: it is closed, or was never joined; what asks only for topics works all the same.
        RuntimeError: another thread calls.
    """

    def join(self, listener: Listener) -> None:
        """Subscribe to the service's queue; partitions arrive through the listener, with their inputs paused."""

    def poll(self, timeout: float, limit: int, size: int = ANY_SIZE) -> Sequence[Record]:
        """Return the records at hand, at most ``limit``; wait up to ``timeout`` seconds only when there are none.

        No more are added once the values have ``size`` bytes together.

        Raises:
            InputLost: an input position is out of range or its topic was re-created; names the partition.
            CutOff: there are records that do not arrive: join again.
            LogError: the log failed.
        """

    def restore(self, partition: int, since: int | None) -> Restore:
        """Begin reading the state partition from offset ``since`` (None: its start)."""

    def open(self, partition: int, positions: Positions) -> None:
        """Let the inputs of an assigned partition (queue, then commands) flow from ``positions``."""

    def pause(self, partition: int, *, commands: bool = False) -> None:
        """Hold back the queue of a partition, or its commands; its other input goes on."""

    def resume(self, partition: int, *, commands: bool = False) -> None:
        """Let the queue of a partition flow again, or its commands."""

    def drop(self, partition: int) -> None:
        """Stop every input of a partition that stays assigned: it is set aside for a human."""

    def commit(self, outs: Sequence[Produced], offsets: Mapping[int, int]) -> Mapping[int, int]:
        """Append ``outs`` and the queue offsets of the touched partitions in one transaction.

        ``offsets`` maps each touched partition to its queue position, moved or not: it is the fence.
        Returns the state topic's next offset for each partition that a state record was appended to.

        Raises:
            Fenced: this member lost a partition; aborted. Poll (to be told which), then commit the rest.
            DestinationFailed: records to the named topics, or those named, cannot be written; aborted. Commit without.
            Interrupted: aborted for a passing reason; commit again.
            InDoubt: the outcome is unknown, or the abort failed; forget everything in memory and rejoin.
            LogError: fatal.
        """

    def appended_at(self) -> int | None:
        """When, on the log's clock, the last commit's state was appended, microseconds; None when its topic does not say."""

    def unanswered(self) -> Unanswered | None:
        """The call that nobody answers; None while the cluster answers, as far as is known."""

    def partitions(self, service: str) -> int | None:
        """Partition count of a service's topics from the catalog, None when the service is not known (yet)."""

    def look_at_catalog(self) -> None:
        """Let ``partitions`` know everything that the catalog said when this was called.

        Raises:
            LogError: it cannot be read now.
        """

    def topic_ids(self) -> Mapping[str, str]:
        """Identity of the service's own queue, commands and state topics, which changes when one is re-created."""

    def existing(self, topics: Sequence[str]) -> set[str]:
        """Return the topics that exist."""

    def queue_end(self, partition: int) -> int:
        """End offset of the queue partition, counting records of open transactions."""

    def queue_read_to(self, partition: int) -> int:
        """Offset up to which ``poll`` has given out everything there is, markers and aborted records passed over.

        Known when the end was reached, 0 before: only good for comparing with ``queue_end``.
        """

    def commands_end(self, partition: int) -> int:
        """The same of the commands partition."""

    def commands_read_to(self, partition: int) -> int:
        """The same of the commands partition."""

    def close(self) -> None:
        """Leave the group, after a last ``revoked``; harmless when already closed."""


class Store(Protocol):
    """The local copy of one partition's state: exactly the rows of the compacted state partition.

    Raises:
        CopyDamaged: it is not as it was written; the next open finds it empty.
    """

    damage: str
    """Why a copy that was here before was thrown away; empty when there was none, or it was sound."""

    def checkpoint(self) -> int | None:
        """Offset of the state partition up to which this copy is complete, None when it must be built anew."""

    def get(self, key: bytes) -> bytes | None: ...
    def scan(self, prefix: bytes) -> Iterable[tuple[bytes, bytes]]:
        """Rows whose key starts with ``prefix``, in key order, as of the call."""

    def apply(self, rows: Iterable[tuple[bytes, bytes | None]], checkpoint: int) -> None:
        """Write rows (None deletes) and the checkpoint in one batch."""

    def clear(self) -> None:
        """Forget everything, the checkpoint included."""

    def close(self) -> None: ...


class Stores(Protocol):
    """Opens the store of a partition."""

    def open(self, partition: int, state_topic_id: str) -> Store:
        """Open the local copy; one that is damaged, of another topic or partition, or too old to trust, comes back empty."""


class CommandSink(Protocol):
    """Where clients append commands to the commands topic of one service. Thread-safe."""

    def append_async(self, key: bytes, value: bytes) -> Future[None]:
        """Append one command; the future ends when it is durable, or with ``NotAccepted``."""

    def close(self) -> None:
        """Wait for running operations, and disconnect."""


class Clock(Protocol):
    """A machine's clocks: the one on the wall, which may be wrong and may jump, and one that only goes on."""

    def now(self) -> int:
        """Microseconds since the epoch, UTC."""

    def steady(self) -> int:
        """Microseconds since some moment; never jumps."""
