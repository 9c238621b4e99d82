"""Feeds on a ``MemoryBroker``."""

from __future__ import annotations

from collections.abc import Callable

from conversations.errors import LocalError
from conversations.feeds import Feed, Feeder, Turning
from conversations.memory.broker import MemoryBroker
from conversations.memory.record import MemoryRecord
from conversations.ports import Out
from conversations.protocol.plain_records import Source
from conversations.protocol.publications import Publication
from conversations.protocol.topics import check_foreign

BATCH = 500
"""Maximum number of records of one step."""
IDLE = 0.1
"""Maximum number of seconds that the thread waits for a record before it looks whether it must end."""


class MemoryFeeder(Feeder):
    """Reads one feed from memory. Each step appends the commands and moves the positions at once, so it takes effect as a whole or not at all.

    Args:
        broker: the topics. The plain topic must exist.
        service: name of the service.
        feed: the feed.
        body_limit: largest body of a message, in bytes.
        failed: called with the exception of a function that fails.

    Raises:
        DeclarationError: the topic belongs to the namespace.
    """

    def __init__(
        self,
        broker: MemoryBroker,
        service: str,
        feed: Feed,
        body_limit: int,
        failed: Callable[[BaseException], None] = lambda _: None,
    ) -> None:
        super().__init__(service, feed)
        check_foreign(broker.namespace, service, [feed.topic], "read from")
        self._broker = broker
        with broker.changed:
            ends = [0 if feed.start == "earliest" else len(log) for log in broker.topics[feed.topic]]
            self._positions = broker.fed.setdefault((service, feed.topic), ends)
        source = Source(broker.namespace, service, feed.topic, feed.topic)
        self._turning = Turning(feed, source, broker.services[service], body_limit, failed)

    def step(self) -> int:
        """Pass on the records that have arrived. Return their number, 0 if there are none."""
        before, after, records = self._read()
        if before == after:
            return 0
        outs, counts = self._turning.turn(records, self._broker.clock.now())
        with self._broker.changed:
            if self._positions != before:  # another feeder of this service has passed them on
                return 0
            for out in outs:
                self._broker.append(Out(*out))
            self._positions[:] = after
        self.counts.add(counts)
        return max(len(records), 1)

    def _read(self) -> tuple[list[int], list[int], list[MemoryRecord]]:
        with self._broker.changed:
            before, after, records = list(self._positions), list(self._positions), []
            for partition, log in enumerate(self._broker.topics[self.feed.topic]):
                until = min(self._broker.stable_end(self.feed.topic, partition), len(log), before[partition] + BATCH)
                after[partition] = until
                records += [record.delivered() for record in log[before[partition] : until] if record.visible]
            return before, after, records

    def run(self) -> None:
        """Pass on records until ``stop``."""
        while not self.stopping.is_set():
            if not self.step():
                with self._broker.changed:
                    self._broker.changed.wait(IDLE)


def append_plain(broker: MemoryBroker, topic: str, record: Publication) -> None:
    """Append a record to a plain topic that a service reads.

    Raises:
        LocalError: no service reads the topic.
    """
    known = sorted({name for _, name in broker.fed})
    if topic not in known:
        raise LocalError(f"no service reads from {topic!r:.80}; there are: {', '.join(known) or 'none'}")
    with broker.changed:
        broker.append(broker.placed(record))
