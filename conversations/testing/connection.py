"""A worker's connection in a simulation: transactions fail, partitions move, and the process stands still or dies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from conversations.errors import DestinationFailed, InDoubt, Interrupted
from conversations.memory.connection import MemoryConnection, MemoryRestore
from conversations.ports import ANY_SIZE, Listener, Positions, Produced, Record, Restored, nothing
from conversations.protocol.topics import ANY_PARTITION, QUEUE, STATE, service_topic
from conversations.testing import noise
from conversations.testing.broker import FaultyBroker, StepTransaction
from conversations.testing.faults import Chance, Crash
from conversations.testing.ledger import Page

RELEASED = 0.3
"""Chance, after each transaction of any worker, that a late record arrives."""


class SlowRestore(MemoryRestore):
    """A restore that reads a few rows at a time, so that faults happen in the middle of it."""

    chance: Chance | None = None

    def advance(self, limit: int) -> Restored:
        """Read a few more rows."""
        if self.chance is not None:
            limit = min(limit, self.chance.random.randrange(1, 12))
        return super().advance(limit)


class FaultyConnection(MemoryConnection):
    """A connection of one worker.

    Args:
        broker: the broker of the simulation.
        service: the worker's service.
        slot: name of the worker, the same after a restart. The next connection of the slot may end transactions that this connection
            left open.
        meanwhile: called while this worker stands still; lets the other workers do steps.
        lanes: called while a transaction is under way; lets handlers of this worker return.
    """

    def __init__(
        self,
        broker: FaultyBroker,
        service: str,
        slot: str = "",
        meanwhile: Callable[[], None] = lambda: None,
        lanes: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(broker, service)
        self._faulty = broker
        self._chance = broker.chance
        self._slot = slot
        self._meanwhile = meanwhile
        self._lanes = lanes
        self.page = Page()
        self._commits = 0

    def partitions(self, service: str) -> int | None:
        """Return the partition count of a service, or None. The broker of the simulation notes a service that is missing."""
        count = super().partitions(service)
        if count is None:
            self._faulty.sought.add(service)
        return count

    def cluster(self, service: str) -> str:
        """Return the name of the cluster on which a service lives; empty for this cluster.

        A connection that has not joined, or is closed, knows no routes.
        """
        return "" if self._listener is None else super().cluster(service)

    # -- partitions move ------------------------------------------------------------------------------------------

    def join(self, listener: Listener) -> None:
        """Join the group. By chance, decide the open transactions of the slot first, as ``init_transactions`` does on Kafka."""
        if self._faulty.hanging and self._chance.random.random() < 0.5:  # else: a new host, with another id
            self._faulty.end_of(self._slot)
        super().join(listener)

    def poll(self, timeout: float, limit: int, size: int = ANY_SIZE) -> Sequence[Record]:
        """Change owners of partitions by chance. Then tell the listener about the changes, and return the records that have arrived."""
        if self.owned and self._chance.happens(self._chance.faults.revoke):
            partition = self._chance.random.choice(sorted(self.owned))
            if self._chance.random.random() < 0.5:
                self._give_up([partition])
            else:
                self._seize(partition)
        if self._chance.happens(self._chance.faults.move):
            self._move()
        return super().poll(timeout, limit, size)

    def _seize(self, partition: int) -> None:
        """Take a partition away from this member. The listener is not told now."""
        if self._group.owners.get(partition) is self:
            del self._group.owners[partition]
            self._group.new_epoch(self)
        self.page.discard([partition])

    def _move(self) -> None:
        members = self._group.members
        if len(members) > 1 and self._chance.random.random() < 0.7:
            self._chance.random.shuffle(members)  # a new assignment: members give up lost partitions when they poll
        else:
            self._group.release(self._chance.random.choice(members) if members else self)

    def declare_dead(self) -> None:
        """Remove this member from the group. It learns this when it polls or commits."""
        self._group.release(self)

    def up_to_date(self) -> bool:
        """Return True if the next poll would not change the partitions of this member."""
        group = self._group
        return group.knows(self) and not group.to_revoke(self) and not group.to_assign(self)

    def _forget(self, partitions: Sequence[int]) -> None:  # type: ignore[override]  # always called with lists
        self.page.discard(partitions)
        super()._forget(partitions)

    def restore(self, partition: int, since: int | None) -> MemoryRestore:
        """Begin to restore a state partition."""
        restore = SlowRestore(self.broker, self.service, partition, since)
        if self._chance.active and self._chance.faults.survive:
            restore.chance = self._chance
        return restore

    def open(self, partition: int, positions: Positions) -> None:
        """Begin to read the queue and the commands of a partition. From now on only this member may write the partition's state."""
        super().open(partition, positions)
        if self._group.owners.get(partition) is self:  # False if this member has lost the partition
            self._faulty.opened[self.service, partition] = self

    def drop(self, partition: int) -> None:
        """Stop reading a partition, because it is set aside or built anew. What its handlers have done is not committed any more."""
        self.page.discard([partition])
        super().drop(partition)

    # -- transactions ---------------------------------------------------------------------------------------------

    def commit(
        self, outs: Sequence[Produced], offsets: Mapping[int, int], meanwhile: Callable[[], None] = nothing
    ) -> Mapping[int, int]:
        """Commit, unless a fault happens before, during or after the commit."""
        self._joined()
        if not offsets:
            raise ValueError("a commit without offsets is not fenced")
        if self.broken:
            raise InDoubt("the producer was given up after a failure")
        self.page.flies(offsets)
        meanwhile()
        try:
            done = self._commit_by_chance(outs, offsets)
        except InDoubt:
            self.broken = True
            raise
        self.page.landed()
        self._appended_at = self.broker.clock.now()
        return done

    def _commit_by_chance(self, outs: Sequence[Produced], offsets: Mapping[int, int]) -> Mapping[int, int]:
        chance, faults = self._chance, self._chance.faults
        if chance.happens(faults.crash / 2):
            raise Crash("before the commit")
        if offsets and chance.happens(faults.revoke):
            self._seize(chance.random.choice(sorted(offsets)))
        if chance.happens(faults.overlap):
            self._lanes()
        if chance.happens(faults.abort):
            self._fail(outs, offsets)
        self._refuse(outs)
        done = self._commit(outs, offsets)
        if chance.happens(faults.overlap):
            self._lanes()
        if chance.happens(faults.crash / 2):
            raise Crash("after the commit")
        if chance.happens(faults.noise):
            noise.make(self._faulty)
        return done

    def _commit(self, outs: Sequence[Produced], offsets: Mapping[int, int]) -> Mapping[int, int]:
        self._check_fence(outs, offsets)
        self._stall()
        broker = self._faulty
        transaction = StepTransaction(self.service, self, self._slot)
        transaction.sent = outs
        # If the transaction must fail, no record may arrive late. So all records stay in the transaction.
        passes = self._group.knows(self) and not broker.missing(outs) and not broker.refused(outs)
        now, transaction.late, transaction.stopped = broker.scatter(outs) if passes else (list(outs), [], [])
        self._commits += 1
        # On Kafka both are under way at the same time, so either may come first.
        parts: list[Callable[[], None]] = [
            lambda: broker.produce(transaction, now),
            lambda: broker.send_offsets(transaction, self, offsets),
        ]
        first, second = parts if self._commits % 2 else parts[::-1]
        first()
        self._stall()
        self._die_within(transaction)
        second()
        transaction.handled = self.page.take(offsets)
        self._stall()
        self._leave_undecided(transaction)
        done = broker.finish(transaction, commit=True)
        broker.release(RELEASED)
        return done

    def _check_fence(self, outs: Sequence[Produced], offsets: Mapping[int, int]) -> None:
        state = service_topic(self.broker.namespace, self.service, STATE)
        strays = {out[1] for out in outs if out[0] == state} - offsets.keys()
        if offsets and strays:
            raise AssertionError(f"invariant 2: state of partitions {sorted(strays)} is written without their offsets")

    def _refuse(self, outs: Sequence[Produced]) -> None:
        """Let the queue of another service, or a plain topic, refuse the records of this commit."""
        own = service_topic(self.broker.namespace, self.service, QUEUE)
        others = {out[0] for out in outs if out[1] == ANY_PARTITION or out[0].endswith(f".{QUEUE}")} - {own}
        if others and self._chance.happens(self._chance.faults.refuse):
            raise DestinationFailed({self._chance.random.choice(sorted(others)): "refused by chance"})

    def _fail(self, outs: Sequence[Produced], offsets: Mapping[int, int]) -> None:
        kind = self._chance.random.choice(["interrupted", "in doubt", "in doubt, committed"])
        if kind == "in doubt, committed":
            self._commit(outs, offsets)
            raise InDoubt("the answer to the commit was lost")
        for out in outs:
            if not self.broker.missing([out]):
                self.broker.append(self.broker.placed(out), visible=False)
        raise Interrupted("aborted by chance") if kind == "interrupted" else InDoubt("unknown whether it was aborted")

    def _stall(self) -> None:
        """Stand still by chance while other workers do steps. The group may declare this member dead meanwhile."""
        if self._chance.happens(self._chance.faults.stall):
            if self._chance.random.random() < 0.5:
                self.declare_dead()
            self._meanwhile()

    def _die_within(self, transaction: StepTransaction) -> None:
        if self._chance.happens(self._chance.faults.hang / 2):
            self._faulty.hanging.append(transaction)
            raise Crash("in the middle of a transaction")

    def _leave_undecided(self, transaction: StepTransaction) -> None:
        if self._chance.happens(self._chance.faults.hang / 2):
            transaction.commit = self._chance.random.random() < 0.5
            self._faulty.hanging.append(transaction)
            if self._chance.random.random() < 0.5:
                raise Crash("before the outcome was known")
            raise InDoubt("unknown how it will end")
