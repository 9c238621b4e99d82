"""The log port on a ``MemoryBroker``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from conversations.errors import InputLost
from conversations.memory.broker import MemoryBroker, MemoryRecord
from conversations.ports import Listener, Positions, Produced, Record, Restored
from conversations.protocol.topics import COMMANDS, QUEUE, STATE, service_topic


class MemoryRestore:
    """Reads one state partition up to its end at the time of the call."""

    def __init__(self, records: Sequence[MemoryRecord], since: int, committed: int | None) -> None:
        self.committed: int | None = committed
        self.from_start = since == 0
        self._records = records
        self._next = since
        self._end = len(records)

    def advance(self, limit: int) -> Restored:
        """Read at most ``limit`` further rows."""
        upto = min(self._end, self._next + limit)
        rows = [(r.key() or b"", r.value()) for r in self._records[self._next : upto] if r.visible]
        self._next = upto
        return Restored(rows, upto >= self._end, upto)

    def close(self) -> None:
        """Nothing to release."""


class _Input:
    __slots__ = ("paused", "position", "records")

    def __init__(self, records: list[MemoryRecord], position: int) -> None:
        self.records = records
        self.position = position
        self.paused = False

    def take(self, limit: int) -> list[MemoryRecord]:
        if self.paused:
            return []
        taken = self.records[self.position : self.position + limit]
        self.position += len(taken)
        return [record for record in taken if record.visible]


class MemoryLog:
    """One worker's connection to the topics of its service."""

    def __init__(self, broker: MemoryBroker, service: str) -> None:
        self.broker = broker
        self.service = service
        self.owned: set[int] = set()
        self._inputs: dict[tuple[int, str], _Input] = {}
        self._listener: Listener | None = None
        self._group = broker.groups[service]

    def join(self, listener: Listener) -> None:
        """Enter the group; partitions arrive with ``poll``."""
        with self.broker.changed:
            self._listener = listener
            self._group.members.append(self)
            self.broker.changed.notify_all()

    def poll(self, timeout: float, limit: int) -> Sequence[Record]:
        """Serve changes of ownership, then return the records at hand; wait only when there are none."""
        self._rebalance()
        with self.broker.changed:
            records = self._take(limit)
            if not records and timeout > 0:
                self.broker.changed.wait(timeout)
                records = self._take(limit)
            return records

    def _take(self, limit: int) -> list[Record]:
        taken: list[Record] = []
        for _, source in sorted(self._inputs.items()):
            if len(taken) >= limit:
                break
            taken += source.take(limit - len(taken))
        return taken

    def _rebalance(self) -> None:
        listener = self._listener
        if listener is None:
            return
        gone = sorted(p for p in self.owned if self._group.owners.get(p) is not self)
        if gone:
            listener.lost(gone)
            self._forget(gone)
        revoked = self._group.to_revoke(self)
        if revoked:
            self._give_up(revoked)
        with self.broker.changed:
            assigned = self._group.to_assign(self)
            self._group.owners.update(dict.fromkeys(assigned, self))
            self.owned.update(assigned)
        if assigned:
            listener.assigned(assigned)

    def _give_up(self, partitions: list[int]) -> None:
        if self._listener is not None:
            self._listener.revoked(partitions)
        with self.broker.changed:
            for partition in partitions:
                if self._group.owners.get(partition) is self:
                    del self._group.owners[partition]
            self.broker.changed.notify_all()
        self._forget(partitions)

    def _forget(self, partitions: Iterable[int]) -> None:
        for partition in partitions:
            self.owned.discard(partition)
            self.drop(partition)

    def restore(self, partition: int, since: int | None) -> MemoryRestore:
        """Begin reading the state partition."""
        with self.broker.changed:
            records = self.broker.topics[service_topic(self.broker.namespace, self.service, STATE)][partition]
            return MemoryRestore(records, since or 0, self._group.offsets.get(partition))

    def open(self, partition: int, positions: Positions) -> None:
        """Let queue and commands of a partition flow."""
        for kind, position in ((QUEUE, positions.queue), (COMMANDS, positions.commands)):
            records = self.broker.topics[service_topic(self.broker.namespace, self.service, kind)][partition]
            if position is not None and position > len(records):
                raise InputLost(partition, f"{kind} position {position} is beyond the end {len(records)}")
            self._inputs[partition, kind] = _Input(records, position or 0)

    def pause(self, partition: int) -> None:
        """Hold back the queue input."""
        self._inputs[partition, QUEUE].paused = True

    def resume(self, partition: int) -> None:
        """Let the queue input flow again."""
        self._inputs[partition, QUEUE].paused = False

    def drop(self, partition: int) -> None:
        """Stop both inputs."""
        self._inputs.pop((partition, QUEUE), None)
        self._inputs.pop((partition, COMMANDS), None)

    def commit(self, outs: Sequence[Produced], offsets: Mapping[int, int]) -> Mapping[int, int]:
        """Append and move offsets together; see ``ports.Log``."""
        return self.broker.commit(self.service, self, outs, offsets)

    def partitions(self, service: str) -> int | None:
        """Partition count of a service."""
        return self.broker.services.get(service)

    def topic_ids(self) -> Mapping[str, str]:
        """Identities of the service's own topics."""
        names = (service_topic(self.broker.namespace, self.service, kind) for kind in (QUEUE, COMMANDS, STATE))
        return {name: self.broker.ids[name] for name in names}

    def queue_read_to(self, partition: int) -> int:
        """Offset up to which everything was given out."""
        source = self._inputs.get((partition, QUEUE))
        return 0 if source is None else source.position

    def queue_end(self, partition: int) -> int:
        """End offset of the queue partition."""
        return len(self.broker.queue(self.service)[partition])

    def close(self) -> None:
        """Leave the group after a last ``revoked``."""
        if self._listener is not None and self.owned:
            self._give_up(sorted(self.owned))
        self.vanish()

    def vanish(self) -> None:
        """Leave the group without a word, as a killed process does once its session has timed out."""
        with self.broker.changed:
            self._group.release(self)
            self._listener = None
            self.broker.changed.notify_all()
