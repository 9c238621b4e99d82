"""The consumer of a worker: follows the queue's assignment, and the commands that go with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from conversations.config import Kafka
from conversations.errors import InputLost, LogError
from conversations.kafka import rights
from conversations.kafka.clients import log, make_consumer, note_trouble, translated
from conversations.kafka.failures import describe, ignorable, input_gone
from conversations.ports import ANY_SIZE, Listener, Positions, Record

PREFERRED = {
    "fetch.min.bytes": 1,
    "fetch.wait.max.ms": 100,
    # The default of 100,000 over many partitions makes librdkafka pause its fetches for a second at a time.
    "queued.min.messages": 200_000,
    "fetch.queue.backoff.ms": 10,
}
# The end of a partition is told, because nothing else says that only markers of transactions follow.
SAFE = {"isolation.level": "read_committed", "enable.partition.eof": True}
PROTOCOLS = {
    # Only the queue is subscribed; everything else follows it, so any assignor keeps partitions of one number together.
    "consumer": {"group.protocol": "consumer", "group.remote.assignor": "range"},
    # Incremental like the new protocol, so that one set of callbacks serves both.
    "classic": {"group.protocol": "classic", "partition.assignment.strategy": "cooperative-sticky"},
}
SLICE = 32
"""Records taken at first, and then as many as fit if they are like those; of the largest this is 48 MB."""
_failed = Message.error


class Inputs:
    """The input of one worker: the queue partitions that its group gave it, and the commands partitions of the same numbers.

    Nothing is fetched when a partition arrives: the callback assigns nothing, and ``open`` adds queue and commands
    with explicit offsets once the state is restored. librdkafka counts the partition as owned all the same.
    """

    def __init__(
        self,
        kafka: Kafka,
        topics: tuple[str, str],
        group: str,
        protocol: str,
        on_alone: Callable[[], None] = lambda: None,
    ) -> None:
        self._kafka = kafka
        self._queue, self._commands = topics
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
        self._ends: dict[tuple[str, int], int] = {}
        self._starts: dict[tuple[str, int], int] = {}
        self._held: set[tuple[str, int]] = set()
        """Inputs that were paused."""
        self._moved = self._closing = False
        self._errors: list[LogError] = []
        self.broken = False
        """True when the producer cannot commit any more: partitions that go are lost, not revoked."""

    @property
    def open_partitions(self) -> frozenset[int]:
        """Partitions whose inputs flow (or are paused)."""
        return frozenset(self._open)

    def metadata(self) -> Any:
        """Return the group's member id and epoch as of now.

        Raises:
            KafkaException: with UNKNOWN_MEMBER_ID: this consumer is in no group any more.
        """
        try:
            member = self._consumer.memberid()
            metadata = self._consumer.consumer_group_metadata()
            # A classic member that was thrown out has neither id nor generation for a moment, and a broker checks a
            # transaction's offsets against the group only if it is given one of them: without, a zombie would commit.
            if member and self._consumer.memberid() == member:
                return metadata
        except RuntimeError as failure:  # what the client raises between losing a group and joining it again
            raise KafkaException(KafkaError(KafkaError.UNKNOWN_MEMBER_ID, str(failure))) from failure
        raise KafkaException(KafkaError(KafkaError.UNKNOWN_MEMBER_ID, "this consumer is in no group just now"))

    def subscribe(self, listener: Listener) -> None:
        """Join the group; partitions arrive through the listener."""
        self._listener = listener
        self._consumer.subscribe(
            [self._queue], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    def poll(self, timeout: float, limit: int, size: int = ANY_SIZE) -> Sequence[Record]:
        """Return at most ``limit`` records, of about ``size`` bytes; wait up to ``timeout`` seconds only when there are none.

        Raises:
            InputLost: an input position is out of range or its topic was re-created.
            LogError: the consumer failed.
        """
        if self._errors:
            raise self._errors.pop(0)
        self._moved = False
        try:
            first = self._consumer.poll(timeout)
            if first is None:
                return ()
            batch = self._more(first, limit, size)
        except KafkaException as failure:
            raise translated(self._kafka, "polling failed", failure) from failure
        # One pass in C; the loops below run only when something happened.
        if any(map(_failed, batch)):
            batch = self._without_errors(batch)
        if self._moved:
            # A callback ran between fetches of this batch: records of a partition that went are not ours to give.
            batch = [message for message in batch if message.partition() in self._open]
        if not batch and self._errors:
            raise self._errors.pop(0)
        return cast("list[Record]", batch)

    def _more(self, first: Message, limit: int, size: int) -> list[Message]:
        """Take the records at hand in slices: each slice is in memory, unpacked, before anybody can say how large it is."""
        batch, taken, some = [first], len(first), SLICE
        while taken < size and len(batch) < limit:
            more = self._consumer.consume(min(some, limit - len(batch)), 0)
            if not more:
                break
            batch += more
            taken += sum(map(len, more))
            some = max(SLICE, (size - taken) * len(batch) // max(taken, 1))
        return batch

    def fail(self, errors: Sequence[LogError]) -> None:
        """Raise these at the next polls."""
        self._errors += errors

    def open(self, partition: int, positions: Positions) -> None:
        """Let queue and commands of a partition flow; nothing happens when it was taken away meanwhile."""
        if partition not in self._owned:
            return
        self._forget_ends({partition})  # what was read before says nothing of what flows from another position
        inputs = [
            TopicPartition(self._queue, partition, _start(positions.queue)),
            TopicPartition(self._commands, partition, _start(positions.commands)),
        ]
        if self._assigned({partition}):
            for place in inputs:
                self._consumer.seek(place)
        else:
            self._consumer.incremental_assign(inputs)
        self._consumer.resume(inputs)  # it may have been held back, also when it was ours before
        self._open.add(partition)
        for place in inputs:
            self._starts[place.topic, partition] = max(place.offset, 0)
            self._held.discard((place.topic, partition))

    def read_to(self, topic: str, partition: int) -> int:
        """Offset up to which everything of an input was given out when its end was last reached."""
        return self._ends.get((topic, partition), 0)

    def positions(self) -> dict[tuple[str, int], int]:
        """Up to where everything of the inputs that flow was given out, markers at their ends included."""
        places = [(topic, number) for number in self._open for topic in (self._queue, self._commands)]
        flowing = [TopicPartition(*place) for place in places if place not in self._held]
        found = {(it.topic, it.partition): it.offset for it in self._consumer.position(flowing)} if flowing else {}
        return {place: max(at, self._starts[place], self._ends.get(place, 0)) for place, at in found.items()}

    def pause(self, partition: int, *, commands: bool) -> None:
        """Hold back the queue of a partition, or its commands."""
        if partition in self._open:
            topic = self._commands if commands else self._queue
            self._held.add((topic, partition))
            self._consumer.pause([TopicPartition(topic, partition)])

    def resume(self, partition: int, *, commands: bool) -> None:
        """Let the queue of a partition flow again, or its commands, from the record after the last one given out."""
        if partition in self._open:
            topic = self._commands if commands else self._queue
            self._held.discard((topic, partition))
            self._consumer.resume([TopicPartition(topic, partition)])

    def drop(self, partition: int) -> None:
        """Stop reading a partition that stays ours."""
        if partition not in self._open:
            return
        self._open.discard(partition)
        self._forget_ends({partition})
        # Not unassigned: librdkafka may have heard of a revocation we have not been told yet, and takes any unassign, an
        # empty one too, for our answer: the next owner would go to work while we could still commit.
        self._consumer.pause(self._assigned({partition}))

    def close(self) -> None:
        """Leave the group; the listener hears of every partition that is still owned."""
        self._closing = True
        self._consumer.close()

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._moved = True
        consumer.incremental_assign([])  # acknowledged, nothing fetched: see the class
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
            self._owned -= set(numbers)
            self._open -= set(numbers)
            self._forget_ends(set(numbers))
            self._answer(set(numbers))

    def _forget_ends(self, numbers: set[int]) -> None:
        for place in [(topic, number) for topic in (self._queue, self._commands) for number in numbers]:
            self._ends.pop(place, None)

    def _assigned(self, numbers: set[int]) -> list[TopicPartition]:
        return [where for where in self._consumer.assignment() if where.partition in numbers]

    def _answer(self, numbers: set[int]) -> None:
        # The group's callbacks list the queue only: the commands that came with it are ours to take away, or the
        # old owner would go on reading them. Called with nothing to take away, it still answers the callback.
        try:
            self._consumer.incremental_unassign(self._assigned(numbers))
        except KafkaException:
            if not self._closing:  # a consumer that leaves takes everything away by itself, and may refuse to be told
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
                    self._ends[topic, partition] = message.offset() or 0
            elif input_gone(error) and partition is not None and partition >= 0:
                if partition in self._open:
                    self._errors.append(InputLost(partition, f"{message.topic()}: {describe(error)}"))
            elif ignorable(error):
                log.info("Kafka reports, and mends by itself: %s", describe(error))
            else:
                name = message.topic() or self._queue
                need = rights.told(error, topic=name, group=self._group)
                self._errors.append(LogError(f"reading {name} failed{need}: {describe(error)}"))
        return good


def _start(offset: int | None) -> int:
    return OFFSET_BEGINNING if offset is None else offset


def _numbers(partitions: list[TopicPartition]) -> list[int]:
    return sorted(where.partition for where in partitions)
