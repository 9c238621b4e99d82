"""Asks a cluster for offsets: the first and the end offsets of partitions, and the offsets that consumer groups have committed.

There are three kinds of offsets. The **log end** is after all records, also after records of open transactions. The **decided** end is
lower than the log end if a transaction is open. All records before the decided end are committed or aborted, for all readers. The
**committed** offset of a group is the position that the group has stored.

This module asks with consumers that are members of no group. An admin client must not be used, because librdkafka 2.16 may then end
the process with a segmentation fault, in two ways. If the coordinator of a group has moved, librdkafka looks for the new one by the
group id of the client, and an admin client has none. And the admin client's own request for offsets keeps on using a record that
another thread frees as soon as metadata arrive.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from itertools import chain
from threading import Thread
from time import monotonic
from typing import NamedTuple, TypeVar

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition

from conversations.config import Kafka
from conversations.errors import LogError
from conversations.kafka.clients import REQUEST_TIMEOUT, describe_topics, make_admin, make_consumer, translated
from conversations.kafka.retrying import AGAIN, is_unsure, looked_for, patiently
from conversations.protocol.topics import QUEUE, service_topic

T = TypeVar("T")

Place = tuple[str, int]
"""A topic and one of its partitions."""
Offsets = dict[Place, int]

OPEN_FOR = 30.0
"""Seconds to wait for the end of an open transaction: three times the transaction time-out of a worker."""

ALONE = 2.0
"""Seconds for the answer about one partition, if the question about many partitions had no answer."""

LED_WITHIN = 30.0
"""Seconds that jobs and commands wait for the leader of a partition. A busy broker may need many seconds to become the leader."""

WITH_ROW = "with the row"
"""Metadata of the offsets that an owner commits together with the partition's row. Offsets that a person has moved lack this text."""


# -- one partition ---------------------------------------------------------------------------------------------------


class OffsetClient:
    """A client for questions about offsets. It is kept between questions, and replaced after a failure. It is thread-safe.

    A new client for each question is safer, because an old client may continue to ask a former leader, and costs ten milliseconds.
    """

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._consumer: Consumer | None = None

    def ask(self, topic: str, partition: int, *, first: bool = False, timeout: float | None = None) -> int:
        """Return the log end of a partition, or its first offset, as ``ask_offset`` does. It raises the same errors."""
        seconds = REQUEST_TIMEOUT if timeout is None else timeout
        place, question = (topic, partition), FIRST if first else END
        try:
            return patiently(lambda: self.ask_once(place, question, seconds), seconds, again=is_unsure, pause=AGAIN)
        except KafkaException as failure:
            at_once = timeout is not None
            raise translated(self._kafka, f"offsets of {topic} cannot be listed", failure, at_once=at_once) from failure

    def ask_once(self, place: Place, question: _Question, timeout: float) -> int:
        """Ask once for the first offset or the log end. Raise ``KafkaException`` if there is no answer."""
        consumer = self._consumer or _client(self._kafka, question)
        self._consumer = None
        answer = _answered(consumer, [place], question, timeout)[place]
        self._consumer = consumer
        return answer


def ask_offset(kafka: Kafka, topic: str, partition: int, *, first: bool = False, timeout: float | None = None) -> int:
    """Return the log end of a partition, or its first offset. Repeat the request as long as the broker does not know the offset.

    ``timeout`` is the number of seconds for the request. If ``timeout`` is given, the login is not checked after
    a failure. Callers set ``timeout`` if other threads wait for them.

    Raises:
        KafkaUnreachable: no broker answered, or the leader of the partition did not answer.
        LogError: the partition does not exist, or a right is missing.
    """
    return OffsetClient(kafka).ask(topic, partition, first=first, timeout=timeout)


def ask_bounds(kafka: Kafka, topic: str, partition: int) -> Future[tuple[int, int]]:
    """Ask for the first offset and the log end of a partition on a new thread, for callers that must not wait.

    The future raises ``KafkaException`` if there is no answer within ``REQUEST_TIMEOUT`` seconds.
    """
    place = (topic, partition)

    def ask() -> tuple[int, int]:
        client = OffsetClient(kafka)
        first, end = (client.ask_once(place, question, REQUEST_TIMEOUT) for question in (FIRST, END))
        return first, end

    return _on_thread(ask, f"bounds of {topic}")


# -- many partitions -------------------------------------------------------------------------------------------------


class Extent(NamedTuple):
    """The first offset and the end of a partition."""

    topic_id: str
    """Id of the topic. A re-created topic of the same name has another id."""
    first: int
    """Offset at which the log begins."""
    end: int
    """The decided end: all records at lower offsets are committed or aborted."""


def extents_of(kafka: Kafka, topics: Iterable[str], may_lack: Collection[str] = ()) -> dict[Place, Extent]:
    """Return the present extent of every partition of some topics. Topics of ``may_lack`` are left out if they are missing.

    Raises:
        KafkaUnreachable: no broker answered.
        LogError: a topic is missing, or cannot be described.
    """
    ends = Ends(kafka, topics, may_lack)
    decided = ends.decided()
    # Ask for the first offsets last. If Kafka deletes records meanwhile, the first offsets are then after these records.
    first = ends.first()
    return {place: Extent(ends.ids[place[0]], first[place], end) for place, end in decided.items()}


class Ends:
    """Offsets of the partitions of some topics. Topics of ``may_lack`` are left out if they are missing.

    Raises:
        KafkaUnreachable: no broker answered.
        LogError: a topic does not exist, or cannot be described.
    """

    def __init__(self, kafka: Kafka, topics: Iterable[str], may_lack: Collection[str] = ()) -> None:
        self._kafka = kafka
        found = describe_topics(make_admin(kafka), kafka, sorted(set(topics)))
        missing = sorted(name for name, topic in found.items() if topic is None and name not in may_lack)
        if missing:
            raise LogError(f"no topic {missing[0]!r}: run 'conversations apply'")
        there = {name: topic for name, topic in found.items() if topic is not None}
        self._places = [(name, number) for name, topic in there.items() for number in range(topic.partitions)]
        self.ids = {name: topic.id for name, topic in there.items()}
        """Topic ids by topic name. A re-created topic has another id."""

    def first(self) -> Offsets:
        """Return the offset at which the log of each partition begins."""
        return self._ask(FIRST)

    def since(self, millis: int) -> Offsets:
        """Return the offset of each partition's first record at this time or later, or the decided end if there is no such record."""
        found = self._ask(_Question(millis, least=-1))
        ends = self.decided() if min(found.values(), default=0) < 0 else found
        return {place: offset if offset >= 0 else ends[place] for place, offset in found.items()}

    def decided(self) -> Offsets:
        """Return the decided end of each partition: all records at lower offsets are committed or aborted, for all readers."""
        return self._ask(DECIDED)

    def decided_by_now(self) -> Offsets:
        """Wait until every transaction that is in the log now is decided. Then return the decided end of each partition.

        Kafka writes the markers of a transaction to one partition after another. So a transaction that is committed in
        one partition may still look open in another partition.

        Raises:
            LogError: a transaction stays open.
        """
        goal = self._ask(END)
        found = looked_for(
            self.decided,
            lambda now: all(now[place] >= offset for place, offset in goal.items()),
            OPEN_FOR,
            pause=AGAIN / 4,
        )
        late = next((place for place, offset in found.items() if offset < goal[place]), None)
        if late is not None:
            topic, partition = late
            raise LogError(
                f"a transaction is open on {topic}, partition {partition}, at offset {found[late]}, for more than "
                f"{OPEN_FOR:g} s: find it with Kafka's 'kafka-transactions.sh find-hanging'"
            )
        return found

    def _ask(self, question: _Question) -> Offsets:
        return _ask_offsets(self._kafka, self._places, question)


def partitions_of(kafka: Kafka, topics: Sequence[str]) -> list[Place]:
    """Return every partition of some topics.

    Raises:
        KafkaUnreachable: no broker answered.
        LogError: a topic is missing.
    """
    found = describe_topics(make_admin(kafka), kafka, list(topics))
    if missing := [name for name, topic in found.items() if topic is None]:
        raise LogError(f"topics are missing: {', '.join(missing)}")
    return [(name, number) for name, topic in found.items() if topic is not None for number in range(topic.partitions)]


def ends_of(kafka: Kafka, places: Sequence[Place]) -> dict[Place, int]:
    """Return the present log ends of partitions. A log end is after all records, also after records of open transactions.

    Raises:
        KafkaUnreachable: no broker answered.
        LogError: a partition does not exist, or a right is missing.
    """
    return _ask_offsets(kafka, places, END)


def since(kafka: Kafka, places: Sequence[Place], millis: int) -> dict[Place, int]:
    """Return the offset of each partition's first record at this time or later. Partitions without such a record are left out.

    Raises:
        KafkaUnreachable: no broker answered.
        LogError: a partition does not exist, or a right is missing.
    """
    found = _ask_offsets(kafka, places, _Question(millis, least=-1))
    return {place: offset for place, offset in found.items() if offset >= 0}


def ask_decided(kafka: Kafka, places: Sequence[Place]) -> Future[Offsets]:
    """Ask for decided ends on a new thread, for callers that must not wait. Partitions without an answer are left out."""

    def ask() -> Offsets:
        try:
            return _answer(kafka, places, DECIDED, REQUEST_TIMEOUT)
        except KafkaException:  # one partition without a leader must not hide the others
            until = monotonic() + REQUEST_TIMEOUT
            return dict(chain.from_iterable(alone(place) for place in places if monotonic() < until))

    def alone(place: Place) -> Iterable[tuple[Place, int]]:
        try:
            return _answer(kafka, [place], DECIDED, ALONE).items()
        except KafkaException:
            return ()

    return _on_thread(ask, "decided ends")


class _Question(NamedTuple):
    """A request for one kind of offset. The kind is the same for all partitions."""

    at: int
    """Milliseconds since 1970, or one of Kafka's names for the first offset and for the end."""
    isolation: str = "read_uncommitted"
    least: int = 0
    """Lowest valid answer. If an answer is lower, the broker does not know the offset yet."""


FIRST = _Question(OFFSET_BEGINNING)
END = _Question(OFFSET_END)
DECIDED = _Question(OFFSET_END, "read_committed")


def _ask_offsets(kafka: Kafka, places: Sequence[Place], question: _Question) -> Offsets:
    """Return the offsets of partitions. Repeat the request while a broker does not know an offset.

    Raises:
        KafkaUnreachable: no broker answered.
        KafkaNotReady: partitions had no leader for ``LED_WITHIN`` seconds.
        LogError: a partition does not exist, or a right is missing.
    """
    try:
        return patiently(
            lambda: _answer(kafka, places, question, REQUEST_TIMEOUT), LED_WITHIN, again=is_unsure, pause=AGAIN
        )
    except KafkaException as failure:
        raise translated(kafka, "offsets cannot be listed", failure) from failure


def _answer(kafka: Kafka, places: Sequence[Place], question: _Question, timeout: float) -> Offsets:
    """Ask with a new client: an old client may continue to ask a former leader.

    Raises:
        KafkaException: there was no answer within ``timeout`` seconds, or an answer has no offset.
    """
    if not places:
        return {}
    consumer = _client(kafka, question)
    try:
        return _answered(consumer, places, question, timeout)
    finally:
        consumer.close()


def _client(kafka: Kafka, question: _Question) -> Consumer:
    return make_consumer(kafka, {"group.id": "offsets", "isolation.level": question.isolation})


def _answered(consumer: Consumer, places: Sequence[Place], question: _Question, timeout: float) -> Offsets:
    try:
        found = consumer.offsets_for_times([TopicPartition(*place, question.at) for place in places], timeout)
    except KafkaException as failure:
        if failure.args[0].code() != KafkaError._UNKNOWN_PARTITION:  # noqa: SLF001 - librdkafka's name
            raise
        # A broker that has just started knows no topics for a moment.
        raise KafkaException(KafkaError(KafkaError._NOENT, "no leader is known")) from failure  # noqa: SLF001
    return known(found, question.least)


def known(found: Iterable[TopicPartition], least: int = 0) -> Offsets:
    """Return the offsets in an answer.

    For a partition whose leader is changing, librdkafka may return -1001 without an error. Valid offsets are never
    negative.

    Raises:
        KafkaException: a partition has an error, or an offset lower than ``least`` (``OFFSET_NOT_AVAILABLE``).
    """
    offsets: Offsets = {}
    for partition in found:
        if partition.error is not None:
            raise KafkaException(partition.error)
        if partition.offset < least:
            raise KafkaException(
                KafkaError(KafkaError.OFFSET_NOT_AVAILABLE, f"the answer has the offset {partition.offset}")
            )
        offsets[partition.topic, partition.partition] = partition.offset
    return offsets


def _on_thread(call: Callable[[], T], name: str) -> Future[T]:
    """Run a call on a new thread. The future has its result or its exception."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as failure:  # noqa: BLE001 - the caller must get every exception
            future.set_exception(failure)

    Thread(target=run, name=name, daemon=True).start()
    return future


# -- consumer groups -------------------------------------------------------------------------------------------------


def committed(kafka: Kafka, group: str, places: Sequence[Place], *, stable: bool = True) -> list[TopicPartition]:
    """Return the committed offsets of a group. Partitions without a committed offset have a negative offset.

    If ``stable`` is true, wait until no open transaction carries one of these offsets.

    Raises:
        KafkaException: no broker answered within ``REQUEST_TIMEOUT`` seconds, or a transaction stayed open for that time.
    """
    # A read_uncommitted consumer would get the old offset while a transaction with a new offset is about to commit.
    level = "read_committed" if stable else "read_uncommitted"
    consumer = make_consumer(kafka, {"group.id": group, "isolation.level": level})
    try:
        return consumer.committed([TopicPartition(*place) for place in places], REQUEST_TIMEOUT)
    finally:
        consumer.close()


def ask_committed(kafka: Kafka, group: str, places: Sequence[Place]) -> Future[list[TopicPartition]]:
    """Ask for the stable offsets of a group on a new thread, for callers that must not wait."""
    return _on_thread(lambda: committed(kafka, group, places), f"offsets of {group}")


def positions_of(kafka: Kafka, service: str) -> Mapping[Place, int]:
    """Return the committed position of a service in each partition of its queue. The position is 0 before the first commit.

    Raises:
        KafkaUnreachable: no broker answered.
        LogError: the topic is missing.
    """
    queue = service_topic(kafka.namespace, service, QUEUE)
    group = f"{kafka.namespace}.{service}"
    places = partitions_of(kafka, [queue])
    try:
        found = committed(kafka, group, places, stable=False)
    except KafkaException as failure:
        raise translated(kafka, f"the offsets of group {group} cannot be read", failure) from failure
    return {(queue, partition.partition): max(partition.offset, 0) for partition in found}
