"""The wire between the two clusters of a simulation: it carries envelopes as forwarders do, and loses, damages, repeats and delays them.

Each cluster is a log of its own. A worker appends an envelope for the other cluster to the transmission topic of its own cluster, in
the transaction that does the work. The wire reads what is committed there, and appends it to the queues of the other cluster, together with its
position in the transmission topic. So the wire repeats nothing by itself, whenever it is killed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from conversations.memory.record import MemoryRecord
from conversations.ports import Out
from conversations.protocol.envelope import prefix_in
from conversations.protocol.topics import QUEUE, partition_of, service_topic, transmission_topic
from conversations.testing import damage
from conversations.testing.broker import FAR, FaultyBroker
from conversations.testing.faults import Chance

BATCH = 20
"""Maximum number of envelopes of one partition that are carried at once."""


class Wire:
    """The wire between two clusters, in both directions.

    Args:
        here: one of the clusters.
        there: the other one.
        chance: decides what happens to each envelope.
    """

    def __init__(self, here: FaultyBroker, there: FaultyBroker, chance: Chance) -> None:
        self._ways = (here, there), (there, here)
        self._chance = chance
        self.lose: Callable[[Out], bool] = lambda _: False
        """Returns True for a record that never arrives. A test may set it."""

    def step(self) -> int:
        """Carry some envelopes. Return more than 0 if any was carried, or has to wait for the next step."""
        return sum(self._carry(source, target) for source, target in self._ways)

    def _carry(self, source: FaultyBroker, target: FaultyBroker) -> int:
        carried = 0
        for partition in range(len(source.topics[transmission_topic(source.namespace, FAR)])):
            records = list(_waiting_in(source, target, partition))
            if not records:
                continue
            carried += 1
            if self._rests():
                continue
            batch = records[: self._limit()]
            for record in batch:
                self._bring(record, target)
            target.forwarded[partition] = batch[-1].offset() + 1
        return carried

    def _rests(self) -> bool:
        """Return True if nothing is carried now, because the forwarder stands still, or dies before it commits.

        The envelopes and the position after them are one transaction of the other cluster, so the next forwarder begins with the same records.
        """
        faults = self._chance.faults
        return self._chance.happens(faults.stall) or self._chance.happens(faults.crash)

    def _limit(self) -> int:
        return self._chance.random.randrange(1, BATCH) if self._chance.active else BATCH

    def _bring(self, record: MemoryRecord, target: FaultyBroker) -> None:
        """Let an envelope arrive in the queue of its service: unharmed, or harmed by chance, or not at all."""
        value, key = record.value() or b"", record.key() or b""
        service = prefix_in(value).to_service
        if service not in target.services:
            return  # its sender transmits it again
        queue = service_topic(target.namespace, service, QUEUE)
        out = Out(queue, partition_of(key, target.services[service]), key, value, record.headers())
        faults = self._chance.faults
        if self._chance.happens(faults.lose) or self.lose(out):
            return
        if self._chance.happens(faults.damage):
            target.ruin(damage.flipped(out, self._chance.random))
            return
        now, late, stopped = target.scatter([out])
        for each in now:
            target.append(Out(*each))
        target.late += late
        target.stopped += stopped


def waiting(source: FaultyBroker, target: FaultyBroker) -> Iterator[MemoryRecord]:
    """Yield the committed envelopes that are not carried to the other cluster yet."""
    for partition in range(len(source.topics[transmission_topic(source.namespace, FAR)])):
        yield from _waiting_in(source, target, partition)


def _waiting_in(source: FaultyBroker, target: FaultyBroker, partition: int) -> Iterator[MemoryRecord]:
    topic = transmission_topic(source.namespace, FAR)
    records = source.topics[topic][partition]
    end = min(len(records), source.stable_end(topic, partition))
    return (it for it in records[target.forwarded.get(partition, 0) : end] if it.visible)
