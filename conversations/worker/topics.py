"""The topics of the service that a worker runs, and the plain topics to which its handlers publish."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from datetime import timedelta

from conversations.poison import PoisonPolicy, waits
from conversations.ports import Connection
from conversations.protocol.topics import (
    COMMANDS,
    DEAD_LETTER,
    DECISIONS,
    QUEUE,
    STATE,
    check_foreign,
    delay_name,
    events_topic,
    retry_topic,
    service_topic,
)

log = logging.getLogger("conversations.worker")


class OwnTopics:
    """Names of the topics of one service, its existing retry topics, and the plain topics to which it publishes.

    Raises:
        DeclarationError: a plain topic belongs to the namespace.
    """

    __slots__ = (
        "_namespace",
        "_service",
        "commands",
        "dead_letter",
        "decisions",
        "events",
        "plain",
        "queue",
        "retries",
        "retry_prefix",
        "state",
    )

    def __init__(self, namespace: str, service: str, plain: Collection[str] = ()) -> None:
        check_foreign(namespace, service, plain)
        self._namespace, self._service = namespace, service
        self.plain = frozenset(plain)
        self.queue = service_topic(namespace, service, QUEUE)
        self.commands = service_topic(namespace, service, COMMANDS)
        self.decisions = service_topic(namespace, service, DECISIONS)
        self.dead_letter = service_topic(namespace, service, DEAD_LETTER)
        self.state = service_topic(namespace, service, STATE)
        self.events = events_topic(namespace)
        self.retry_prefix = retry_topic(namespace, service, "")
        self.retries: list[tuple[int, str]] = []
        """Existing retry topics, which show parked messages.

        Each entry has a wait in microseconds and a topic. The longest wait comes first.
        """

    @property
    def needed(self) -> set[str]:
        """Topics that the worker must be able to write to."""
        return {self.state, self.commands, self.dead_letter}

    def look(self, connection: Connection, policies: Sequence[PoisonPolicy]) -> dict[str, str]:
        """Find out which retry topics exist. Return the plain topics that cannot be written to, each with the reason.

        If a wait has no retry topic, its parked messages are only in the state.
        """
        named = {
            retry_topic(self._namespace, self._service, delay_name(delay)): delay // timedelta(microseconds=1)
            for delay in waits(policies)
        }
        unwritable = connection.unwritable([*named, *sorted(self.plain)])
        if missing := sorted(named.keys() & unwritable.keys()):
            log.warning(
                "waits are not shown, because these retry topics are missing: %s; run 'conversations apply' for %s",
                ", ".join(missing),
                self._service,
            )
        self.retries = sorted(((named[topic], topic) for topic in named.keys() - unwritable.keys()), reverse=True)
        return {topic: why for topic, why in unwritable.items() if topic in self.plain}

    def forget_retries(self, refused: Collection[str]) -> None:
        """Show no more waits on the topics that refuse records."""
        self.retries = [shown for shown in self.retries if shown[1] not in refused]
