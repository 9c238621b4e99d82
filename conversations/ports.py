"""Ports: the interfaces of a worker to a transactional log, a state store and a clock.

Two packages implement them: ``conversations.kafka`` on Apache Kafka, and ``conversations.memory`` in one process. The same contract tests
(``tests/contracts``) run against both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import NamedTuple, Protocol

Headers = list[tuple[str, bytes]]
Produced = tuple[str, int, bytes | None, bytes | None, Headers | None]
"""A record to append, as a plain tuple. An ``Out`` is such a tuple, too, but takes longer to make."""


ANY_SIZE = 1 << 62
"""A size limit for ``poll`` that no records reach."""


class Record(Protocol):
    """One record as the log delivers it. It has the methods of a confluent-kafka message, so such messages need no wrapper."""

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
    """The offsets of the next records to read from the inputs of a partition; None is the log's start."""

    queue: int | None
    commands: int | None


class Unanswered(NamedTuple):
    """A call to Kafka that no broker answers."""

    since: float
    """Time of the first call without an answer, by ``time.monotonic``."""
    trying: str
    """The operation that is tried again, and the failure of its last attempt."""


class Restored(NamedTuple):
    """A part of the rows of a restore, and its progress."""

    rows: Sequence[tuple[bytes, bytes | None]]
    """State rows in log order; a value of None deletes the key."""
    done: bool
    """True once everything committed before the assignment has been read."""
    next_offset: int
    """Offset up to which the state partition has been read."""


class Restore(Protocol):
    """Reads one state partition, up to the last commit before the partition was assigned."""

    committed: int | None
    """The consumer group's committed offset of the queue partition; None if there is none. Set once ``advance`` returned rows or is done."""
    with_row: bool
    """True if an owner committed that offset, in one transaction with the partition's row. Set at the same time as ``committed``."""
    from_start: bool
    """True if reading began at the log's start, so that an older local copy must be thrown away. Set at the same time as ``committed``."""

    def advance(self, limit: int) -> Restored:
        """Read and return at most ``limit`` further rows. Wait at most some tens of milliseconds.

        Raises:
            KafkaUnreachable: no broker answers; begin a new restore later.
            StaleAnswer: the broker that answered lacks the newest records; begin a new restore later.
            LogError: the state topic cannot be read.
        """

    def close(self) -> None:
        """Stop reading. A repeated call has no effect."""


class Listener(Protocol):
    """Callbacks about the ownership of queue partitions. Only ``Connection.poll`` and ``Connection.close`` call them."""

    def assigned(self, partitions: Sequence[int]) -> None: ...
    def revoked(self, partitions: Sequence[int]) -> None:
        """Commit for the last time: the connection still owns the partitions while this runs."""

    def lost(self, partitions: Sequence[int]) -> None:
        """Discard everything in memory: other members may own the partitions already."""


class Connection(Protocol):
    """One worker's connection to the topics of its service. Only the thread that called ``join`` may call its methods.

    There are two exceptions: any thread may call ``partitions`` and ``look_at_catalog``. Lanes need these two to send, and to admit dialogs. So
    they never use the consumer.

    Raises:
        LogError: the connection is closed, or has not joined. Methods that only ask about topics do not need to join.
        RuntimeError: another thread called the method.
    """

    def join(self, listener: Listener) -> None:
        """Subscribe to the service's queue. The listener gets the partitions; their inputs are paused until ``open``."""

    def poll(self, timeout: float, limit: int, size: int = ANY_SIZE) -> Sequence[Record]:
        """Return the records that have arrived, at most ``limit``. If there are none, wait up to ``timeout`` seconds.

        Once the values have ``size`` bytes together, no further records are added.

        Raises:
            InputLost: the position of an input is out of range, or its topic was re-created. The error names the partition.
            CutOff: Kafka has records that do not arrive: close and join again.
            LogError: the log failed.
        """

    def restore(self, partition: int, since: int | None) -> Restore:
        """Begin reading the state partition from offset ``since`` (None: its start)."""

    def open(self, partition: int, positions: Positions) -> None:
        """Start both inputs of an assigned partition, queue and commands, at ``positions``."""

    def pause(self, partition: int, *, commands: bool = False) -> None:
        """Pause the queue of a partition, or its commands. The other input goes on."""

    def resume(self, partition: int, *, commands: bool = False) -> None:
        """Resume the queue of a partition, or its commands."""

    def drop(self, partition: int) -> None:
        """Stop both inputs of a partition that is set aside for a human. The partition stays assigned."""

    def commit(self, outs: Sequence[Produced], offsets: Mapping[int, int]) -> Mapping[int, int]:
        """Append ``outs`` and the queue offsets of the touched partitions in one transaction.

        ``offsets`` has the queue position of each touched partition, even if the position has not moved: these offsets fence the
        transaction. Return the next offset of the state topic for each partition with new state records.

        Raises:
            Fenced: this member lost a partition; the transaction was aborted. Poll, so that the listener gets the lost partitions. Then
                commit the rest.
            DestinationFailed: the topics or records that the error names cannot be written; the transaction was aborted. Commit without
                these records.
            Interrupted: the transaction was aborted for a passing reason. Commit again.
            InDoubt: the outcome is unknown, or the abort failed. Forget everything in memory and join again.
            LogError: the worker cannot continue.
        """

    def appended_at(self) -> int | None:
        """Return the log time at which the last state record was appended, in microseconds; None if it is unknown, as with CreateTime."""

    def unanswered(self) -> Unanswered | None:
        """Return the call to Kafka that no broker answers; None while calls are answered."""

    def partitions(self, service: str) -> int | None:
        """Return the partition count of a service's topics, from the catalog; None while the service is not known."""

    def look_at_catalog(self) -> None:
        """Read the catalog, so that ``partitions`` knows everything that was in the catalog when this was called.

        Raises:
            LogError: the catalog cannot be read now.
        """

    def topic_ids(self) -> Mapping[str, str]:
        """Return the ids of the service's own queue, commands and state topics. A topic that is re-created has another id."""

    def existing(self, topics: Sequence[str]) -> set[str]:
        """Return those of ``topics`` that exist and can be written to."""

    def queue_end(self, partition: int) -> int:
        """Return the end offset of the queue partition. It counts the records of open transactions."""

    def queue_read_to(self, partition: int) -> int:
        """Return the offset up to which ``poll`` has returned every record of the queue, or passed over a marker or an aborted record.

        The offset is set when the end was reached, and is 0 before. So use it only to compare it with ``queue_end``.
        """

    def commands_end(self, partition: int) -> int:
        """Return the end offset of the commands partition, like ``queue_end``."""

    def commands_read_to(self, partition: int) -> int:
        """Return the offset up to which the commands partition was read, like ``queue_read_to``."""

    def close(self) -> None:
        """Call ``revoked`` for the last time, and leave the group. A repeated call has no effect."""


class Store(Protocol):
    """The local copy of one partition's state: exactly the rows of the compacted state partition.

    Raises:
        CopyDamaged: the copy differs from what was written. The next ``Stores.open`` returns an empty copy.
    """

    damage: str
    """Why an earlier copy was thrown away; empty if there was no earlier copy, or if it was not damaged."""

    def checkpoint(self) -> int | None:
        """Return the offset of the state partition up to which this copy is complete; None if it must be restored from the start."""

    def get(self, key: bytes) -> bytes | None: ...
    def scan(self, prefix: bytes) -> Iterable[tuple[bytes, bytes]]:
        """Return the rows whose key starts with ``prefix``, in the order of keys, as they are at the time of the call."""

    def apply(self, rows: Iterable[tuple[bytes, bytes | None]], checkpoint: int) -> None:
        """Write rows and the checkpoint in one batch. A value of None deletes the row."""

    def clear(self) -> None:
        """Delete all rows and the checkpoint."""

    def close(self) -> None: ...


class Stores(Protocol):
    """Opens the local copies of partitions."""

    def open(self, partition: int, state_topic_id: str) -> Store:
        """Open the local copy. It is empty if the copy was damaged, belongs to another topic or partition, or is too old to be trusted."""


class CommandSink(Protocol):
    """Appends commands of clients to the commands topic of one service. It is thread-safe."""

    def append_async(self, key: bytes, value: bytes) -> Future[None]:
        """Append one command. The future completes when the command is durable, or fails with ``NotAccepted``."""

    def close(self) -> None:
        """Wait for commands that are being appended, and disconnect."""


class Clock(Protocol):
    """The clocks of a machine: the time of day, which may be wrong and may jump, and a clock that never jumps."""

    def now(self) -> int:
        """Return the time of day: microseconds since 1970, UTC."""

    def steady(self) -> int:
        """Return the microseconds since an arbitrary moment. This clock never jumps."""
