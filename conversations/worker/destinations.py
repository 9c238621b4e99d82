"""Where envelopes to other services go, and which topics take nothing now.

A topic that refuses records is **blocked** for a while: everything for it is kept as delayed rows. After the pause one step tries
again. A service that the catalog does not name is **invented**: nobody can answer it, and no dialog begins with it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from conversations.config import Periods
from conversations.errors import LogError
from conversations.protocol.topics import QUEUE, service_topic

log = logging.getLogger("conversations.worker")

REMEMBERED = 1_000
"""So many topics have their last pause remembered; beyond, topics that take records again are forgotten."""


class Destinations:
    """Where envelopes to other services go, and which topics cannot take any now."""

    def __init__(
        self, namespace: str, count: Callable[[str], int | None], look: Callable[[], None], periods: Periods
    ) -> None:
        self._namespace = namespace
        self._count, self._look = count, look
        self._looked = self._is_sure = False
        self._told: LogError | None = None
        self._first, self._last = periods.blocked_first, periods.blocked_last
        self._known: dict[str, int] = {}
        self.blocked: dict[str, int] = {}
        """Topics that take no records, and when to try again."""
        self._waits: dict[str, tuple[int, int]] = {}

    def partitions(self, service: str) -> int | None:
        """Partition count of a service, None while it is not known."""
        count = self._known.get(service)
        if count is None:
            count = self._count(service)
            if count is not None:
                self._known[service] = count
        return count

    def begin_step(self) -> None:
        """Records were read since: the next question looks at the catalog again."""
        self._looked = False

    def is_invented(self, service: str) -> bool:
        """Say whether no service has the name that a record of this step is from; False while nobody can say.

        A service writes nothing before the catalog names it, so the catalog is right that was read after the record.
        """
        if self.partitions(service) is not None:
            return False
        if not self._looked:
            self._looked = self._is_sure = True
            try:
                self._look()
            except LogError as error:
                self._is_sure = False
                if error is not self._told:  # a catalog that is not asked again for a while says the same
                    log.warning("the catalog cannot be read: dialogs of %r are accepted unseen: %s", service, error)
                self._told = error
        return self._is_sure and self.partitions(service) is None

    def topic(self, service: str) -> str:
        """Queue topic of a service."""
        return service_topic(self._namespace, service, QUEUE)

    def block(self, topic: str, now: int) -> None:
        """Send nothing to a topic for a while: 4, 8, 16, 32, then always 64 seconds, until it has been well for longer."""
        if len(self._waits) >= REMEMBERED and topic not in self._waits:
            self._waits = {name: it for name, it in self._waits.items() if now - it[0] <= 2 * self._last}
        last, wait = self._waits.get(topic, (0, 0))
        wait = self._first if now - last > 2 * self._last else min(2 * wait, self._last)
        self._waits[topic] = (now, wait)
        self.blocked[topic] = now + wait

    def turn_back(self, by: int) -> None:
        """The worker's time was ahead of the log's: pauses end as much earlier."""
        self.blocked = {topic: at - by for topic, at in self.blocked.items()}
        self._waits = {topic: (last - by, wait) for topic, (last, wait) in self._waits.items()}

    def try_again(self, now: int) -> None:
        """Unblock the topics whose pause is over."""
        for topic in [topic for topic, at in self.blocked.items() if at <= now]:
            del self.blocked[topic]
