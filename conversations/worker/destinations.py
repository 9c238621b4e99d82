"""The other services, as the catalog names them: their topics, partition counts and schemas. And the topics that refuse records now.

A topic that refuses records is **blocked** for a pause. During the pause, all envelopes for the topic are kept as delayed rows. After the
pause, one step tries to write to the topic again. A service that is not in the catalog is **invented**. An invented service has no queue
for answers, and it begins no dialog.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from conversations.config import Periods
from conversations.errors import LogError
from conversations.protocol.sequencing import NONE
from conversations.protocol.topics import QUEUE, service_topic, transmission_topic
from conversations.sealing import Seals
from conversations.worker.wires import FAR, Way, Wire
from conversations.writer_schemas import WriterSchemas

log = logging.getLogger("conversations.worker")

WAYS = 10_000
"""Number of ways that are remembered."""
REMEMBERED = 1_000
"""Number of topics whose last pause is remembered. If there are more topics, the topics that were not blocked lately are forgotten."""


class Destinations:
    """The topics and partition counts of other services, and the blocked topics."""

    def __init__(
        self,
        namespace: str,
        count: Callable[[str], int | None],
        look: Callable[[], None],
        cluster: Callable[[str], str],
        periods: Periods,
        schemas: WriterSchemas,
        seals: Seals | None = None,
    ) -> None:
        self.schemas = schemas
        """The schemas with which other services write."""
        self._seals = seals
        self._namespace = namespace
        self._count, self._look, self._cluster = count, look, cluster
        self._looked = self._is_sure = False
        self._told: LogError | None = None
        self._first, self._last = periods.blocked_first, periods.blocked_last
        self._known: dict[str, int] = {}
        """The partition counts of services on this cluster. Such a service stays there."""
        self._ways: dict[tuple[str, int], Way] = {}
        """The ways to partitions of these services, which all dialogs share."""
        self.blocked: dict[str, int] = {}
        """Blocked topics, each with the time at which its pause ends."""
        self._waits: dict[str, tuple[int, int]] = {}

    def partitions(self, service: str) -> int | None:
        """Return the partition count of the topic for a service; None while the count is not known.

        That of a service on another cluster is asked for each time, because its route may change.
        """
        count = self._known.get(service)
        if count is None:
            count = self._count(service)
            if count is not None and not self._cluster(service):
                self._known[service] = count
        return count

    def begin_step(self) -> None:
        """Begin a step. ``is_invented`` must read the catalog again in this step, because new records may have been read."""
        self._looked = False
        self.schemas.begin_step()

    def is_invented(self, service: str) -> bool:
        """Return True if ``service`` is not in the catalog; False while the catalog cannot be read. A step reads the catalog at most once.

        A service writes nothing before it is in the catalog. The catalog is read after the records of the step. If the sender of a record
        is not in the catalog then, the sender is invented.
        """
        if self.partitions(service) is not None:
            return False
        if not self._looked:
            self._looked = self._is_sure = True
            try:
                self._look()
            except LogError as error:
                self._is_sure = False
                if error is not self._told:  # for a while, the same error is raised without another read
                    log.warning(
                        "the catalog cannot be read: dialogs with %r begin without looking the service up: %s",
                        service,
                        error,
                    )
                self._told = error
        return self._is_sure and self.partitions(service) is None

    def is_far(self, service: str) -> bool:
        """Return True if a service lives on another cluster."""
        return service not in self._known and bool(self._cluster(service))

    def may_lose(self, service: str) -> bool:
        """Return True if envelopes to a service may be lost: it lives on another cluster, or discards what it cannot open."""
        return self.wire(service) is not None

    def wire(self, service: str) -> Wire | None:
        """Return how envelopes to and from a service look on the way; None if they stay on this cluster. Look the service up, if it is not known."""
        self.partitions(service)
        sealer = None if self._seals is None else self._seals.of(service)
        if sealer is not None:
            return Wire(is_far=self.is_far(service), sealer=sealer)
        return FAR if self.is_far(service) else None

    def way(self, service: str, partition: int = NONE) -> Way:
        """Return the way of envelopes to a partition of the topic for a service; by default without a partition."""
        way = self._ways.get((service, partition))
        if way is not None:
            return way
        wire = self.wire(service)
        way = Way(self.topic(service), partition, wire)
        if self._seals is None and service in self._known:
            if len(self._ways) >= WAYS:
                self._ways.clear()
            self._ways[service, partition] = way
        return way

    def topic(self, service: str) -> str:
        """Return the topic for the envelopes to a service: its queue, or the transmission topic to the cluster on which it lives."""
        cluster = "" if service in self._known else self._cluster(service)
        return (
            transmission_topic(self._namespace, cluster) if cluster else service_topic(self._namespace, service, QUEUE)
        )

    def block(self, topic: str, now: int) -> None:
        """Block a topic for a while.

        The pause doubles from ``Periods.blocked_first`` to ``Periods.blocked_last``. If the
        topic was last blocked more than twice ``blocked_last`` ago, the pause is ``blocked_first`` again.
        """
        if len(self._waits) >= REMEMBERED and topic not in self._waits:
            self._waits = {name: it for name, it in self._waits.items() if now - it[0] <= 2 * self._last}
        last, wait = self._waits.get(topic, (0, 0))
        wait = self._first if now - last > 2 * self._last else min(2 * wait, self._last)
        self._waits[topic] = (now, wait)
        self.blocked[topic] = now + wait

    def turn_back(self, by: int) -> None:
        """Move all pauses back by ``by`` microseconds, because the worker's time was ahead of log time and has been set back."""
        self.blocked = {topic: at - by for topic, at in self.blocked.items()}
        self._waits = {topic: (last - by, wait) for topic, (last, wait) in self._waits.items()}

    def try_again(self, now: int) -> None:
        """Unblock the topics whose pause is over."""
        for topic in [topic for topic, at in self.blocked.items() if at <= now]:
            del self.blocked[topic]
