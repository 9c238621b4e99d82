"""Checks the topics of a running service from time to time. A check finds changed topics, or finds that no broker answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from time import monotonic
from typing import Any

from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient

from conversations.config import Kafka
from conversations.errors import InputLost, KafkaUnreachable, LogError
from conversations.kafka.clients import REQUEST_TIMEOUT, Admin, Topic, log, topic_of
from conversations.ports import Unanswered

AWAY = 2.0
"""Seconds until the next check while no broker answers."""


class Watch:
    """Compares the present topics of a service with its topics at the start of the worker. It never waits for an answer."""

    def __init__(self, kafka: Kafka, admin: Admin, topics: Mapping[str, Topic], every: float) -> None:
        self._kafka, self._admin, self._topics, self._every = kafka, admin, dict(topics), every
        self._asked: Mapping[str, Future[Any]] | None = None
        self._client: AdminClient | None = None
        self._asked_at = 0.0
        self._due_at = monotonic() + every
        self.unanswered: Unanswered | None = None
        """The failed check and the time of the first such check, if no broker answers; None while brokers answer."""

    def hurry(self) -> None:
        """Make the next check due at once, because a client has lost all its brokers."""
        self._due_at = min(self._due_at, monotonic())

    def due(self) -> bool:
        """Return True if it is time to check, or if an answer may have come."""
        return self._asked is not None or monotonic() >= self._due_at

    def look(self, open_partitions: Iterable[int]) -> list[LogError] | None:
        """Begin a check, or return the result of the check under way: an error for each change after which work must stop.

        Return None if there is no result yet. If the check itself failed, return an empty list. The next check follows later.
        """
        if self._asked is None:
            self._client, self._asked_at = self._admin.client, monotonic()
            self._asked = self._client.describe_topics(
                TopicCollection(sorted(self._topics)), request_timeout=REQUEST_TIMEOUT
            )
            return None
        if not all(future.done() for future in self._asked.values()):
            return None
        asked, self._asked, self._client = self._asked, None, None
        try:
            found = {name: topic_of(self._kafka, name, future, at_once=True) for name, future in asked.items()}
        except LogError as failure:
            log.info("the topics could not be looked at, trying again later: %s", failure)
            self._fail(failure)
            return []
        self._due_at, self.unanswered = monotonic() + self._every, None
        return differences(self._topics, found, open_partitions)

    def _fail(self, failure: LogError) -> None:
        self._admin.renew()
        away = isinstance(failure, KafkaUnreachable)
        if not away:  # a broker answered; for example, it refused the check because a right is missing
            self.unanswered = None  # that it may not look is an answer
        else:
            since = self._asked_at if self.unanswered is None else self.unanswered.since
            self.unanswered = Unanswered(since, f"looking at its topics: {failure}")
        self._due_at = monotonic() + (min(AWAY, self._every) if away else self._every)


def differences(
    before: Mapping[str, Topic], now: Mapping[str, Topic | None], open_partitions: Iterable[int]
) -> list[LogError]:
    """Return an error for each change after which work must stop.

    A changed partition count stops the worker. A deleted or re-created topic stops the open partitions.
    """
    errors: list[LogError] = []
    for name, was in before.items():
        topic = now.get(name)
        if topic is not None and topic.partitions != was.partitions:
            errors.append(
                LogError(
                    f"{name} had {was.partitions} partitions and now has {topic.partitions}: keys no longer find "
                    "their partition; stop every worker and re-create the topic with the old count"
                )
            )
        elif topic is None or topic.id != was.id:
            why = f"{name} was {'deleted' if topic is None else 're-created'}"
            errors += [InputLost(partition, why) for partition in sorted(open_partitions)]
    return errors
