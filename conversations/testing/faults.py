"""Seeded faults: a log in memory that duplicates, re-orders, aborts, crashes and takes partitions away."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from conversations.errors import InDoubt, Interrupted
from conversations.memory.broker import MemoryBroker
from conversations.memory.log import MemoryLog
from conversations.ports import Clock, Out, Produced, Record
from conversations.protocol.topics import DEFAULT_NAMESPACE, QUEUE, service_topic
from conversations.testing.ledger import Ledger, Page

AT_MOST = 300
"""Faults of one ``run``; then the world is kind, so that every run comes to rest."""
RELEASED = 0.3
"""Chance that a record that was held back arrives with the next transaction of anybody."""


@dataclass(frozen=True, kw_only=True)
class Faults:
    """What goes wrong, each with its probability per opportunity; the same seed gives the same run.

    ``duplicate`` and ``reorder`` are per record on its way to a queue, ``abort`` per transaction, ``crash`` and
    ``revoke`` per transaction and per step, ``slow`` per handler call: it outlives the step it began in.
    """

    seed: int
    duplicate: float = 0.0
    reorder: float = 0.0
    crash: float = 0.0
    abort: float = 0.0
    revoke: float = 0.0
    slow: float = 0.0


class Crash(BaseException):
    """The process dies here; nothing may catch it but the simulation."""


class Chance:
    """Draws faults from one seeded generator."""

    def __init__(self, faults: Faults | None) -> None:
        self.faults = faults or Faults(seed=0)
        self.random = Random(self.faults.seed)
        self.active = faults is not None
        self._left = AT_MOST

    def renew(self) -> None:
        """A new run begins: faults may happen again."""
        self._left = AT_MOST

    def happens(self, probability: float) -> bool:
        """Say whether a fault of this probability happens now."""
        if not self.active or probability <= 0 or self._left <= 0 or self.random.random() >= probability:
            return False
        self._left -= 1
        return True


class FaultyBroker(MemoryBroker):
    """A broker whose way to the queues may duplicate and re-order, as forwarders between clusters do."""

    def __init__(self, clock: Clock, chance: Chance, namespace: str = DEFAULT_NAMESPACE) -> None:
        super().__init__(clock, namespace)
        self.chance = chance
        self.ledger = Ledger()
        self.late: list[Out] = []
        """Sent, and not in its queue yet."""
        self.stop: Callable[[Out], bool] = lambda _: False
        """Says which records for queues do not arrive before ``resume``; a test may set it."""
        self.stopped: list[Out] = []

    def scatter(self, outs: Sequence[Produced]) -> tuple[list[Produced], list[Out]]:
        """Divide what a transaction appends into what arrives with it and what arrives later."""
        queues = {service_topic(self.namespace, service, QUEUE) for service in self.services}
        now: list[Produced] = []
        late: list[Out] = []
        for produced in outs:
            out = Out(*produced)
            if out.topic not in queues:
                now.append(out)
            elif self.stop(out):
                self.stopped.append(out)
            elif self.chance.happens(self.chance.faults.reorder):
                late.append(out)
            else:
                now.append(out)
                if self.chance.happens(self.chance.faults.duplicate):
                    late.append(out)
        return now, late

    def resume(self) -> None:
        """Let what was stopped arrive, in the order it was sent in."""
        self.stop = lambda _: False
        stopped, self.stopped = self.stopped, []
        for out in stopped:
            self.append(out)

    def release(self, probability: float = 1.0) -> int:
        """Let records that were held back arrive, in another order; return how many."""
        self.chance.random.shuffle(self.late)
        staying: list[Out] = []
        going: list[Out] = []
        for out in self.late:
            (going if self.chance.random.random() < probability else staying).append(out)
        self.late = staying
        for out in going:
            self.append(out)
        return len(going)


class FaultyLog(MemoryLog):
    """A worker's connection on which transactions fail, partitions move and the process dies."""

    def __init__(self, broker: FaultyBroker, service: str) -> None:
        super().__init__(broker, service)
        self._faulty = broker
        self._chance = broker.chance
        self.page = Page(broker.ledger)

    def poll(self, timeout: float, limit: int) -> Sequence[Record]:
        """Serve changes of ownership, chance ones too, then return the records at hand."""
        if self.owned and self._chance.happens(self._chance.faults.revoke):
            partition = self._chance.random.choice(sorted(self.owned))
            if self._chance.random.random() < 0.5:
                self._give_up([partition])
            else:
                self._seize(partition)
        return super().poll(timeout, limit)

    def _seize(self, partition: int) -> None:
        """Somebody else owned the partition for a moment, and this member has not been told."""
        self._group.owners.pop(partition, None)
        self.page.discard([partition])

    def _forget(self, partitions: Sequence[int]) -> None:  # type: ignore[override]  # always called with lists
        self.page.discard(partitions)
        super()._forget(partitions)

    def commit(self, outs: Sequence[Produced], offsets: Mapping[int, int]) -> Mapping[int, int]:
        """Commit, unless something goes wrong before, in the middle of it or after it."""
        chance, faults = self._chance, self._chance.faults
        if chance.happens(faults.crash / 2):
            raise Crash("before the commit")
        if offsets and chance.happens(faults.revoke):
            self._seize(chance.random.choice(sorted(offsets)))
        if chance.happens(faults.abort):
            self._fail(outs, offsets)
        done = self._commit(outs, offsets)
        if chance.happens(faults.crash / 2):
            raise Crash("after the commit")
        return done

    def _commit(self, outs: Sequence[Produced], offsets: Mapping[int, int]) -> Mapping[int, int]:
        state = service_topic(self.broker.namespace, self.service, "state")
        strays = {out[1] for out in outs if out[0] == state} - offsets.keys()
        if offsets and strays:
            raise AssertionError(f"invariant 2: state of partitions {sorted(strays)} is written without their offsets")
        # Checked before anything of it travels: an aborted transaction sends nothing, late or not.
        now, late = self._faulty.scatter(outs) if self._may_commit(outs, offsets) else (list(outs), [])
        done = super().commit(now, offsets)
        self._faulty.late += late
        self.page.committed(offsets)
        self._faulty.release(RELEASED)
        return done

    def _may_commit(self, outs: Sequence[Produced], offsets: Mapping[int, int]) -> bool:
        owned = all(self._group.owners.get(partition) is self for partition in offsets)
        return owned and all(out[1] < len(self.broker.topics.get(out[0], ())) for out in outs)

    def _fail(self, outs: Sequence[Produced], offsets: Mapping[int, int]) -> None:
        kind = self._chance.random.choice(["interrupted", "in doubt", "in doubt, committed"])
        if kind == "in doubt, committed":
            self._commit(outs, offsets)
            raise InDoubt("the answer to the commit was lost")
        for out in outs:
            if out[1] < len(self.broker.topics.get(out[0], ())):
                self.broker.append(Out(*out), visible=False)
        raise Interrupted("aborted by chance") if kind == "interrupted" else InDoubt("nobody knows whether it aborted")
