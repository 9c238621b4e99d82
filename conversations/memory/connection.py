"""The log port on a ``MemoryBroker``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import get_ident

from conversations.durations import SECOND
from conversations.errors import InputLost, LogError
from conversations.memory.broker import MemoryBroker
from conversations.memory.group import Group
from conversations.ports import ANY_SIZE, Listener, Positions, Produced, Record, Restored, Unanswered, nothing
from conversations.protocol.topics import ANY_PARTITION, COMMANDS, DECISIONS, INPUTS, QUEUE, STATE, service_topic

LOOKED_AFTER = SECOND
"""Minimum number of microseconds between two look-ups of an unknown service, as on Kafka."""


class MemoryRestore:
    """Reads one state partition up to the last commit before the partition was assigned, in the same three steps as on Kafka.

    First it asks for the group's offset, which is not known while an undecided transaction carries an offset of the
    partition. Then it asks for the end of the state partition, which is after all records, also after records of open
    transactions. Then it reads the rows up to this end, but never past the first record of an open transaction.
    """

    def __init__(self, broker: MemoryBroker, service: str, partition: int, since: int | None) -> None:
        self.committed: int | None = None
        self.with_row = True
        self.from_start = not since
        self._broker = broker
        self._group = broker.groups[service]
        self._topic = service_topic(broker.namespace, service, STATE)
        self._partition = partition
        self._next = since or 0
        self._end: int | None = None

    def advance(self, limit: int) -> Restored:
        """Read at most ``limit`` further rows."""
        with self._broker.changed:
            records = self._broker.topics[self._topic][self._partition]
            if self._end is None:
                if self._group.pending.get(self._partition):
                    return Restored((), False, self._next)
                self.committed = self._group.offsets.get(self._partition)
                self._end = len(records)
            stable = self._broker.stable_end(self._topic, self._partition)
            upto = min(self._end, self._next + limit, stable)
            rows = [(r.key() or b"", r.value()) for r in records[self._next : upto] if r.visible]
            self._next = max(upto, self._next)
            return Restored(rows, self._next >= self._end, self._next)

    def close(self) -> None:
        """Do nothing, because there is nothing to release."""


class _Input:
    __slots__ = ("_broker", "_partition", "_topic", "end", "paused", "position", "records")

    def __init__(self, broker: MemoryBroker, topic: str, partition: int, position: int) -> None:
        self._broker = broker
        self._topic = topic
        self._partition = partition
        self.records = broker.topics[topic][partition]
        self.position = position
        self.end = 0
        """Offset at which a poll last reached the end of the input."""
        self.paused = False

    def take(self, limit: int, size: int) -> list[Record]:
        if self.paused:
            return []
        if len(self.records) <= self.position:
            self.end = self.position
            return []
        taken: list[Record] = []
        stable = min(self._broker.stable_end(self._topic, self._partition), len(self.records))
        if self.position >= stable:
            self.end = self.position
        while self.position < stable and len(taken) < limit and size > 0:
            record = self.records[self.position]
            self.position += 1
            if record.visible:  # else its transaction was aborted, and a poll passes over it
                size -= len(record.value() or b"")
                taken.append(record.delivered())
        return taken


class MemoryConnection:
    """One worker's connection to the topics of its service, as strict as the connection to Kafka.

    Only the thread that joined may poll, open, pause, commit and close. No thread may do so before ``join`` or after
    ``close``.
    """

    def __init__(self, broker: MemoryBroker, service: str) -> None:
        self.broker = broker
        self.service = service
        self.owned: set[int] = set()
        self.epoch = 0
        self.broken = False
        """True when this connection cannot commit any more. Then ``lost`` is called for a partition that is taken away, not ``revoked``."""
        self._inputs: dict[tuple[int, str], _Input] = {}
        self._order: list[_Input] = []
        """The inputs in the order in which ``poll`` takes their records: first all decisions."""
        self._listener: Listener | None = None
        self._appended_at: int | None = None
        self._thread = 0
        self._known: dict[str, int] = {}
        self._clusters: dict[str, str] = {}
        self._schemas: dict[str, str] = {}
        self._looked_at = -LOOKED_AFTER

    @property
    def _group(self) -> Group:
        return self.broker.groups[self.service]

    def join(self, listener: Listener) -> None:
        """Join the group. ``poll`` calls the listener with the assigned partitions.

        Raises:
            LogError: the service does not exist.
            RuntimeError: this connection has joined already.
        """
        if self._listener is not None:
            raise RuntimeError(f"the connection of {self.service!r} has joined already: close it first")
        with self.broker.changed:
            if self.service not in self.broker.services:
                raise LogError(f"topics are missing: those of {self.service}")
            self._thread, self._listener, self.broken = get_ident(), listener, False
            self._group.join(self)
            self.broker.changed.notify_all()

    def _joined(self) -> Listener:
        listener = self._listener
        if listener is None:
            raise LogError(f"the connection of {self.service!r} is closed: join first")
        if get_ident() != self._thread:
            raise RuntimeError("only the thread that joined may use the connection")
        return listener

    def poll(self, timeout: float, limit: int, size: int = ANY_SIZE) -> Sequence[Record]:
        """Tell the listener about changes of ownership, then return the records that have arrived. Wait only if there are none."""
        self._rebalance(self._joined())
        with self.broker.changed:
            records = self._take(limit, size)
            if not records and timeout > 0:
                self.broker.changed.wait(timeout)
                records = self._take(limit, size)
            return records

    def _take(self, limit: int, size: int) -> list[Record]:
        taken: list[Record] = []
        for source in self._order:
            if len(taken) >= limit or size <= 0:
                break
            more = source.take(limit - len(taken), size)
            size -= sum(len(record.value() or b"") for record in more)
            taken += more
        return taken

    def _rebalance(self, listener: Listener) -> None:
        group = self._group
        gone = sorted(p for p in self.owned if group.owners.get(p) is not self)
        if gone:
            listener.lost(gone)
            self._forget(gone)
        with self.broker.changed:
            if self not in group.epochs:  # removed from the group: this member lost all partitions, and joins again
                group.join(self)
            self.epoch = group.epochs[self]
        revoked = group.to_revoke(self)
        if revoked:
            self._give_up(revoked)
        with self.broker.changed:
            # A partition may have been lost while other partitions were given up. The next poll reports this loss to the listener.
            # Until then, the partition cannot be assigned again.
            assigned = [partition for partition in group.to_assign(self) if partition not in self.owned]
            group.owners.update(dict.fromkeys(assigned, self))
            self.owned.update(assigned)
        if assigned:
            listener.assigned(assigned)

    def _give_up(self, partitions: list[int]) -> None:
        if self._listener is not None:
            (self._listener.lost if self.broken else self._listener.revoked)(partitions)
        with self.broker.changed:
            for partition in partitions:
                if self._group.owners.get(partition) is self:
                    del self._group.owners[partition]
            self.broker.changed.notify_all()
        self._forget(partitions)

    def _forget(self, partitions: Iterable[int]) -> None:
        for partition in partitions:
            self.owned.discard(partition)
            self._stop(partition)

    def restore(self, partition: int, since: int | None) -> MemoryRestore:
        """Begin to read the state partition at offset ``since``, or at its start if ``since`` is None."""
        return MemoryRestore(self.broker, self.service, partition, since)

    def open(self, partition: int, positions: Positions) -> None:
        """Start reading the inputs of a partition. Do nothing if the partition was taken away meanwhile."""
        self._joined()
        if partition not in self.owned:
            return
        for kind, position in zip((QUEUE, COMMANDS, DECISIONS), positions, strict=True):
            topic = service_topic(self.broker.namespace, self.service, kind)
            source = _Input(self.broker, topic, partition, position or 0)
            if source.position > len(source.records):
                raise InputLost(partition, f"{kind} position {position} is beyond the end {len(source.records)}")
            self._inputs[partition, kind] = source
        self._put_in_order()

    def _put_in_order(self) -> None:
        self._order = [
            source for _, source in sorted(self._inputs.items(), key=lambda it: (it[0][1] != DECISIONS, it[0]))
        ]

    def pause(self, partition: int, kind: str = QUEUE) -> None:
        """Pause one input of a partition. Do nothing if the partition is not open."""
        self._hold_back(partition, kind, paused=True)

    def resume(self, partition: int, kind: str = QUEUE) -> None:
        """Resume one input of a partition. Do nothing if the partition is not open."""
        self._hold_back(partition, kind, paused=False)

    def _hold_back(self, partition: int, kind: str, *, paused: bool) -> None:
        self._joined()
        source = self._inputs.get((partition, kind))
        if source is not None:
            source.paused = paused

    def drop(self, partition: int) -> None:
        """Stop reading the inputs of a partition."""
        self._joined()
        self._stop(partition)

    def _stop(self, partition: int) -> None:
        for kind in INPUTS:
            self._inputs.pop((partition, kind), None)
        self._put_in_order()

    def commit(
        self, outs: Sequence[Produced], offsets: Mapping[int, int], meanwhile: Callable[[], None] = nothing
    ) -> Mapping[int, int]:
        """Append records and commit offsets in one transaction; see ``ports.Connection.commit``."""
        self._joined()
        meanwhile()
        done = self.broker.commit(self.service, self, outs, offsets)
        self._appended_at = self.broker.clock.now()
        return done

    def appended_at(self) -> int | None:
        """Return the time when the last commit's records were appended, in microseconds; None before a commit."""
        return self._appended_at

    def unanswered(self) -> Unanswered | None:
        """Return None, because in one process every call is answered."""
        return None

    def partitions(self, service: str) -> int | None:
        """Return the partition count of a service, or None. An unknown service is looked up at most once a second."""
        if service not in self._known and self.broker.clock.steady() - self._looked_at >= LOOKED_AFTER:
            self.look_at_catalog()
        return self._known.get(service)

    def cluster(self, service: str) -> str:
        """Return the name of the cluster on which a service lives, as it was last looked up; empty for this cluster."""
        return self._clusters.get(service, "")

    def look_at_catalog(self) -> None:
        """Read the present services. ``partitions`` uses the result."""
        self._known = self.broker.known()
        self._clusters = {service: cluster for service, (cluster, _) in self.broker.routes.items()}
        self._looked_at = self.broker.clock.steady()
        self._schemas = dict(self.broker.schemas)

    def schemas(self) -> Mapping[str, str]:
        """Return the schemas of the catalog as it was last read."""
        return self._schemas

    def topic_ids(self) -> Mapping[str, str]:
        """Return the topic ids of the service's inputs and of its state topic."""
        names = [service_topic(self.broker.namespace, self.service, kind) for kind in (*INPUTS, STATE)]
        if missing := sorted(set(names) - self.broker.ids.keys()):
            raise LogError(f"topics are missing: {', '.join(missing)}")
        return {name: self.broker.ids[name] for name in names}

    def unwritable(self, topics: Sequence[str]) -> dict[str, str]:
        """Return the topics that cannot be written to, each with the reason."""
        return self.broker.missing([(topic, ANY_PARTITION, None, None, None) for topic in topics])

    def read_to(self, kind: str, partition: int) -> int:
        """Return the offset at which ``poll`` last reached the end of one input of a partition; 0 until then."""
        self._joined()
        source = self._inputs.get((partition, kind))
        return 0 if source is None else source.end

    def queue_seen(self, partition: int) -> tuple[int, int] | None:
        """Return the end of the queue partition, and the offset at which ``poll`` last reached the end. Any thread may call this method."""
        source = self._inputs.get((partition, QUEUE))
        return None if source is None else (self.end(QUEUE, partition), source.end)

    def end(self, kind: str, partition: int) -> int:
        """Return the end offset of one input of a partition."""
        topic = service_topic(self.broker.namespace, self.service, kind)
        partitions = self.broker.topics.get(topic, ())
        if not 0 <= partition < len(partitions):
            raise LogError(f"offsets of {topic} cannot be listed: it has no partition {partition}")
        return len(partitions[partition])

    def close(self) -> None:
        """Call the listener's ``revoked``, or ``lost`` if ``broken`` is true. Then leave the group. A repeated call has no effect."""
        if self._listener is None:
            return
        self._joined()
        if self.owned:
            self._give_up(sorted(self.owned))
        self.vanish()

    def vanish(self) -> None:
        """Leave the group without a call of the listener, like a killed process whose session has timed out."""
        with self.broker.changed:
            self._group.release(self)
            self._listener = None
            self._inputs.clear()
            self._order.clear()
            self.broker.changed.notify_all()
