"""Offsets, asked of a cluster: where partitions begin and end, and what consumer groups have committed.

Three ends are told apart. The **log end** counts records of open transactions. The **decided** end does not: all before it is committed or
aborted for everybody. The **committed** offset of a group is neither: it is what the group has said about itself.

A group is asked by a consumer that is no member, and not by an administrative client: librdkafka 2.16 follows a coordinator that moved
through the group of its handle, which an administrative client has none of, and ends the process with a segmentation fault.
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
"""Seconds after which nobody waits any more for the end of an open transaction; three times a worker's own limit."""

LED_WITHIN = 30.0
"""Seconds that jobs and commands wait for the leader of a partition: a busy broker leads a new one only after many seconds."""

WITH_ROW = "with the row"
"""Metadata of offsets that an owner commits: its partition's row is in the same transaction. A person who moves offsets writes none."""


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
    """Ask for the first or the next offset of a partition, counting records of open transactions unless ``committed``."""
    where = TopicPartition(topic, partition)
    spec = SPEC.earliest() if first else SPEC.latest()
    level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    return admin.list_offsets({where: spec}, isolation_level=level, request_timeout=timeout)[where]


def answered(future: Future[Any], timeout: float | None = None) -> int:
    """Take the offset out of an answer of ``list_offset``.

    librdkafka hands out -1001, without an error, for a partition whose leader changes just then: no offset is below zero.

    Raises:
        KafkaException: there is none; ``OFFSET_NOT_AVAILABLE`` when the answer has none.
        TimeoutError: there is no answer yet.
    """
    offset = int(future.result(timeout).offset)
    if offset < 0:
        raise KafkaException(KafkaError(KafkaError.OFFSET_NOT_AVAILABLE, f"the answer has the offset {offset}"))
    return offset


def offset_of(kafka: Kafka, topic: str, future: Future[Any]) -> int:
    """Read one answer of ``list_offset``; waits for it when it is not there yet.

    Raises:
        KafkaUnreachable: no broker answered.
        LogError: the partition does not exist or may not be described.
    """
    try:
        return answered(future)
    except KafkaException as failure:
        raise translated(kafka, f"offsets of {topic} cannot be listed", failure) from failure


def ask_offset(
    kafka: Kafka, admin: AdminClient, topic: str, partition: int, *, first: bool = False, timeout: float | None = None
) -> int:
    """Ask for an offset as ``list_offset`` does, again while the broker says that it does not know just now.

    ``timeout`` is for a caller that holds others up: so many seconds for a request, and none to find out about the login.

    Raises:
        KafkaUnreachable: no broker answered, or none that leads the partition.
        LogError: the partition does not exist or may not be described.
    """
    seconds = REQUEST_TIMEOUT if timeout is None else timeout
    clients = _clients(kafka, admin)

    def ask() -> int:
        client = next(clients)  # held until it has answered: a client that is gone never does
        return answered(list_offset(client, topic, partition, first=first, timeout=seconds))

    try:
        return patiently(ask, seconds, again=is_unsure, pause=AGAIN)
    except KafkaException as failure:
        at_once = timeout is not None
        raise translated(kafka, f"offsets of {topic} cannot be listed", failure, at_once=at_once) from failure


# -- many partitions -------------------------------------------------------------------------------------------------


class Extent(NamedTuple):
    """The extent of a partition."""

    topic_id: str
    """Changes when a topic of the same name is made anew."""
    first: int
    """Its oldest record's offset."""
    end: int
    """The offset behind its newest record that is committed, with nothing undecided before it."""


def extents_of(kafka: Kafka, topics: Iterable[str]) -> dict[Place, Extent]:
    """Say what every partition of some topics holds now.

    Raises:
        KafkaUnreachable: no broker answered.
        LogError: a topic is missing, or may not be described.
    """
    ends = Ends(kafka, topics)
    decided = ends.decided()
    # The beginnings last: what is dropped meanwhile is then seen to be gone.
    first = ends.first()
    return {place: Extent(ends.ids[place[0]], first[place], end) for place, end in decided.items()}


class Ends:
    """Offsets of the partitions of some topics.

    Raises:
        KafkaUnreachable: no broker answered.
        LogError: a topic does not exist, or may not be described.
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
        """Of the topics; one that is made anew has another."""

    def first(self) -> Offsets:
        """Return the oldest offset that each partition still has."""
        return self._ask(_Question(SPEC.earliest()))

    def since(self, millis: int) -> Offsets:
        """Return the offset of the first record of this time or later; the end where there is none."""
        found = self._ask(_Question(SPEC.for_timestamp(millis), least=-1))
        ends = self.decided() if min(found.values(), default=0) < 0 else found
        return {place: offset if offset >= 0 else ends[place] for place, offset in found.items()}

    def decided(self) -> Offsets:
        """Return the offset before which every transaction is decided: committed, or aborted, for everybody."""
        return self._ask(_Question(SPEC.latest(), IsolationLevel.READ_COMMITTED))

    def decided_by_now(self) -> Offsets:
        """Wait until everything that is in the log now is decided, and return up to where it is then.

        Markers of a transaction are written to one partition after the other: what is committed in one may still look
        open in another.

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
    """Name every partition of some topics.

    Raises:
        KafkaUnreachable: no broker answered.
        LogError: a topic is missing.
    """
    found = describe_topics(make_admin(kafka), kafka, list(topics))
    if missing := [name for name, topic in found.items() if topic is None]:
        raise LogError(f"topics are missing: {', '.join(missing)}")
    return [(name, number) for name, topic in found.items() if topic is not None for number in range(topic.partitions)]


def ends_of(kafka: Kafka, places: Sequence[Place]) -> dict[Place, int]:
    """Say where partitions end now, counting the records of open transactions.

    Raises:
        KafkaUnreachable: no broker answered.
        LogError: a partition may not be described.
    """
    return _ask_offsets(kafka, make_admin(kafka), places, _Question(SPEC.latest()))


class _Question(NamedTuple):
    """Which offset of each partition is asked for."""

    spec: Any
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    least: int = 0
    """An answer below says that the broker does not know yet."""


def _ask_offsets(kafka: Kafka, admin: AdminClient, places: Sequence[Place], question: _Question) -> Offsets:
    """Ask for offsets, again while a broker says that it does not know just now.

    Raises:
        KafkaUnreachable: no broker answered.
        KafkaNotReady: partitions had no leader for ``LED_WITHIN`` seconds.
        LogError: a partition may not be described.
    """
    asked = {TopicPartition(*place): question.spec for place in places}
    clients = _clients(kafka, admin)

    def ask() -> Offsets:
        client = next(clients)  # held until it has answered: a client that is gone never does
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
    """Give a client for each attempt, after the first a new one: an old one may go on asking where nobody leads any more."""
    return chain([admin], iter(lambda: make_admin(kafka), None))


# -- consumer groups -------------------------------------------------------------------------------------------------


def committed(kafka: Kafka, group: str, places: Sequence[Place], *, stable: bool = True) -> list[TopicPartition]:
    """Return the offsets of a group, negative where there is none; ``stable``: when no open transaction carries one.

    Raises:
        KafkaException: nobody answered within ``REQUEST_TIMEOUT`` seconds, or a transaction stayed open as long.
    """
    # A read_uncommitted consumer would be told the offset before a transaction that is about to commit.
    level = "read_committed" if stable else "read_uncommitted"
    consumer = make_consumer(kafka, {"group.id": group, "isolation.level": level})
    try:
        return consumer.committed([TopicPartition(*place) for place in places], REQUEST_TIMEOUT)
    finally:
        consumer.close()


def ask_committed(kafka: Kafka, group: str, places: Sequence[Place]) -> Future[list[TopicPartition]]:
    """Ask for stable offsets from a thread of its own, for callers that may not wait."""
    future: Future[list[TopicPartition]] = Future()
    future.set_running_or_notify_cancel()

    def ask() -> None:
        try:
            future.set_result(committed(kafka, group, places))
        except BaseException as failure:  # noqa: BLE001 - the caller must see it, whatever it is
            future.set_exception(failure)

    Thread(target=ask, name=f"offsets of {group}", daemon=True).start()
    return future


def positions_of(kafka: Kafka, service: str) -> Mapping[Place, int]:
    """Say up to where a service has taken each partition of its queue; 0 before its first step there.

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
