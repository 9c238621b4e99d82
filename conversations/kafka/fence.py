"""The fence of a transaction: offsets of the consumer group, which the brokers accept from the owner of a partition only.

The offsets are sent first, on a thread of their own, and the records follow at once. A transaction is committed when both are acknowledged. This saves
a round trip, and most of the waits right behind a commit. While the coordinator still ends the transaction before, it refuses offsets, and the partitions of records.
librdkafka sends offsets again after 5 ms (``retry.backoff.ms``), but partitions only after 20 ms, whatever the settings. Behind the offsets, partitions come a little
later, and are mostly accepted at once:

    the transaction before ends    -------|
    the offsets                     no  no  yes
    the partitions                         yes
    the partitions, sent first      no ............ yes

Nothing but time depends on this order (design decision 0068).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from threading import Lock
from typing import Any

from confluent_kafka import KafkaException, Producer, TopicPartition

from conversations.kafka.bounded_calls import BoundedCalls, Stuck
from conversations.kafka.offsets import WITH_ROW
from conversations.kafka.retrying import is_retriable, patiently

OFFSETS_PATIENCE = 5.0
"""Seconds within which the group's coordinator must accept the offsets. After this time a new producer looks for the coordinator again."""
STUCK_AFTER = OFFSETS_PATIENCE + 1
"""Seconds after which a call that should have ended by then is given up."""


class Group:
    """The consumer group whose offsets a transaction carries: its name, its metadata, and the topics of its service."""

    def __init__(
        self, name: str, queue: str, state: str, metadata: Callable[[], Any], own: Collection[str] = (),
        note: str = WITH_ROW,
    ) -> None:  # fmt: skip
        self.name, self.queue, self.state, self.metadata, self.own, self.note = name, queue, state, metadata, own, note


class Fence:
    """Sends the offsets of one transaction after another. After ``Stuck`` it cannot be used any more, and neither can the producer."""

    def __init__(self, group: Group, name: str) -> None:
        self._group = group
        self._calls = BoundedCalls(name)
        self._under_way = False

    def begin(self, producer: Producer, offsets: Mapping[int, int]) -> None:
        """Begin to send offsets. Return when the call is made, so that records that are produced next are mostly behind them.

        Raises:
            Stuck: the thread makes no calls any more.
        """
        begun = Lock()
        begun.acquire()
        send = self._call(producer, offsets)

        def call() -> None:
            begun.release()  # the caller goes on when the call below lets go of the GIL
            send()

        self._under_way = True
        self._calls.begin(call)
        if not begun.acquire(timeout=STUCK_AFTER):
            self._under_way = False
            raise Stuck("the thread of the offsets makes no calls")

    def end(self, producer: Producer, offsets: Mapping[int, int]) -> None:
        """Wait until the offsets that were sent last are accepted. If they fail with an error that may pass, send them again.

        Raises:
            KafkaException: the offsets are refused.
            Stuck: the group's coordinator is silent.
        """
        try:
            self._wait()
        except KafkaException as failure:
            if not is_retriable(failure.args[0]):
                raise
            self.send(producer, offsets)

    def send(self, producer: Producer, offsets: Mapping[int, int]) -> None:
        """Send offsets, and wait until they are accepted. It raises the same errors, also if the transaction has failed before."""
        self.settle()
        patiently(lambda: self._calls.run(self._call(producer, offsets), STUCK_AFTER), OFFSETS_PATIENCE)

    def settle(self) -> None:
        """Wait for the end of what is under way, if anything is: librdkafka makes one call of this kind at a time.

        Refused offsets are no error here. ``Stuck`` is.
        """
        with suppress(KafkaException):
            self._wait()

    def close(self) -> None:
        """Let the thread end as soon as its present call has returned."""
        self._calls.close()

    def _wait(self) -> None:
        if self._under_way:
            self._under_way = False
            self._calls.end(STUCK_AFTER)

    def _call(self, producer: Producer, offsets: Mapping[int, int]) -> Callable[[], None]:
        positions = [
            TopicPartition(self._group.queue, partition, offset, self._group.note)
            for partition, offset in offsets.items()
        ]
        # The epoch is read on the thread that polls, and that thread does not poll before the commit, also when offsets are sent again. A later poll may report a lost
        # partition, and the epoch of that moment must not be used for this step.
        metadata = self._group.metadata()
        return lambda: producer.send_offsets_to_transaction(positions, metadata, OFFSETS_PATIENCE)
