"""Makes librdkafka clients from ``Kafka`` settings: settings that safety needs win over the user's."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
)
from confluent_kafka.admin import AdminClient

from conversations.config import Kafka
from conversations.errors import KafkaNotReady, KafkaUnreachable, LogError, LoginRefused
from conversations.kafka.failures import Word, describe, forbidden, not_ready, unreachable, word_for
from conversations.kafka.logins import refused_login

log = logging.getLogger("conversations.kafka")

REQUEST_TIMEOUT = 8.0
"""Seconds an administrative request may take; below the 10 s in which a missing Kafka must be reported."""

BATCH_BYTES = 1_000_000
"""Most that a batch may hold: a broker compares the whole of it, unpacked, with the limit of a queue."""

QUIET = {
    # One refused connection is a line of log, not one line per attempt and broker.
    "log.connection.close": False,
    "reconnect.backoff.max.ms": 2000,
    # A leader that is cut off from its cluster may go on answering for minutes: the others say who leads. Default: 5 min.
    "topic.metadata.refresh.interval.ms": 5000,
    # librdkafka's own lines on standard error repeat what calls report; give log_level in the settings to see them.
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
"""Settings a user may pass for the group of a service; every other client is in no group and must not see them."""
NEVER = frozenset({"group.instance.id"})
"""Settings taken away: a restarted static member would be refused until its predecessor's session ends."""

Settings = Mapping[str, Any]
C = TypeVar("C")


@dataclass(frozen=True)
class Topic:
    """The facts of a cluster about one topic."""

    id: str
    partitions: int
    rights: frozenset[str] | None = None
    """What this client may do with it, as Kafka's ACLs name operations; None when it was not asked."""

    def may(self, operation: str) -> bool:
        """Say whether an operation is allowed, as far as it is known."""
        return self.rights is None or operation in self.rights


NOT_SHOWN = Topic("", 0, frozenset())
"""A topic that this client may not even describe, if there is one."""


def settings(
    kafka: Kafka, safe: Settings, preferred: Settings | None = None, *, member: bool = False
) -> dict[str, Any]:
    """Merge settings: ``preferred`` may be overridden by the user's, ``safe`` may not."""
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


def make_admin(kafka: Kafka) -> AdminClient:
    """Make an administrative client; nothing is sent before it is used."""
    return _made(AdminClient, settings(kafka, {}))


class Admin:
    """The administrative client of one worker, replaced when a request was not answered.

    An old one may wait for ever for a broker it does not connect to any more, while the cluster is well.
    """

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self.client = make_admin(kafka)
        """For one request. Hold the client until it has answered: without it no future resolves."""

    @contextmanager
    def request(self) -> Iterator[AdminClient]:
        """Lend the client for a request that is waited for."""
        try:
            yield self.client
        except KafkaUnreachable:
            self.renew()
            raise

    def renew(self) -> None:
        """Take another client from now on."""
        self.client = make_admin(self._kafka)


def make_consumer(kafka: Kafka, safe: Settings, preferred: Settings | None = None, *, member: bool = False) -> Consumer:
    """Make a consumer that never commits by itself and never jumps over a record that it cannot read."""
    never = {
        "auto.offset.reset": "error",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        # Brokers look when they are written to, not at what their disks give back.
        "check.crcs": True,
    }
    return _made(Consumer, settings(kafka, {**never, **safe}, preferred, member=member))


def make_producer(kafka: Kafka, safe: Settings, preferred: Settings | None = None) -> Producer:
    """Make an idempotent producer, with batches that the topics take when they are unpacked."""
    merged = settings(kafka, {"enable.idempotence": True, **safe}, preferred)
    merged["batch.size"] = min(int(merged.get("batch.size", BATCH_BYTES)), BATCH_BYTES)
    return _made(Producer, merged)


def describe_topics(
    admin: AdminClient, kafka: Kafka, names: list[str], timeout: float = REQUEST_TIMEOUT, *, rights: bool = False
) -> dict[str, Topic | None]:
    """Look topics up without creating them; a topic that does not exist is None.

    With ``rights`` it is also asked what this client may do, and a topic that it may not describe is ``NOT_SHOWN``.

    Raises:
        KafkaUnreachable: no broker answered.
        LogError: a topic may not be described.
    """
    if not names:
        return {}
    futures = admin.describe_topics(
        TopicCollection(names), include_authorized_operations=rights, request_timeout=timeout
    )
    return {name: topic_of(kafka, name, future, rights=rights) for name, future in futures.items()}


def topic_of(kafka: Kafka, name: str, future: Any, *, rights: bool = False, at_once: bool = False) -> Topic | None:
    """Read one answer of ``AdminClient.describe_topics``; waits for it when it is not there yet.

    With ``at_once`` nothing is asked about an answer that is there.
    """
    try:
        found = future.result()
    except KafkaException as failure:
        if failure.args[0].code() in {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_EXCEPTION}:
            return None  # not there, or none can have such a name
        if rights and forbidden(failure.args[0]):
            return NOT_SHOWN
        need = f": DESCRIBE on topic {name} is missing" if forbidden(failure.args[0]) else ""
        raise translated(kafka, f"topic {name} cannot be described{need}", failure, at_once=at_once) from failure
    operations = found.authorized_operations if rights else None
    allowed = None if operations is None else frozenset(operation.name for operation in operations)
    return Topic(str(found.topic_id), len(found.partitions), allowed)


def translated(kafka: Kafka, what: str, failure: KafkaException, *, at_once: bool = False) -> LogError:
    """Make the exception of this package for a failed request; see ``no_answer`` for ``at_once``."""
    error: KafkaError = failure.args[0]
    if unreachable(error) or word_for(error) is Word.RETRIABLE:
        return no_answer(kafka, error, at_once=at_once)
    return LogError(f"{what}: {describe(error)}")


def no_answer(kafka: Kafka, error: KafkaError, *, at_once: bool = False) -> KafkaUnreachable:
    """Make the exception for an error that may pass: no broker is there, none lets us in, or one cannot just now.

    With ``at_once`` nobody is asked whether the login is refused, which takes seconds.
    """
    if not_ready(error):
        return KafkaNotReady(kafka.bootstrap, describe(error))
    why = "" if at_once else refused_login(kafka)
    return LoginRefused(kafka.bootstrap, why) if why else KafkaUnreachable(kafka.bootstrap, describe(error))


def _made(make: Callable[[dict[str, Any]], C], config: dict[str, Any]) -> C:
    try:
        return make(config)
    except KafkaException as failure:
        raise LogError(f"Kafka settings cannot be used: {failure.args[0].str()}") from failure


def note_trouble(error: KafkaError) -> None:
    """Log librdkafka's own connection troubles: it goes on by itself, and calls that fail for them raise."""
    log.debug("librdkafka: %s", describe(error))
