"""Ports: the interfaces through which a worker uses a transactional log, a state store and a clock.

Two packages implement them: ``conversations.kafka`` on Apache Kafka, and ``conversations.memory`` in one process. The same contract tests
(``tests/contracts``) run against both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from conversations.protocol.letters import RefusedCommand
from conversations.protocol.topics import QUEUE

Headers = list[tuple[str, Any]]
"""The headers of a record. A value is bytes, or None in records of others: Kafka allows a header without a value."""
Produced = tuple[str, int, bytes | None, bytes | None, Headers | None]
"""A record to append, as a plain tuple. An ``Out`` may be used, too, but is slower to make.

Code that needs the identity of a record takes it as ``Any``: compiled code takes a tuple apart, and makes a new one from its parts.

A record for a plain topic may have the partition ``ANY_PARTITION``. All other records have the number of a partition.
"""


def nothing() -> None:
    """Do nothing."""


ANY_SIZE = 1 << 62
"""A size limit for ``poll`` that is never reached."""


class Record(Protocol):
    """One record that was read from the log. It has the methods of a confluent-kafka message, so such messages need no wrapper."""

    def topic(self) -> str: ...
    def partition(self) -> int: ...
    def offset(self) -> int: ...
    def key(self) -> bytes | None: ...
    def value(self) -> bytes | None: ...
    def headers(self) -> Headers | None: ...
    def timestamp(self) -> tuple[int, int]: ...


class Out(NamedTuple):
    """One record to append to the given partition of a topic, in the step's transaction."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers | None = None


class Positions(NamedTuple):
    """For each input of a partition, the offset of the next record to read. None means the start of the log."""

    queue: int | None
    commands: int | None
    decisions: int | None = None


class Unanswered(NamedTuple):
    """A call to Kafka that no broker answers."""

    since: float
    """Time of the first call without an answer, by ``time.monotonic``."""
    trying: str
    """The operation that is tried again, and the failure of its last attempt."""


class Restored(NamedTuple):
    """A part of the rows that a restore reads, and the progress of the restore."""

    rows: Sequence[tuple[bytes, bytes | None]]
    """State rows in log order; a value of None deletes the row."""
    done: bool
    """True if all rows that were committed before the assignment have been read."""
    next_offset: int
    """Offset up to which the state partition has been read."""


class Restore(Protocol):
    """Reads one state partition, up to the last commit before the partition was assigned."""

    committed: int | None
    """The consumer group's committed offset of the queue partition; None if the group has no such offset.

    The method ``advance`` sets this value before it returns the first rows, or ``done``.
    """
    with_row: bool
    """True if an owner committed this offset in one transaction with the row of the partition. Set when ``committed`` is set."""
    from_start: bool
    """True if reading began at the start of the log. Then an older local copy must be thrown away. Set before the first rows are returned."""

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
        """Commit for the last time. The connection still owns the partitions while this method runs."""

    def lost(self, partitions: Sequence[int]) -> None:
        """Discard everything in memory about the partitions, because other members may own them already."""


class Connection(Protocol):
    """One worker's connection to the topics of its service. Only the thread that called ``join`` may call its methods.

    There are exceptions: any thread may call ``partitions``, ``cluster``, ``schemas`` and ``look_at_catalog``. Runs of lanes call these methods when
    they send, and when they admit dialogs. So these methods never use the consumer.

    Raises:
        LogError: the connection is closed, or has not joined. Methods that only ask about topics work before ``join``, too.
        RuntimeError: another thread called the method.
    """

    def join(self, listener: Listener) -> None:
        """Subscribe to the service's queue.

        The listener is told which partitions are assigned. The inputs stay paused until ``open`` is called.
        """

    def poll(self, timeout: float, limit: int, size: int = ANY_SIZE) -> Sequence[Record]:
        """Return the records that have arrived, at most ``limit``. If there are none, wait up to ``timeout`` seconds.

        As soon as the values of the records have ``size`` bytes in total, no further records are added. Decisions come first: they do not
        wait for messages and commands that have arrived before them.

        Raises:
            InputLost: the position of an input is out of range, or its topic was re-created. The error names the partition.
            CutOff: Kafka has records that do not arrive. Close the connection and join again.
            LogError: the log failed.
        """

    def restore(self, partition: int, since: int | None) -> Restore:
        """Begin to read the state partition at offset ``since``, or at its start if ``since`` is None."""

    def open(self, partition: int, positions: Positions) -> None:
        """Start the inputs of an assigned partition at ``positions``: queue, commands and decisions."""

    def pause(self, partition: int, kind: str = QUEUE) -> None:
        """Pause one input of a partition: ``QUEUE``, ``COMMANDS`` or ``DECISIONS``. The other inputs continue."""

    def resume(self, partition: int, kind: str = QUEUE) -> None:
        """Resume one input of a partition."""

    def drop(self, partition: int) -> None:
        """Stop all inputs of a partition that is set aside for a human. The partition stays assigned."""

    def commit(
        self, outs: Sequence[Produced], offsets: Mapping[int, int], meanwhile: Callable[[], None] = nothing
    ) -> Mapping[int, int]:
        """Append ``outs`` and the queue offsets of the touched partitions in one transaction.

        ``meanwhile`` is called while the records are on their way to the log, perhaps several times. It must not poll, open or drop a partition, or
        commit.

        ``offsets`` has the queue position of each touched partition, even if the position has not moved. Kafka checks these offsets, and
        refuses the transaction if a partition belongs to another member. Return the next offset of the state topic for each partition
        with new state records.

        Raises:
            Fenced: this member lost a partition; the transaction was aborted. Poll, so that the listener is told which partitions are
                lost. Then commit the rest.
            DestinationFailed: the topics or records that the error names cannot be written; the transaction was aborted. Commit without
                these records.
            Interrupted: the transaction was aborted for a passing reason. Commit again.
            InDoubt: the outcome is unknown, or the abort failed. Forget everything in memory and join again.
            LogError: the worker cannot continue.
        """

    def appended_at(self) -> int | None:
        """Return the log time at which the last state record was appended, in microseconds; None if it is not known.

        For example, it is not known if the topic uses CreateTime.
        """

    def unanswered(self) -> Unanswered | None:
        """Return the call to Kafka that no broker answers; None while calls are answered."""

    def partitions(self, service: str) -> int | None:
        """Return the partition count of the topic for a service, from the catalog; None while the service is not known.

        The topic is the queue of the service. If the service lives on another cluster, it is the transmission topic to this cluster.
        """

    def cluster(self, service: str) -> str:
        """Return the name of the cluster on which a service lives, as ``partitions`` last found it; empty for this cluster."""

    def look_at_catalog(self) -> None:
        """Read the catalog, so that ``partitions`` knows everything that was in the catalog when this method was called.

        Raises:
            LogError: the catalog cannot be read now.
        """

    def schemas(self) -> Mapping[str, str]:
        """Return the Avro schemas of the catalog as it was last read: the JSON text of each schema by its fingerprint in hex."""

    def topic_ids(self) -> Mapping[str, str]:
        """Return the ids of the service's own queue, commands, decisions and state topics. A re-created topic has a new id."""

    def unwritable(self, topics: Sequence[str]) -> Mapping[str, str]:
        """Return the topics among ``topics`` that cannot be written to, each with the reason: it is missing, or the right is."""

    def end(self, kind: str, partition: int) -> int:
        """Return the end offset of one input of a partition. Records of open transactions are before this offset, too."""

    def read_to(self, kind: str, partition: int) -> int:
        """Return the offset at which ``poll`` last reached the end of one input of a partition; 0 if it has not reached the end yet.

        Before this offset, ``poll`` has returned every committed record, and has passed over markers and aborted records. The offset
        changes only when ``poll`` reaches the end. So use it only to compare it with ``end``.
        """

    def queue_seen(self, partition: int) -> tuple[int, int] | None:
        """Return the end of the queue partition as the last reads told it, and the offset of ``read_to``.

        Return None if no read has told the end yet. Kafka is not asked. Any thread may call this method, also after ``close``.
        """

    def close(self) -> None:
        """Call the listener's ``revoked`` for the last time, and leave the group. A repeated call has no effect."""


class Store(Protocol):
    """The local copy of one partition's state: exactly the rows of the compacted state partition.

    Raises:
        CopyDamaged: the copy differs from the rows that were written. The next ``Stores.open`` returns an empty copy.
    """

    damage: str
    """The reason why an earlier copy was thrown away; empty if there was no earlier copy, or if it was not damaged."""

    def checkpoint(self) -> int | None:
        """Return the offset of the state partition up to which this copy is complete; None if it must be restored from the start."""

    def get(self, key: bytes) -> bytes | None: ...
    def get_once(self, key: bytes) -> bytes | None:
        """Return a large row that is read only once or twice, so that it needs no place in a cache."""

    def scan(self, prefix: bytes) -> Iterable[tuple[bytes, bytes]]:
        """Return the rows whose key starts with ``prefix``, in the order of keys, as they are at the time of the call."""

    def read_run(self, keys: Sequence[bytes]) -> Iterable[bytes]:
        """Return the rows of keys that follow each other, until one of these rows is missing. No other row has a key between them."""

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

    def append_async(
        self, key: bytes, values: Sequence[bytes], headers: Headers | None = None, *, to: str = ""
    ) -> Future[None]:
        """Append the records of one command. The future completes when all are durable, or fails with ``NotAccepted``.

        If the catalog does not name the service ``to``, the command is not appended, and the future fails with ``UnknownService``. While
        the catalog cannot be read, the command is appended.
        """

    def close(self) -> None:
        """Wait for commands that are being appended, and disconnect."""


class StateReader(Protocol):
    """Reads the rows of the conversation groups of one service. It is thread-safe."""

    def read(self, key: str, names: list[bytes]) -> tuple[list[bytes], int]:
        """Return the rows of ``names`` that exist, in this order, and the time of the reading in microseconds since 1970.

        Every transaction that was committed before this time is in the rows. ``key`` is the key of the group.

        Raises:
            DeclarationError: the catalog does not name the service.
            LogError: the state cannot be read.
        """


T = TypeVar("T")
Table: TypeAlias = Mapping[bytes, Mapping[bytes, bytes]]
"""Rows of one state partition, by the kind of row (``rows.ENDPOINT`` and so on) and by key."""


class TableReader(Protocol):
    """Reads the rows and the refused commands of one service. It is thread-safe."""

    def look(self, key: str, want: Callable[[Table], T]) -> tuple[T, int]:
        """Return the result of ``want`` for the rows of the partition of ``key``, and the time of the reading in microseconds since 1970.

        Every transaction that was committed before this time is in the rows, and no other. ``want`` must be quick.

        Raises:
            DeclarationError: the catalog does not name the service.
            LogError: the state cannot be read.
        """

    def refused(self, key: str, conversation: str, *, initiator: bool) -> list[RefusedCommand]:
        """Return the commands for one side of a dialog that were refused, oldest first. Only the last letters of the partition are read.

        Raises:
            DeclarationError: the catalog does not name the service.
            LogError: the letters cannot be read.
        """

    def close(self) -> None:
        """Forget all rows. The next call reads them again."""


class Clock(Protocol):
    """The clocks of a machine: the time of day, which may be wrong and may jump, and a clock that never jumps."""

    def now(self) -> int:
        """Return the time of day: microseconds since 1970, UTC."""

    def steady(self) -> int:
        """Return the microseconds since an arbitrary moment. This clock never jumps."""
