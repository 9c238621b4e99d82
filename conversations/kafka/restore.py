"""Reads a compacted partition up to an end that is fixed before the reading. It reads the state topic and the catalog."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from time import monotonic, sleep
from typing import Any

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from conversations.config import Kafka
from conversations.config_checks import addresses_of
from conversations.errors import KafkaNotReady, LogError, StaleAnswer
from conversations.kafka import rights
from conversations.kafka.clients import close_reader, make_consumer, no_answer, one_server, translated
from conversations.kafka.failures import describe, harmless_to_readers, out_of_range, passing
from conversations.kafka.offsets import WITH_ROW, OffsetClient, ask_bounds, ask_committed, ask_offset
from conversations.ports import Restored

PATIENCE = 0.05
"""Maximum number of seconds that ``advance`` waits for an answer or a record."""
UNSTABLE_PAUSE = 0.02
"""Seconds between two requests for group offsets, for example while an open transaction carries one of the offsets."""
RENEWED_AFTER = 10.0
"""Seconds without progress after which a new consumer continues. If the old consumer is connected only to a
leader that is cut off from the other brokers, it cannot learn of the new leader. So new consumers begin at the bootstrap servers in turn. The
time doubles when all servers have had their turn."""
STUCK_AFTER = 120.0
"""Seconds without progress after which a restore gives up. This is several times as long as any transaction's time-out."""

PREFERRED = {
    "fetch.wait.max.ms": 10,
    "queued.max.messages.kbytes": 4_096,
    # When its local queue is full, librdkafka waits this long before the next fetch. With the default of one second, a
    # large partition takes ten times as long.
    "fetch.queue.backoff.ms": 5,
}

Rows = list[tuple[bytes, bytes | None]]

_failed = Message.error


class StandsStill(KafkaNotReady):
    """No more records can be read, because a transaction is open or because no broker answers."""

    def __init__(self, why: str) -> None:
        LogError.__init__(self, why)
        self.bootstrap = ""


class BoundedReader:
    """Reads the committed records of one partition from offset ``start`` up to offset ``end``."""

    def __init__(
        self, kafka: Kafka, topic: str, partition: int, start: int, end: int, patience: float | None = None
    ) -> None:
        self.next_offset = start
        self._stuck_after = STUCK_AFTER if patience is None else patience
        self._kafka, self._topic, self._partition, self._end = kafka, topic, partition, end
        self._moved_at = self._renewed_at = monotonic()
        self._renew_after, self._renewals = RENEWED_AFTER, 0
        self._consumer: Consumer | None = None
        if start < end:
            self._consumer = _reading(kafka, topic, partition, start)

    @property
    def done(self) -> bool:
        """True when every record and every transaction marker before the end has been read."""
        return self.next_offset >= self._end

    def read(self, limit: int, timeout: float = PATIENCE) -> Rows:
        """Return at most ``limit`` further rows. Wait up to ``timeout`` seconds for the first row.

        Raises:
            StandsStill: there was no progress for ``patience`` seconds, or for two minutes if ``patience`` is None.
            StaleAnswer: the broker that answered does not know the newest records, or records were lost.
            LogError: the partition cannot be read.
        """
        return [
            (key, record.value()) for record in self.read_records(limit, timeout) if (key := record.key()) is not None
        ]

    def read_records(self, limit: int, timeout: float = PATIENCE) -> list[Message]:
        """Return at most ``limit`` further records, as ``read`` returns rows. It raises the same errors."""
        if self.done or self._consumer is None:
            return []
        first = self._consumer.poll(timeout)
        if first is None:
            self._check_stuck()
            return []
        batch = [first]
        if limit > 1:
            batch += self._consumer.consume(limit - 1, 0)
        return self._records(batch)

    def close(self) -> None:
        """Release the consumer. Harmless if it is released already."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            close_reader(consumer)

    def _records(self, batch: list[Message]) -> list[Message]:
        events = [message for message in batch if message.error() is not None] if any(map(_failed, batch)) else []
        if events:
            batch = [message for message in batch if message.error() is None]
        if batch:
            self._moved(batch[-1])
        for event in events:
            self._event(event)
        return batch

    def _event(self, event: Message) -> None:
        error = event.error()
        assert error is not None
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's name
            # The event's offset is after the last transaction markers, which are not delivered as messages. While a
            # transaction is open, the event has the last stable offset, which is before the end. Another event of
            # this kind follows when the transaction is over.
            self._moved(event, 0)
        elif out_of_range(error):
            raise StaleAnswer(
                f"{self._topic} partition {self._partition} has nothing at {self.next_offset}, and ended at {self._end} before: if it "
                f"stays so, the topic has lost records that were acknowledged: {describe(error)}"
            )
        elif not harmless_to_readers(error):
            need = rights.told(error, topic=self._topic)
            raise LogError(f"{self._topic} partition {self._partition} cannot be read{need}: {describe(error)}")

    def _moved(self, message: Message, by: int = 1) -> None:
        offset = (message.offset() or 0) + by
        if offset > self.next_offset:
            self.next_offset, self._moved_at = offset, monotonic()

    def _check_stuck(self) -> None:
        if monotonic() - self._moved_at > self._stuck_after:
            raise StandsStill(
                f"{self._topic} partition {self._partition} stands still at {self.next_offset} of {self._end}: "
                "an open transaction hides the rest; find it with Kafka's 'kafka-transactions.sh find-hanging'"
            )
        if monotonic() - max(self._moved_at, self._renewed_at) > self._renew_after:
            self.close()
            server = one_server(self._kafka, self._renewals)
            self._consumer = _reading(server, self._topic, self._partition, self.next_offset)
            self._renewed_at = monotonic()
            self._renewals += 1
            if self._renewals % len(addresses_of(self._kafka.bootstrap)) == 0:
                self._renew_after *= 2


class KafkaRestore:
    """Reads one state partition, up to its last commit before the partition was assigned.

    The restore is correct only if its three steps are in this order. First it asks for the group's stable offset, which
    exists only when no open transaction carries an offset of the partition. Then it asks for the end of the state partition.
    This end is after all records, also after records of open transactions. Then it reads the rows up to this end. In any
    other order it could miss a commit that happens between two steps.
    """

    def __init__(self, kafka: Kafka, service: tuple[str, str, str], partition: int, since: int | None) -> None:
        self.committed: int | None = None
        self.with_row = False
        """True if an owner committed the group's offset, in one transaction with the partition's row."""
        self.from_start = False
        """True if the reading began at the start of the log. Then an older local copy must be thrown away before the rows are used."""
        self._kafka = kafka
        self._group, self._queue, self._state = service
        self._partition, self._since = partition, since
        self._step: Callable[[int], Restored] = self._ask_committed
        self._future: Future[Any] | None = None
        self._reader: BoundedReader | None = None
        self._deadline = monotonic() + STUCK_AFTER

    def advance(self, limit: int) -> Restored:
        """Read at most ``limit`` further rows. Wait at most some tens of milliseconds.

        Raises:
            KafkaUnreachable: no broker has answered for two minutes.
            StandsStill: an open transaction has hidden the rest for two minutes.
            StaleAnswer: the broker that answered does not know the newest records.
            LogError: the state topic cannot be read.
        """
        return self._step(limit)

    def close(self) -> None:
        """Stop reading. Harmless if reading has stopped already."""
        if self._reader is not None:
            self._reader.close()

    def _ask_committed(self, limit: int) -> Restored:
        self._future = ask_committed(self._kafka, self._group, [(self._queue, self._partition)])
        self._step = self._take_committed
        return self._step(limit)

    def _take_committed(self, limit: int) -> Restored:
        try:
            (found,) = self._answer(PATIENCE)
        except NotYet:
            return self._nothing()
        except KafkaException as failure:
            return self._again(failure.args[0], failure)
        if found.error is not None:
            return self._again(found.error, None)
        self.committed = found.offset if found.offset >= 0 else None
        self.with_row = found.metadata == WITH_ROW
        return self._ask_bounds(limit)

    def _again(self, error: KafkaError, cause: KafkaException | None) -> Restored:
        if monotonic() > self._deadline and passing(error):
            raise no_answer(self._kafka, error) from cause
        if not passing(error):
            need = rights.told(error, topic=self._state, group=self._group)
            raise LogError(
                f"offsets of {self._queue} and {self._state} cannot be read for {self._group}{need}: {describe(error)}"
            ) from cause
        self._step = self._ask_committed
        sleep(UNSTABLE_PAUSE)
        return self._nothing()

    def _ask_bounds(self, limit: int) -> Restored:
        self._future = ask_bounds(self._kafka, self._state, self._partition)
        self._step = self._take_bounds
        return self._step(limit)

    def _take_bounds(self, limit: int) -> Restored:
        try:
            start, end = self._answer(PATIENCE)
        except NotYet:
            return self._nothing()
        except KafkaException as failure:
            return self._again(failure.args[0], failure)
        since = start if self._since is None else self._since
        if since > end:
            # Logs do not become shorter, so this answer comes from a broker that is no longer the leader.
            raise StaleAnswer(
                f"{self._state} partition {self._partition} ends at {end}, before the local copy's {since}: if it stays so, "
                "the topic has lost records that were acknowledged"
            )
        self.from_start = since <= start
        self._reader = BoundedReader(self._kafka, self._state, self._partition, max(since, start), end)
        self._step = self._read
        return self._step(limit)

    def _read(self, limit: int) -> Restored:
        reader = self._reader
        assert reader is not None
        try:
            rows = reader.read(limit)
        except StandsStill:
            ask_offset(self._kafka, self._state, self._partition)  # raises if no broker answers
            raise
        if reader.done:
            reader.close()
        return Restored(rows, reader.done, reader.next_offset)

    def _answer(self, seconds: float) -> Any:
        assert self._future is not None
        return self._future.result(seconds)

    def _nothing(self) -> Restored:
        return Restored((), False, self._since or 0)


def read_all(
    kafka: Kafka,
    topic: str,
    start: int = 0,
    patience: float | None = None,
    partition: int = 0,
    client: OffsetClient | None = None,
) -> tuple[Rows, int]:
    """Read a partition of a small topic from offset ``start`` to its end. Return its rows and the next offset.

    A request fails after ``patience`` seconds. The reading fails after ``patience`` seconds without progress. Callers set
    ``patience`` if other threads wait for them. ``client`` asks for the offsets; without it, a new client asks.

    Raises:
        KafkaUnreachable: no broker answered.
        LogError: the topic cannot be read.
    """
    client = client or OffsetClient(kafka)
    end = client.ask(topic, partition, timeout=patience)
    if start >= end:
        return [], start
    first = client.ask(topic, partition, first=True, timeout=patience)
    reader = BoundedReader(kafka, topic, partition, max(start, first), end, patience)
    rows: Rows = []
    try:
        while not reader.done:
            rows += reader.read(10_000)
    finally:
        reader.close()
    return rows, reader.next_offset


def _reading(kafka: Kafka, topic: str, partition: int, start: int) -> Consumer:
    # librdkafka requires a group id. A consumer that assigns partitions and never subscribes is a member of no group.
    safe = {"group.id": f"{topic}.reader", "isolation.level": "read_committed", "enable.partition.eof": True}
    consumer = make_consumer(kafka, safe, PREFERRED)
    try:
        consumer.assign([TopicPartition(topic, partition, start)])
    except KafkaException as failure:
        consumer.close()
        raise translated(kafka, f"{topic} cannot be read", failure) from failure
    return consumer
