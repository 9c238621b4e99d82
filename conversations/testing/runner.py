"""One worker of a service in a simulation. The worker may stand still, die, and be replaced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from conversations.config import WorkerSettings
from conversations.memory.clock import ManualClock
from conversations.ports import Connection, Stores
from conversations.protocol.endpoint import NEVER
from conversations.service import Service
from conversations.stores.memory import MemoryStores
from conversations.testing import bounds
from conversations.testing.broker import FaultyBroker
from conversations.testing.connection import FaultyConnection
from conversations.testing.faults import Chance, Crash
from conversations.testing.process_clock import ProcessClock
from conversations.testing.scheduler import SeededLanes
from conversations.testing.stores import Disk
from conversations.worker import Worker

SESSION = 10
"""A worker stands still for at most ``SESSION - 1`` steps at a time."""


class World(Protocol):
    """The part of a simulation that a runner uses."""

    chance: Chance
    clock: ManualClock
    settings: WorkerSettings

    def broker_of(self, service: str) -> FaultyBroker:
        """Return the broker of the cluster on which a service lives."""

    def failed(self, failure: BaseException) -> None:
        """Note an exception that a handler raised."""

    def meanwhile(self) -> None:
        """Let the other workers do steps."""


class Runner:
    """One worker of a service. ``slot`` is its number among the service's workers."""

    def __init__(self, world: World, service: Service[Any], slot: int) -> None:
        self.service = service
        self.stepping = False
        """True while ``step`` runs. Meanwhile ``step`` must not be called again."""
        self._asleep = 0
        self._world = world
        self._slot = f"{service.name}/{slot}"
        self._connection: FaultyConnection | None = None
        self._disk = Disk()
        self.clock = ProcessClock(world.clock, world.chance)
        self.worker = self._new()

    def _new(self) -> Worker:
        world = self._world
        self.clock.jump()
        page: Callable[[], Any] = lambda: self.connection.page  # noqa: E731 - the page of the present connection
        self.lanes = SeededLanes(world.chance, page, self._broker.ledger, world.failed)
        stores: Stores = self._disk if world.chance.faults.survive else MemoryStores()
        return Worker(
            self.service, self._connect, stores, settings=world.settings, clock=self.clock,
            scheduler=self.lanes, random=world.chance.random,
        )  # fmt: skip

    def _connect(self) -> Connection:
        world = self._world
        self._connection = FaultyConnection(
            self._broker, self.service.name, self._slot, world.meanwhile, self.lanes.go_on
        )
        return self._connection

    @property
    def _broker(self) -> FaultyBroker:
        return self._world.broker_of(self.service.name)

    @property
    def connection(self) -> FaultyConnection:
        """The worker's present connection."""
        if self._connection is None:
            raise RuntimeError("no connection yet")
        return self._connection

    def step(self) -> int:
        """Let the worker do a step. Return the number of read records plus the number of committed transactions.

        If the worker stands still or dies, return 1.
        """
        if self.stepping or self._sleeps():
            return 1
        self.clock.jump()
        before, connection = self.worker.counts.commits, self.connection
        self.stepping = True
        try:
            read = self.worker.step()
        except Crash:
            self.crash()
            return 1
        finally:
            self.stepping = False
        bounds.check(self.worker)
        # A new connection counts as progress, because the worker then reads everything again.
        return read + self.worker.counts.commits - before + (self.connection is not connection)

    def _sleeps(self) -> bool:
        chance = self._world.chance
        if not self._asleep and chance.happens(chance.faults.stall / 4):
            self._asleep = chance.random.randrange(1, SESSION)
            if chance.random.random() < 0.5:
                self.connection.declare_dead()
        if self._asleep:
            self._asleep -= 1
            return True
        return False

    def crash(self) -> None:
        """Kill the worker and start another. Memory is lost, the log stays, and the local copies may survive."""
        chance, broker = self._world.chance, self._broker
        dead, dead_lanes = self.connection, self.lanes
        if chance.faults.survive:
            self._disk.crash(survives=chance.random.random() < chance.faults.survive)
        self.worker = self._new()
        if chance.happens(chance.faults.hang):
            broker.dead.append((self.service.name, dead))  # the group keeps the member until its session times out
        else:
            dead.vanish()
        dead_lanes.close()

    def replace(self, service: Service[Any]) -> None:
        """Run another declaration of the service in a new worker. The old worker must be closed."""
        self.service = service
        self.worker = self._new()

    def close(self) -> None:
        """Stop the worker cleanly."""
        self.worker.close()

    def busy(self) -> bool:
        """Return True if the next step has something to do."""
        return bool(self._asleep) or self.worker.busy() or not self.connection.up_to_date()

    def held_until(self) -> int:
        """Return the true time at which receipts that wait in this worker are routed; NEVER if none wait."""
        until = self.worker.receipts.until if self.worker.assignment.backlog else 0
        return until - self._log_ahead() if until else NEVER

    def _log_ahead(self) -> int:
        """Return how far the log's clock is ahead of the true time, in microseconds."""
        return self._broker.clock.now() - self._world.clock.now()

    def next_deadline(self) -> int:
        """Return the earliest true time at which this worker has something to do, even if nothing arrives.

        Deadlines are times of the log's clock, which may be off.
        """
        times = [partition.next_deadline() for partition in self.worker.partitions.values()]
        if any(len(partition.waiting.delayed) for partition in self.worker.partitions.values()):
            times += self.worker.context.destinations.blocked.values()
        soonest = min(times, default=NEVER)
        return soonest if soonest == NEVER else soonest - self._log_ahead()

    def remembers(self) -> bool:
        """Return True if the worker has rows that must be deleted at a later log time."""
        return any(len(p.schedule.tombstones) or len(p.schedule.commands) for p in self.worker.partitions.values())
