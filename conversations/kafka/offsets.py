"""Asks a cluster for offsets: the first and the end offsets of partitions, and the offsets that consumer groups have committed.

There are three kinds of offsets. The **log end** is after all records, also after records of open transactions. The **decided** end is
lower than the log end if a transaction is open. All records before the decided end are committed or aborted, for all readers. The
**committed** offset of a group is the position that the group has stored.

For the offsets of a group, this module uses a consumer that is not a member of the group. An admin client must not be used: if the
coordinator has moved, librdkafka 2.16 looks for the new coordinator by the group id of the client. An admin client has no group id, so
the process would end with a segmentation fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from itertools import chain
from threading import Thread
from typing import Any, NamedTuple

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka import admin as confluent_admin
from confluent_kafka.admin import AdminClient

from conversations.config import Kafka
from conversations.errors import LogError
from conversations.kafka.clients import REQUEST_TIMEOUT, describe_topics, make_admin, make_consumer, translated
from conversations.kafka.retrying import AGAIN, is_unsure, looked_for, patiently
from conversations.protocol.topics import QUEUE, service_topic

SPEC: Any = confluent_admin.OffsetSpec  # type: ignore[attr-defined]  # exported at run time, not in its types

Place = tuple[str, int]
"""A topic and one of its partitions."""
Offsets = dict[Place, int]

OPEN_FOR = 30.0
"""Seconds to wait for the end of an open transaction: three times the transaction time-out of a worker."""

LED_WITHIN = 30.0
"""Seconds that jobs and commands wait for the leader of a partition. A busy broker may need many seconds to become the leader."""

WITH_ROW = "with the row"
"""Metadata of the offsets that an owner commits together with the partition's row. Offsets that a person has moved lack this text."""


# -- one partition ---------------------------------------------------------------------------------------------------


def list_offset(
    admin: AdminClient,
    topic: str,
    partition: int,
    *,
    first: bool = False,
    committed: bool = False,
    timeout: float = REQUEST_TIMEOUT,
) -> Future[Any]:
    """Ask for the first or the end offset of a partition. The end is the decided end if ``committed`` is true, else the log end."""
    where = TopicPartition(topic, partition)
    spec = SPEC.earliest() if first else SPEC.latest()
    level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    return admin.list_offsets({where: spec}, isolation_level=level, request_timeout=timeout)[where]


def answered(future: Future[Any], timeout: float | None = None) -> int:
    """Return the offset in an answer of ``list_offset``.

    For a partition whose leader is changing, librdkafka may return -1001 without an error. Valid offsets are never
    negative.

    Raises:
        KafkaException: the request failed, or the offset is negative (``OFFSET_NOT_AVAILABLE``).
        TimeoutError: there was no answer within ``timeout`` seconds.
    """
    offset = int(future.result(timeout).offset)
    if offset < 0:
        raise KafkaException(KafkaError(KafkaError.OFFSET_NOT_AVAILABLE, f"the answer has the offset {offset}"))
    return offset


def ask_offset(
    kafka: Kafka, admin: AdminClient, topic: str, partition: int, *, first: bool = False, timeout: float | None = None
) -> int:
    """Return the log end of a partition, or its first offset. Repeat the request as long as the broker does not know the offset.

    ``timeout`` is the number of seconds for the request. If ``timeout`` is given, the login is not checked after
    a failure. Callers set ``timeout`` if other threads wait for them.

    Raises:
        KafkaUnreachable: no broker answered, or the leader of the partition did not answer.
        LogError: the partition does not exist, or a right is missing.
    """
    seconds = REQUEST_TIMEOUT if timeout is None else timeout
    clients = _clients(kafka, admin)

    def ask() -> int:
        client = next(clients)  # kept until the answer: futures of a freed client never resolve
        return answered(list_offset(client, topic, partition, first=first, timeout=seconds))

    try:
        return patiently(ask, seconds, again=is_unsure, pause=AGAIN)
    except KafkaException as failure:
        at_once = timeout is not None
        raise translated(kafka, f"offsets of {topic} cannot be listed", failure, at_once=at_once) from failure


# -- many partitions -------------------------------------------------------------------------------------------------


class Extent(NamedTuple):
    """The first offset and the end of a partition."""

    topic_id: str
    """Id of the topic. A re-created topic of the same name has another id."""
    first: int
    """Offset at which the log begins."""
    end: int
    """The decided end: all records at lower offsets are committed or aborted."""


def extents_of(kafka: Kafka, topics: Iterable[str]) -> dict[Place, Extent]:
    """Return the present extent of every partition of some topics.

    Raises:
        KafkaUnreachable: no broker answered.
        LogError: a topic is missing, or cannot be described.
    """
    ends = Ends(kafka, topics)
    decided = ends.decided()
    # Ask for the first offsets last. If Kafka deletes records meanwhile, the first offsets are then after these records.
    first = ends.first()
    return {place: Extent(ends.ids[place[0]], first[place], end) for place, end in decided.items()}


class Ends:
    """Offsets of the partitions of some topics.

    Raises:
        KafkaUnreachable: no broker answered.
        LogError: a topic does not exist, or cannot be described.
    """

    def __init__(self, kafka: Kafka, topics: Iterable[str]) -> None:
        self._kafka = kafka
        self._admin: AdminClient = make_admin(kafka)
        found = describe_topics(self._admin, kafka, sorted(set(topics)))
        missing = sorted(name for name, topic in found.items() if topic is None)
        if missing:
            raise LogError(f"no topic {missing[0]!r}: run 'conversations apply'")
        there = {name: topic for name, topic in found.items() if topic is not None}
        self._places = [(name, number) for name, topic in there.items() for number in range(topic.partitions)]
        self.ids = {name: topic.id for name, topic in there.items()}
        """Topic ids by topic name. A re-created topic has another id."""

    def first(self) -> Offsets:
        """Return the offset at which the log of each partition begins."""
        return self._ask(_Question(SPEC.earliest()))

    def since(self, millis: int) -> Offsets:
        """Return the offset of each partition's first record at this time or later, or the decided end if there is no such record."""
        found = self._ask(_Question(SPEC.for_timestamp(millis), least=-1))
        ends = self.decided() if min(found.values(), default=0) < 0 else found
        return {place: offset if offset >= 0 else ends[place] for place, offset in found.items()}

    def decided(self) -> Offsets:
        """Return the decided end of each partition: all records at lower offsets are committed or aborted, for all readers."""
        return self._ask(_Question(SPEC.latest(), IsolationLevel.READ_COMMITTED))

    def decided_by_now(self) -> Offsets:
        """Wait until every transaction that is in the log now is decided. Then return the decided end of each partition.

        Kafka writes the markers of a transaction to one partition after another. So a transaction that is committed in
        one partition may still look open in another partition.

        Raises:
            LogError: a transaction stays open.
        """
        goal = self._ask(_Question(SPEC.latest()))
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
        return _ask_offsets(self._kafka, self._admin, self._places, question)


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
    return _ask_offsets(kafka, make_admin(kafka), places, _Question(SPEC.latest()))


class _Question(NamedTuple):
    """A request for one kind of offset. The kind is the same for all partitions."""

    spec: Any
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    least: int = 0
    """Lowest valid answer. If an answer is lower, the broker does not know the offset yet."""


def _ask_offsets(kafka: Kafka, admin: AdminClient, places: Sequence[Place], question: _Question) -> Offsets:
    """Return the offsets of partitions. Repeat the request while a broker does not know an offset.

    Raises:
        KafkaUnreachable: no broker answered.
        KafkaNotReady: partitions had no leader for ``LED_WITHIN`` seconds.
        LogError: a partition does not exist, or a right is missing.
    """
    asked = {TopicPartition(*place): question.spec for place in places}
    clients = _clients(kafka, admin)

    def ask() -> Offsets:
        client = next(clients)  # kept until the answer: futures of a freed client never resolve
        futures = client.list_offsets(asked, isolation_level=question.isolation, request_timeout=REQUEST_TIMEOUT)
        found = {(at.topic, at.partition): int(future.result().offset) for at, future in futures.items()}
        if min(found.values()) < question.least:
            raise KafkaException(KafkaError(KafkaError.OFFSET_NOT_AVAILABLE, "an answer has no offset"))
        return found

    try:
        return patiently(ask, LED_WITHIN, again=is_unsure, pause=AGAIN) if asked else {}
    except KafkaException as failure:
        raise translated(kafka, "offsets cannot be listed", failure) from failure


def _clients(kafka: Kafka, admin: AdminClient) -> Iterator[AdminClient]:
    """Yield a client for each attempt: first ``admin``, then new clients. An old client may continue to ask a former leader."""
    return chain([admin], iter(lambda: make_admin(kafka), None))


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
    future: Future[list[TopicPartition]] = Future()
    future.set_running_or_notify_cancel()

    def ask() -> None:
        try:
            future.set_result(committed(kafka, group, places))
        except BaseException as failure:  # noqa: BLE001 - the caller must get every exception
            future.set_exception(failure)

    Thread(target=ask, name=f"offsets of {group}", daemon=True).start()
    return future


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
