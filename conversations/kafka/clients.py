"""Makes librdkafka clients from ``Kafka`` settings. The settings that make the clients safe override the user's settings."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Thread
from typing import Any, TypeVar
from weakref import WeakMethod

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from conversations.config import Kafka
from conversations.config_checks import addresses_of, without_port
from conversations.errors import KafkaNotReady, KafkaUnreachable, LogError, LoginRefused
from conversations.kafka.failures import Word, describe, forbidden, not_ready, unreachable, word_for
from conversations.kafka.logins import refused_login

log = logging.getLogger("conversations.kafka")

REQUEST_TIMEOUT = 8.0
"""Seconds that an admin request may take. This is less than 10 s, the time within which a missing Kafka must be reported."""

CLOSED_IN = 8.0
"""Seconds that the close of a reader's client may take. It takes milliseconds unless librdkafka stands still."""

BATCH_BYTES = 1_000_000
"""Maximum number of bytes of a batch. For a queue, a broker compares the decompressed size of the whole batch with the topic's limit."""

QUIET = {
    # A refused connection writes one line to the log, not one line for each attempt and each broker.
    "log.connection.close": False,
    "reconnect.backoff.max.ms": 2000,
    # A leader that is cut off from its cluster may answer for minutes. So ask often who the leader is. Default: 5 min.
    "topic.metadata.refresh.interval.ms": 5000,
    # librdkafka's own log lines repeat the errors that calls report. Set log_level in the settings to see these lines.
    "log_level": 2,
}

GROUP_SETTINGS = frozenset(
    {
        "group.protocol",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "max.poll.interval.ms",
        "partition.assignment.strategy",
        "session.timeout.ms",
    }
)
"""Settings that a user may give for the consumer group of a service. All other clients are in no group and must not get these settings."""
NEVER = frozenset({"group.instance.id"})
"""Settings that are always removed. With ``group.instance.id``, a restarted worker would be refused until its old session ends."""

Settings = Mapping[str, Any]
C = TypeVar("C")


@dataclass(frozen=True)
class Topic:
    """The metadata of one topic."""

    id: str
    partitions: int
    rights: frozenset[str] | None = None
    """Operations that this client may do on the topic, by their names in Kafka's ACLs. None if Kafka was not asked for them."""

    def may(self, operation: str) -> bool:
        """Return True if an operation is allowed, or if the rights are not known."""
        return self.rights is None or operation in self.rights


NOT_SHOWN = Topic("", 0, frozenset())
"""The value for a topic that this client has no right to describe. It is not known whether the topic exists."""


def settings(
    kafka: Kafka, safe: Settings, preferred: Settings | None = None, *, member: bool = False
) -> dict[str, Any]:
    """Merge settings. The user's settings override the settings in ``preferred``. The settings in ``safe`` override the user's settings."""
    unfit = NEVER if member else NEVER | GROUP_SETTINGS
    return {
        **QUIET,
        **(preferred or {}),
        **{name: value for name, value in kafka.settings.items() if name not in unfit},
        "bootstrap.servers": kafka.bootstrap,
        "error_cb": note_trouble,
        **safe,
        "logger": log,
    }


def one_server(kafka: Kafka, turn: int) -> Kafka:
    """Return the settings with only one of the bootstrap servers: ``turn`` counts through them, round and round.

    A client learns the other brokers from the server that it finds first, at random. If that server is a leader that is cut off from its
    cluster, the client may stay with it. Clients that take turns get away from it for certain.
    """
    servers = addresses_of(kafka.bootstrap)
    return replace(kafka, bootstrap=servers[turn % len(servers)])


def make_admin(kafka: Kafka) -> AdminClient:
    """Make an admin client. It sends no request before it is used."""
    return _made(AdminClient, settings(kafka, {}))


class Admin:
    """The admin client of one worker. It is replaced after a request that was not answered.

    An old client may wait for ever for a broker that it no longer connects to, although the cluster is healthy.
    """

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self.client = make_admin(kafka)
        """The present client. Keep a reference to it until a request is answered, because futures of a freed client never resolve."""

    @contextmanager
    def request(self) -> Iterator[AdminClient]:
        """Give the client to a ``with`` block, which must wait for all answers. Replace it if the block raises ``KafkaUnreachable``."""
        try:
            yield self.client
        except KafkaUnreachable:
            self.renew()
            raise

    def renew(self) -> None:
        """Replace the client with a new one."""
        self.client = make_admin(self._kafka)


def make_consumer(kafka: Kafka, safe: Settings, preferred: Settings | None = None, *, member: bool = False) -> Consumer:
    """Make a consumer that never commits by itself and never skips a record that it cannot read."""
    never = {
        "auto.offset.reset": "error",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        # Brokers check a record when it is written, but not when it is read from the disk.
        "check.crcs": True,
    }
    return _made(Consumer, settings(kafka, {**never, **safe}, preferred, member=member))


def close_reader(consumer: Consumer, seconds: float = CLOSED_IN) -> None:
    """Close a consumer of a reader, and wait at most ``seconds``. If it does not end, its threads stay until the process ends.

    librdkafka stands still for ever if a consumer is closed in the moment in which it meets an offset or a record that it cannot read
    (decision 0007).
    """
    closing = Thread(target=consumer.close, name="closes a reader", daemon=True)
    closing.start()
    closing.join(seconds)
    if closing.is_alive():
        log.warning("a reader's client did not close in %g s, and is left alone", seconds)


def make_producer(kafka: Kafka, safe: Settings, preferred: Settings | None = None) -> Producer:
    """Make an idempotent producer. Its batches are within the limit of the topics, even after decompression."""
    merged = settings(kafka, {"enable.idempotence": True, **safe}, preferred)
    merged["batch.size"] = min(int(merged.get("batch.size", BATCH_BYTES)), BATCH_BYTES)
    return _made(Producer, merged)


def describe_topics(
    admin: AdminClient,
    kafka: Kafka,
    names: list[str],
    timeout: float = REQUEST_TIMEOUT,
    *,
    rights: bool = False,
    need: str = "DESCRIBE",
) -> dict[str, Topic | None]:
    """Look topics up without creating them. The value of a topic that does not exist is None.

    If ``rights`` is true, each topic also has the operations that this client may do on it. The value of a topic that the
    client may not describe is then ``NOT_SHOWN``. Otherwise the error about such a topic names the right ``need``. A caller that reads
    the topic names READ, because Kafka implies DESCRIBE from READ.

    Raises:
        KafkaUnreachable: no broker answered.
        LogError: a topic cannot be described, for example because the right is missing.
    """
    if not names:
        return {}
    futures = admin.describe_topics(
        TopicCollection(names), include_authorized_operations=rights, request_timeout=timeout
    )
    return {name: topic_of(kafka, name, future, rights=rights, need=need) for name, future in futures.items()}


def topic_of(
    kafka: Kafka, name: str, future: Any, *, rights: bool = False, at_once: bool = False, need: str = "DESCRIBE"
) -> Topic | None:
    """Return the topic of one future of ``AdminClient.describe_topics``. Wait for the future if it is not done.

    If ``at_once`` is true, the login is not checked after a failure; see ``no_answer``.
    """
    try:
        found = future.result()
    except KafkaException as failure:
        if failure.args[0].code() in {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_EXCEPTION}:
            return None  # the topic does not exist, or its name is illegal
        if rights and forbidden(failure.args[0]):
            return NOT_SHOWN
        why = f": {need} on topic {name} is missing" if forbidden(failure.args[0]) else ""
        raise translated(kafka, f"topic {name} cannot be described{why}", failure, at_once=at_once) from failure
    operations = found.authorized_operations if rights else None
    allowed = None if operations is None else frozenset(operation.name for operation in operations)
    return Topic(str(found.topic_id), len(found.partitions), allowed)


def translated(kafka: Kafka, what: str, failure: KafkaException, *, at_once: bool = False) -> LogError:
    """Return this package's exception for a failed request. ``no_answer`` explains ``at_once``."""
    error: KafkaError = failure.args[0]
    if unreachable(error) or word_for(error) is Word.RETRIABLE:
        return no_answer(kafka, error, at_once=at_once)
    return LogError(f"{what}: {describe(error)}")


def no_answer(kafka: Kafka, error: KafkaError, *, at_once: bool = False) -> KafkaUnreachable:
    """Return the exception for an error that may pass: no broker answers, brokers refuse the login, or the cluster is not ready.

    If ``at_once`` is true, the login is not checked, because the check takes seconds.
    """
    if not_ready(error):
        return KafkaNotReady(kafka.bootstrap, describe(error))
    why = "" if at_once else refused_login(kafka)
    if why:
        return LoginRefused(kafka.bootstrap, why)
    bare = without_port(kafka.bootstrap)
    port = f"; {', '.join(bare)} has no port, so port 9092 was tried" if bare else ""
    return KafkaUnreachable(kafka.bootstrap, describe(error) + port)


def _made(make: Callable[[dict[str, Any]], C], config: dict[str, Any]) -> C:
    try:
        return make(config)
    except KafkaException as failure:
        raise LogError(f"Kafka settings cannot be used: {failure.args[0].str()}") from failure


def weakly(
    method: Callable[[Consumer, list[TopicPartition]], None],
) -> Callable[[Consumer, list[TopicPartition]], None]:
    """Return a callback for a method of an object that has the client, without a reference to the object.

    A client keeps its callbacks. With a reference, the client, its threads and its connections would stay after its close, until Python's collector finds
    the cycle. In a process that only runs workers, this takes hours.
    """
    found = WeakMethod(method)

    def call(client: Consumer, partitions: list[TopicPartition]) -> None:
        if (known := found()) is not None:
            known(client, partitions)

    return call


def note_trouble(error: KafkaError) -> None:
    """Log a connection error. librdkafka reconnects by itself. A call that fails because of the error raises its own exception."""
    log.debug("librdkafka: %s", describe(error))
