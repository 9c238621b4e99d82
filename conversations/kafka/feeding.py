"""Feeds on Kafka: the records of a plain topic become commands, and their offsets are committed in the same transaction.

Each feed of a service has a consumer group, ``<ns>.<service>.from~<topic>``. The workers of the service are its members, so they share the
partitions of the topic. A feed has a thread, a consumer and a producer of its own, so it never stops the steps of the worker.

**Exactly once.** A transaction has the commands and the offsets of the group. Kafka refuses the offsets of a process that is not a member any
more. Whatever ends a transaction, the next one begins at the committed offsets. Also, the same record always gives the same command. So even a
record that is read twice within ``Periods.command_life`` begins one dialog.

**The first offset.** A partition begins at the offset that the group has committed. The metadata of this offset is the id of the topic. If it is
the id of another topic, the topic was re-created, and all its records are new. If the group has committed nothing at all, the feed is new, and
``start`` decides. For ``start="latest"`` the ends of all partitions are committed before the first record is read. So no later start takes
records for old, and a partition that is added to the topic later is read from its beginning.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from secrets import token_hex

from confluent_kafka import KafkaException

from conversations.backoff import Backoff
from conversations.config import Kafka, WorkerSettings
from conversations.durations import SECOND
from conversations.errors import DestinationFailed, Fenced, Interrupted, KafkaNotReady, KafkaUnreachable, LogError
from conversations.feeds import Feed, Feeder, Turning
from conversations.kafka import rights
from conversations.kafka.catalog import CatalogReader
from conversations.kafka.clients import REQUEST_TIMEOUT, Admin, Topic, describe_topics, translated
from conversations.kafka.failures import describe
from conversations.kafka.feed_input import FeedInput
from conversations.kafka.fence import Group
from conversations.kafka.offsets import Ends, committed, ends_of
from conversations.kafka.retrying import AGAIN, is_unsure, patiently
from conversations.kafka.transactions import Transactions
from conversations.ports import Produced, Record
from conversations.protocol.plain_records import Source
from conversations.protocol.topics import COMMANDS, check_foreign, feed_group, service_topic

log = logging.getLogger("conversations.feeds")

IDLE = 0.2
"""Maximum number of seconds that a poll waits for a record."""
OUTAGE = (0.25, 8.0)
"""The first and the longest wait, in seconds, before a feed that failed joins its group again."""
COMMIT_TRIES = 3
"""Number of consecutive aborted transactions after which the feed joins its group again."""
GROUP_PATIENCE = 5.0
"""Maximum number of seconds to wait for the reason for which a group does not answer."""
LOOK_UP = 2.0
"""Maximum number of seconds that a transaction waits for the metadata of its topic."""


class KafkaFeeder(Feeder):
    """Reads one feed of a service from Kafka.

    Args:
        service: name of the service.
        feed: the feed.
        kafka: the cluster and the namespace.
        settings: the settings of the worker: its slot, its batch and its limits.

    Raises:
        DeclarationError: the topic belongs to the namespace.
    """

    def __init__(self, service: str, feed: Feed, kafka: Kafka, settings: WorkerSettings) -> None:
        super().__init__(service, feed)
        check_foreign(kafka.namespace, service, [feed.topic], "read from")
        self._kafka, self._settings = kafka, settings
        self._group = feed_group(kafka.namespace, service, feed.topic)
        self._commands = service_topic(kafka.namespace, service, COMMANDS)
        self._admin = Admin(kafka)
        self._outage = Backoff(*OUTAGE)
        self._looks_every = settings.periods.topics_looked_at / SECOND
        self._has_read = False
        """True if this process has read the topic. Kafka forgets the offsets of a deleted topic, and all records of the next one are new."""

    def check(self) -> None:
        """Check, before the worker starts, that the topic can be read. A cluster that is not ready is not waited for here.

        Raises:
            KafkaUnreachable: no broker answered.
            LogError: the topic is missing, or the right to read it or to use its group is.
        """
        with suppress(KafkaNotReady):
            topic = self._look()
            try:
                self._committed(topic)
            except KafkaUnreachable:
                self._check_group()
                raise

    def run(self) -> None:
        """Read until ``stop``. After a failure of Kafka, and while the topic is gone, join the group again later."""
        while not self.stopping.is_set():
            try:
                self._read_until_stop()
            except LogError as error:
                self._wait(str(error))
            except KafkaException as failure:  # of the consumer, for example when it may not seek now
                self._wait(describe(failure.args[0]))

    def _wait(self, why: str) -> None:
        if why != self.trouble:
            log.warning("service %s reads %s again later: %s", self.service, self.feed.topic, why)
        self.trouble = why
        self.stopping.wait(self._outage.again())

    def _read_until_stop(self) -> None:
        topic = self._look()
        turning = self._turning(topic)
        inputs = FeedInput(self._kafka, self.feed.topic, self._group)
        transactions = self._transactions(topic, inputs)
        try:
            transactions.start()  # aborts the transaction that an earlier process of this slot left open
            inputs.join()
            looked = time.monotonic()
            while not self.stopping.is_set():
                if time.monotonic() - looked > self._looks_every:
                    self._check_same(topic)  # librdkafka does not tell that a topic was deleted
                    looked = time.monotonic()
                if inputs.unopened:
                    self._open(topic, inputs, transactions)
                records = inputs.poll(IDLE, self._settings.batch, self._settings.limits.step_bytes)
                if records:
                    self._pass_on(records, (inputs, transactions, turning))
        finally:
            try:
                inputs.close()
            finally:
                transactions.close()

    # -- looking --------------------------------------------------------------------------------------------------

    def _look(self) -> Topic:
        """Return the topic.

        Raises:
            LogError: it is missing, or may not be read.
        """
        name = self.feed.topic
        topic = self._describe([name])[name]
        if topic is None:
            raise LogError(
                f"service {self.service!r} reads from topic {name}, which does not exist. Its owner creates it; 'conversations apply' does not"
            )
        if not topic.may("READ"):
            raise LogError(f"service {self.service!r} reads from topic {name}: READ on topic {name} is missing")
        return topic

    def _check_same(self, topic: Topic) -> Topic:
        """Look again, and return the topic with its present partition count.

        Raises:
            LogError: it is missing, may not be read, or was re-created.
        """
        now = self._look()
        if now.id != topic.id:
            raise LogError(f"topic {self.feed.topic} was re-created")
        return now

    def _describe(self, names: list[str], timeout: float = REQUEST_TIMEOUT) -> dict[str, Topic | None]:
        with self._admin.request() as client:
            return describe_topics(client, self._kafka, names, timeout, rights=True)

    def _check_group(self) -> None:
        """Raise the reason for which the group does not answer. Without the right to use it, a request for its offsets only times out."""
        inputs = FeedInput(self._kafka, self.feed.topic, self._group)
        try:
            inputs.poll(GROUP_PATIENCE, 1, 1)
        finally:
            inputs.close()

    def _turning(self, topic: Topic) -> Turning:
        count = CatalogReader(self._kafka, self._admin).read().partitions(self.service)
        if count is None:
            raise LogError(f"service {self.service!r} is not in the catalog: run 'conversations apply' for it")
        source = Source(self._kafka.namespace, self.service, self.feed.topic, topic.id)
        return Turning(self.feed, source, count, self._settings.limits.record_body)

    def _transactions(self, topic: Topic, inputs: FeedInput) -> Transactions:
        slot = (self._settings.slot or "").replace(".", "~")
        # Workers without a slot get names of their own, so that they do not fence each other.
        name = f"{self._group}.{slot or token_hex(8)}"
        group = Group(self._group, self.feed.topic, "", inputs.metadata, (self._commands,), topic.id)
        return Transactions(self._kafka, name, group, partial(self._describe, timeout=LOOK_UP))

    # -- the first offsets ------------------------------------------------------------------------------------------

    def _committed(self, topic: Topic) -> dict[int, int]:
        """Return the offsets that the group has committed, for this topic and not for an earlier one of its name."""
        places = [(self.feed.topic, number) for number in range(topic.partitions)]
        try:
            found = patiently(
                lambda: committed(self._kafka, self._group, places), REQUEST_TIMEOUT, again=is_unsure, pause=AGAIN
            )
        except KafkaException as failure:
            need = rights.told(failure.args[0], topic=self.feed.topic, group=self._group)
            raise translated(
                self._kafka, f"the offsets of group {self._group} cannot be read{need}", failure
            ) from failure
        there = {it.partition: it for it in found if it.error is None and it.offset >= 0}
        if others := sorted(number for number, it in there.items() if it.metadata not in {topic.id, None, ""}):
            log.warning(
                "service %s reads partitions %s of %s from their beginning, because the topic was re-created",
                self.service, others, self.feed.topic,
            )  # fmt: skip
        return {number: 0 if number in others else it.offset for number, it in there.items()}

    def _open(self, topic: Topic, inputs: FeedInput, transactions: Transactions) -> None:
        """Begin to read the partitions that the group has assigned."""
        now = self._check_same(topic)
        firsts = {number: at for (_, number), at in Ends(self._kafka, [self.feed.topic]).first().items()}
        ends = {
            number: at for (_, number), at in ends_of(self._kafka, [(self.feed.topic, it) for it in firsts]).items()
        }
        before = self._committed(now)
        if not before and self.feed.start == "latest" and not self._has_read:
            before = ends
            transactions.commit([], before)
        begin = {number: before.get(number, 0) for number in sorted(inputs.unopened)}
        for number, at in begin.items():
            if number in before and not firsts[number] <= at <= ends[number]:
                log.warning(
                    "service %s: partition %d of %s has offsets from %d to %d, but %d is the next one to read. Records in between were deleted "
                    "before they were read, or were no records but markers of transactions",
                    self.service, number, self.feed.topic, firsts[number], ends[number], at,
                )  # fmt: skip
        inputs.open({number: min(max(at, firsts[number]), ends[number]) for number, at in begin.items()})
        self._has_read = True
        self._is_well()
        log.info("service %s reads from %s, partition and offset: %s", self.service, self.feed.topic, begin)

    # -- passing on -------------------------------------------------------------------------------------------------

    def _pass_on(self, records: Sequence[Record], what: tuple[FeedInput, Transactions, Turning]) -> None:
        """Append the commands of some records, and commit the offsets after them."""
        inputs, transactions, turning = what
        outs, counts = turning.turn(records, time.time_ns() // 1_000)
        offsets = {record.partition(): record.offset() + 1 for record in records}
        if not self._commit(transactions, outs, offsets):
            self.stopping.wait(self._outage.again())
            inputs.rewind()  # the next poll learns which partitions are lost
            return
        inputs.positions.update(offsets)
        self.counts.add(counts)
        self._is_well()

    def _is_well(self) -> None:
        self._outage.over()
        self.trouble = ""

    def _commit(self, transactions: Transactions, outs: Sequence[Produced], offsets: dict[int, int]) -> bool:
        """Commit, and try again after a passing failure. Return False if a partition belongs to another member.

        Raises:
            LogError: the outcome is unknown, or the commands topic takes no records. Everything is read again.
        """
        for left in reversed(range(COMMIT_TRIES)):
            try:
                transactions.commit(outs, offsets)
            except Fenced as error:
                log.info("service %s: %s", self.service, error)
                return False
            except Interrupted as error:
                if not left:
                    raise  # the feed looks at its topic before it joins again, and names what is wrong
                log.warning("service %s: a transaction of %s was aborted: %s", self.service, self.feed.topic, error)
                self.stopping.wait(self._outage.again())
            except DestinationFailed as error:
                raise LogError(f"{self._commands} does not take the commands of {self.feed.topic}: {error}") from error
            else:
                return True
        raise AssertionError("the last attempt returns or raises")
