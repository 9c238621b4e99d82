"""The consumer of a worker. It reads the assigned partitions of the queue, and the same partitions of the commands topic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from time import monotonic
from typing import Any, cast

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from conversations.config import Kafka
from conversations.errors import InputLost, LogError
from conversations.kafka import rights
from conversations.kafka.clients import log, make_consumer, note_trouble, translated, weakly
from conversations.kafka.decisions import DecisionsInput
from conversations.kafka.failures import describe, ignorable, input_gone
from conversations.kafka.input_offsets import InputOffsets
from conversations.ports import ANY_SIZE, Listener, Positions, Record
from conversations.protocol.topics import COMMANDS, DECISIONS

PREFERRED = {
    "fetch.min.bytes": 1,
    "fetch.wait.max.ms": 100,
    # With many partitions, the default of 100,000 makes librdkafka pause its fetches for a second at a time.
    "queued.min.messages": 200_000,
    "fetch.queue.backoff.ms": 10,
    # Records of all partitions wait in one queue of the client, so a small record waits for all bytes that were fetched before it.
    "queued.max.messages.kbytes": 4_096,
}
# enable.partition.eof reports the end of a partition. Without this report, nobody knows that only transaction markers follow.
SAFE = {"isolation.level": "read_committed", "enable.partition.eof": True}
PROTOCOLS = {
    # Only the queue is subscribed. The commands follow the assignment of the queue, so partitions of one number stay together.
    "consumer": {"group.protocol": "consumer", "group.remote.assignor": "range"},
    # This assignment is incremental, like the assignment of "consumer". So the same callbacks work for both protocols.
    "classic": {"group.protocol": "classic", "partition.assignment.strategy": "cooperative-sticky"},
}
SLICE = 32
"""Number of records in the first slice of a poll, and the minimum for later slices."""
LARGE = 100_000
"""Bytes from which on a record is large."""
SMALL = 1_000
"""A slice whose records have fewer bytes on average is not searched for large ones."""
LARGE_SLICE = 2
"""Number of records in a slice after a large one. Large records mostly follow each other."""
LARGE_BYTES = 2_000_000
"""Bytes of large records after which a poll takes no more, so that they do not hold up the small ones of other partitions."""
LOOK_EVERY = 1.0
"""Seconds between two looks at the ends of the open partitions."""
ANSWERED_WITHIN = 0.5
"""Seconds within which a broker must answer a question about the end of a paused queue."""
_failed = Message.error


class Inputs:
    """The inputs of one worker: the queue partitions that its group assigned, and the partitions of commands and decisions with the same numbers.

    The decisions have a consumer of their own (``DecisionsInput``).

    When the group assigns a partition, the callback assigns nothing to the consumer, so nothing is fetched. After the
    state is restored, ``open`` assigns the queue and the commands with explicit offsets. For librdkafka, the
    worker owns the partition from the callback on.
    """

    def __init__(
        self,
        kafka: Kafka,
        topics: tuple[str, str, str],
        group: str,
        protocol: str,
        on_alone: Callable[[], None] = lambda: None,
    ) -> None:
        self._kafka = kafka
        self._queue, self._commands, decisions = topics
        self._decisions = DecisionsInput(kafka, decisions, group)
        self._group = group

        def heard(error: KafkaError) -> None:
            note_trouble(error)
            if error.code() == KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001 - librdkafka's name
                on_alone()

        self._consumer: Consumer = make_consumer(
            kafka, {**SAFE, **PROTOCOLS[protocol], "group.id": group, "error_cb": heard}, PREFERRED, member=True
        )
        self._listener: Listener | None = None
        self._owned: set[int] = set()
        self._open: set[int] = set()
        self._offsets = InputOffsets()
        self.queue_ends: dict[int, int] = {}
        """End of each open queue partition, as the last fetch told it. ``poll`` looks once a second, and any thread may read it."""
        self._look_at = 0.0
        self._moved = self._closing = False
        self._errors: list[LogError] = []
        self.broken = False
        """True when the producer cannot commit any more. Then ``lost`` is called, instead of ``revoked``, for a partition that is taken away."""

    @property
    def open_partitions(self) -> frozenset[int]:
        """Partitions that ``open`` has started; their inputs may be paused."""
        return frozenset(self._open)

    def metadata(self) -> Any:
        """Return the present member id and epoch of this consumer, as group metadata.

        Raises:
            KafkaException: UNKNOWN_MEMBER_ID, because this consumer is in no group now.
        """
        return metadata_of(self._consumer)

    def subscribe(self, listener: Listener) -> None:
        """Join the group. The listener gets the assigned partitions."""
        self._listener = listener
        self._consumer.subscribe(
            [self._queue],
            on_assign=weakly(self._on_assign),
            on_revoke=weakly(self._on_revoke),
            on_lost=weakly(self._on_lost),
        )

    def poll(self, timeout: float, limit: int, size: int = ANY_SIZE) -> Sequence[Record]:
        """Return at most ``limit`` records, of about ``size`` bytes together. If there are none, wait up to ``timeout`` seconds.

        Decisions come in front of the other records. They are at most half of ``limit``.

        Raises:
            InputLost: an input's position is out of range, or its topic was re-created.
            LogError: the consumer failed.
        """
        if self._errors:
            raise self._errors.pop(0)
        self._moved = False
        decided, errors = self._decisions.poll(limit // 2)
        self._errors += errors
        batch = self._poll(0 if decided else timeout, limit - len(decided), size)
        if decided:
            # The poll may have taken partitions away.
            batch = [*(it for it in decided if it.partition() in self._open), *batch]
        if not batch and self._errors:
            raise self._errors.pop(0)
        return batch

    def _poll(self, timeout: float, limit: int, size: int) -> Sequence[Record]:
        if (now := monotonic()) >= self._look_at:
            self._look_at = now + LOOK_EVERY
            self._look_at_ends()
        batch = self._take(timeout, limit, size)
        # The end of a partition comes as an event. It wakes the poll, and there is nothing to do for the worker.
        # librdkafka waits for whole milliseconds, so the rest is rounded up.
        while not (batch or self._moved or self._errors) and (left := ceil((now + timeout - monotonic()) * 1_000)) > 0:
            batch = self._take(left / 1_000, limit, size)
        return cast("list[Record]", batch)

    def _take(self, timeout: float, limit: int, size: int) -> list[Message]:
        """Return the records that have arrived. If there are none, wait for the next event, which may be no record."""
        try:
            first = self._consumer.poll(timeout)
            if first is None:
                return []
            batch = more(self._consumer, first, limit, size)
        except KafkaException as failure:
            raise translated(self._kafka, "polling failed", failure) from failure
        # This check is one pass in C. The loops below run only after an error or a change of the assignment.
        if any(map(_failed, batch)):
            batch = self._without_errors(batch)
        if self._moved:
            # A callback ran while this batch was taken. Records of partitions that were taken away must not be returned.
            batch = [message for message in batch if message.partition() in self._open]
        return batch

    def _look_at_ends(self) -> None:
        """Ask librdkafka for the ends that it knows from its fetches. Nothing is fetched of a paused queue, so a broker is asked for its end."""
        known = {}
        for number in self._open:
            place, is_paused = TopicPartition(self._queue, number), self._offsets.is_paused((self._queue, number))
            try:
                _, end = self._consumer.get_watermark_offsets(place, timeout=ANSWERED_WITHIN, cached=not is_paused)
            except KafkaException:  # a figure that is missing must not stop a worker
                if is_paused:
                    break  # the others would wait for a broker, too
                continue
            if end >= 0:
                known[number] = end
        self.queue_ends = known

    def fail(self, errors: Sequence[LogError]) -> None:
        """Let the next polls raise these errors, one in each poll."""
        self._errors += errors

    def open(self, partition: int, positions: Positions) -> None:
        """Start reading the inputs of a partition. Do nothing if the partition was taken away meanwhile."""
        if partition not in self._owned:
            return
        inputs = [
            TopicPartition(self._queue, partition, _start(positions.queue)),
            TopicPartition(self._commands, partition, _start(positions.commands)),
        ]
        if self._assigned({partition}):
            for place in inputs:
                self._consumer.seek(place)
        else:
            self._consumer.incremental_assign(inputs)
        self._consumer.resume(inputs)  # an input may still be paused from before
        self._decisions.open(partition, positions.decisions)
        self._open.add(partition)
        self._offsets.begin((self._queue, partition), positions.queue)
        self._offsets.begin((self._commands, partition), positions.commands)

    def read_to(self, kind: str, partition: int) -> int:
        """Return the offset at which the end of an input was last reached, or 0. ``poll`` has returned every earlier record."""
        if kind == DECISIONS:
            return self._decisions.read_to(partition)
        return self._offsets.end((self._topic(kind), partition))

    def _topic(self, kind: str) -> str:
        return self._commands if kind == COMMANDS else self._queue

    def positions(self) -> dict[tuple[str, int], int]:
        """Return the next offset of each input that is not paused. Transaction markers at the end of an input are skipped."""
        return self._offsets.positions(self._consumer) | self._decisions.positions()

    def pause(self, partition: int, kind: str) -> None:
        """Pause one input of a partition."""
        if kind == DECISIONS:
            self._decisions.pause(partition)
        elif partition in self._open:
            topic = self._topic(kind)
            self._offsets.pause((topic, partition))
            self._consumer.pause([TopicPartition(topic, partition)])

    def resume(self, partition: int, kind: str) -> None:
        """Resume one input of a partition, after the last record that ``poll`` returned."""
        if kind == DECISIONS:
            self._decisions.resume(partition)
        elif partition in self._open:
            topic = self._topic(kind)
            self._offsets.resume((topic, partition))
            self._consumer.resume([TopicPartition(topic, partition)])

    def drop(self, partition: int) -> None:
        """Stop reading a partition that stays assigned to this worker."""
        if partition not in self._open:
            return
        self._open.discard(partition)
        self._forget({partition})
        self._decisions.drop(partition)
        # The inputs are paused, not unassigned. librdkafka may know of a revocation whose callback has not run yet. Then
        # librdkafka would take any call of unassign, even with no partition, as the answer to this revocation. The next
        # owner would begin its work, although this worker could still commit.
        self._consumer.pause(self._assigned({partition}))

    def close(self) -> None:
        """Leave the group. The listener is called for every partition that is still owned."""
        self._closing = True
        try:
            self._consumer.close()
        finally:
            self._decisions.close()

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._moved = True
        consumer.incremental_assign([])  # acknowledges the assignment and fetches nothing
        numbers = _numbers(partitions)
        self._owned |= set(numbers)
        if numbers and self._listener is not None:
            self._listener.assigned(numbers)

    def _on_revoke(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._gone(partitions, lost=self.broken)

    def _on_lost(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._gone(partitions, lost=True)

    def _gone(self, partitions: list[TopicPartition], *, lost: bool) -> None:
        self._moved = True
        numbers = _numbers(partitions)
        try:
            if numbers and self._listener is not None:
                (self._listener.lost if lost else self._listener.revoked)(numbers)
        finally:
            for number in numbers:
                self._decisions.drop(number)
            self._owned -= set(numbers)
            self._open -= set(numbers)
            self._forget(set(numbers))
            self._answer(set(numbers))

    def _forget(self, numbers: set[int]) -> None:
        for number in numbers:
            self._offsets.forget((self._queue, number))
            self._offsets.forget((self._commands, number))

    def _assigned(self, numbers: set[int]) -> list[TopicPartition]:
        return [where for where in self._consumer.assignment() if where.partition in numbers]

    def _answer(self, numbers: set[int]) -> None:
        # The group's callbacks get only queue partitions. The commands partitions with the same numbers must be unassigned
        # here. Otherwise this worker would continue to read them. The call answers the callback even if nothing is unassigned.
        try:
            self._consumer.incremental_unassign(self._assigned(numbers))
        except KafkaException:
            if not self._closing:  # a closing consumer unassigns everything by itself, and may refuse this call
                raise

    def _without_errors(self, batch: list[Message]) -> list[Message]:
        good = []
        for message in batch:
            error = message.error()
            if error is None:
                good.append(message)
                continue
            partition = message.partition()
            if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's name
                topic = message.topic()
                if topic is not None and partition is not None:
                    self._offsets.reach_end((topic, partition), message.offset() or 0)
            elif input_gone(error) and partition is not None and partition >= 0:
                if partition in self._open:
                    self._errors.append(InputLost(partition, f"{message.topic()}: {describe(error)}"))
            elif ignorable(error):
                log.info("Kafka reports an error, and librdkafka recovers by itself: %s", describe(error))
            else:
                name = message.topic() or self._queue
                need = rights.told(error, topic=name, group=self._group)
                self._errors.append(LogError(f"reading {name} failed{need}: {describe(error)}"))
        return good


def metadata_of(consumer: Consumer) -> Any:
    """Return the present member id and epoch of a consumer, as group metadata.

    Raises:
        KafkaException: UNKNOWN_MEMBER_ID, because the consumer is in no group now.
    """
    try:
        member = consumer.memberid()
        metadata = consumer.consumer_group_metadata()
        # A classic member that was removed from its group has neither id nor generation for a moment. A broker checks
        # a transaction's offsets against the group only if it gets an id or a generation. Without the check, a member
        # that was removed could commit.
        if member and consumer.memberid() == member:
            return metadata
    except RuntimeError as failure:  # raised between losing a group and joining it again
        raise KafkaException(KafkaError(KafkaError.UNKNOWN_MEMBER_ID, str(failure))) from failure
    raise KafkaException(KafkaError(KafkaError.UNKNOWN_MEMBER_ID, "this consumer is in no group just now"))


def more(consumer: Consumer, first: Message, limit: int, size: int) -> list[Message]:
    """Take the records that have arrived, in slices. The size of a slice is known only when its records are decompressed in memory.

    The first slice has at most ``SLICE`` records. For a later slice, the maximum is the number of records of average size
    that fit into the rest of ``size``. This maximum is at least ``SLICE``. After a large record, a slice has ``LARGE_SLICE`` records.
    """
    batch, taken, some, large = [first], len(first), SLICE, 0
    if taken > LARGE:
        some, large = LARGE_SLICE, taken
    while taken < size and large < LARGE_BYTES and len(batch) < limit:
        found = consumer.consume(min(some, limit - len(batch)), 0)
        if not found:
            break
        batch += found
        got = sum(map(len, found))
        taken += got
        if got > max(LARGE, SMALL * len(found)):
            large += sum(it for it in map(len, found) if it > LARGE)
        some = LARGE_SLICE if large else max(SLICE, (size - taken) * len(batch) // max(taken, 1))
    return batch


def _start(offset: int | None) -> int:
    return OFFSET_BEGINNING if offset is None else offset


def _numbers(partitions: list[TopicPartition]) -> list[int]:
    return sorted(where.partition for where in partitions)
