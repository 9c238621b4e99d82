"""Whole services in one thread: the real worker and codec on a log in memory and a clock moved by hand."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from typing import Any

from conversations.config import WorkerSettings
from conversations.dialog import micros
from conversations.memory.clock import ManualClock
from conversations.memory.store import MemoryStores
from conversations.ports import Log
from conversations.protocol import rows
from conversations.protocol.contract import Contract
from conversations.protocol.endpoint import NEVER
from conversations.service import Service
from conversations.testing import invariants, reading
from conversations.testing.faults import Chance, Crash, Faults, FaultyBroker, FaultyLog
from conversations.testing.peer import Peer
from conversations.testing.reading import DeadLetter
from conversations.testing.scheduler import SeededLanes
from conversations.worker import Worker

START = datetime(2026, 1, 1, tzinfo=UTC)
PARTITIONS = 3
STRIDE = 3_600_000_000
"""Microseconds that ``advance`` passes at a time at most while tombstones wait for time to pass."""
ENDLESS = 100_000
"""Steps after which a run that does not come to rest is given up."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _Runner:
    """One service and its worker, which may die and be replaced."""

    def __init__(self, simulation: Simulation, service: Service[Any]) -> None:
        self.service = service
        self._simulation = simulation
        self._log: FaultyLog | None = None
        self.worker = self._new()

    def _new(self) -> Worker:
        simulation = self._simulation
        self.lanes = SeededLanes(simulation.chance, lambda: self.log.page, simulation.failed)
        return Worker(
            self.service, self._connect, MemoryStores(), settings=simulation.settings, clock=simulation.clock,
            scheduler=self.lanes, random=simulation.chance.random,
        )  # fmt: skip

    def _connect(self) -> Log:
        self._log = FaultyLog(self._simulation.broker, self.service.name)
        return self._log

    @property
    def log(self) -> FaultyLog:
        """The worker's present connection."""
        if self._log is None:
            raise RuntimeError("no connection yet")
        return self._log

    def step(self) -> int:
        """Let the worker do a step; return what moved: records read and transactions committed."""
        before, log = self.worker.counts.commits, self.log
        try:
            read = self.worker.step()
        except Crash:
            self.crash()
            return 1
        # A worker that connected anew has everything before it again.
        return read + self.worker.counts.commits - before + (self.log is not log)

    def crash(self) -> None:
        """Kill the worker and start another: memory is lost, the log stays."""
        dead, dead_lanes = self.log, self.lanes
        self.worker = self._new()
        dead.vanish()
        dead_lanes.close()

    def replace(self, service: Service[Any]) -> None:
        """Stop the worker cleanly and run another declaration of the service."""
        self.service = service
        self.close()
        self.worker = self._new()

    def close(self) -> None:
        """Stop the worker cleanly."""
        self.worker.close()

    def next_deadline(self) -> int:
        """When time alone has something for this worker to do."""
        times = [partition.next_deadline() for partition in self.worker.partitions.values()]
        if any(partition.delayed for partition in self.worker.partitions.values()):
            times += self.worker.owner.destinations.blocked.values()
        return min(times, default=NEVER)

    def remembers(self) -> bool:
        """Say whether anything is to be forgotten when log time has passed."""
        return any(len(p.tombstones) or len(p.commands) for p in self.worker.partitions.values())


class Simulation(AbstractContextManager["Simulation"]):
    """Services on a log in memory and a clock moved by hand; deterministic.

    Args:
        services: the services under test.
        now: where the clock starts.
        faults: what goes wrong, by chance; nothing without it.
        raise_failures: ``run`` raises what a handler raises; False lets it be tried again and given up on.
        partitions: queue partitions of every service.
        settings: of every worker.

    Raises:
        DeclarationError: a service cannot handle what it may receive.
    """

    def __init__(
        self,
        *services: Service[Any],
        now: datetime = START,
        faults: Faults | None = None,
        raise_failures: bool = True,
        partitions: int = PARTITIONS,
        settings: WorkerSettings | None = None,
    ) -> None:
        self.clock = ManualClock((now - _EPOCH) // timedelta(microseconds=1))
        self.chance = Chance(faults)
        self.broker = FaultyBroker(self.clock, self.chance)
        # Nothing runs beside the step, so there is nothing to wait for.
        self.settings = settings or WorkerSettings(patience=timedelta(0), revocation=timedelta(0))
        self._partitions = partitions
        self._raise_failures = raise_failures
        self._failures: list[BaseException] = []
        self._runners: dict[str, _Runner] = {}
        self._peers: dict[str, Peer] = {}
        for service in services:
            self.deploy(service)

    def __exit__(self, *exc: object) -> None:
        """Stop every worker cleanly."""
        self.chance.active = False
        for runner in self._runners.values():
            runner.close()

    # -- who takes part -------------------------------------------------------------------------------------

    def deploy(self, service: Service[Any]) -> None:
        """Run a service; one of this name that runs already is stopped first, its log and state stay."""
        runner = self._runners.get(service.name)
        if runner is None:
            self.broker.create_service(service.name, self._partitions)
            self._runners[service.name] = _Runner(self, service)
        else:
            runner.replace(service)

    def peer(self, service: str, *, accepts: Sequence[Contract] = ()) -> Peer:
        """Return a scripted service of this name, made on first use."""
        peer = self._peers.get(service)
        if peer is None:
            known = {c.name: c for runner in self._runners.values() for c in runner.service.accepts.values()}
            peer = self._peers[service] = Peer(self, service, accepts, list(known.values()))
        else:
            peer.accept(accepts)
        return peer

    def worker(self, service: str) -> Worker:
        """Return the worker that runs a service now, for its counts.

        Raises:
            KeyError: no such service.
        """
        return self._runners[service].worker

    # -- time passes ------------------------------------------------------------------------------------------

    def run(self) -> int:
        """Let every worker do all there is to do now; return how much was done, 0 when nothing was left.

        Raises:
            AssertionError: it does not come to rest.
            BaseException: what a handler raised, unless ``raise_failures=False``.
        """
        self.chance.renew()
        done = 0
        for _ in range(ENDLESS):
            moved = self._round()
            self._raise_failure()
            if not moved and not self.broker.release():
                return done
            done += moved
        raise AssertionError(f"the services are still busy after {ENDLESS} rounds without time passing")

    def _round(self) -> int:
        runners = list(self._runners.values())
        if self.chance.active:
            self.chance.random.shuffle(runners)
        moved = 0
        for runner in runners:
            if self.chance.happens(self.chance.faults.crash / 4):
                runner.crash()
                moved += 1
            moved += runner.step()
            moved += runner.worker.busy() or runner.next_deadline() <= self.clock.now()
        return moved

    def advance(self, by: timedelta) -> int:
        """Let time pass, stopping at every deadline on the way; return how much was done.

        Raises:
            LocalError: ``by`` is negative.
        """
        until = self.clock.now() + micros(by, "advance")
        done = self.run()
        while (now := self.clock.now()) < until:
            runners = self._runners.values()
            soonest = min((runner.next_deadline() for runner in runners), default=NEVER)
            stride = now + STRIDE if any(runner.remembers() for runner in runners) else NEVER
            self.clock.advance(max(min(soonest, stride, until) - now, 0))
            done += self.run()
        return done

    def crash(self, service: str) -> None:
        """Kill a service's worker between two steps and start another: memory is lost, the log stays.

        Raises:
            KeyError: no such service.
        """
        self._runners[service].crash()

    def failed(self, failure: BaseException) -> None:
        """A handler raised; the run tells the test."""
        self._failures.append(failure)

    def _raise_failure(self) -> None:
        failures, self._failures = self._failures, []
        if failures and self._raise_failures:
            raise failures[0]

    # -- what came of it ----------------------------------------------------------------------------------------

    def dead_letters(self, service: str) -> list[DeadLetter]:
        """Return the dead letters of a service, oldest first in each partition.

        Raises:
            KeyError: no such service.
        """
        return reading.dead_letters(self.broker, self._runners[service].service.name)

    def open_dialogs(self) -> list[str]:
        """Return the ids of dialogs that are not over on both sides."""
        return sorted({
            invariants.name_of(identity[:16])
            for service in self._runners
            for identity, found in reading.endpoints(self.broker, service).items()
            if not isinstance(found, rows.Tombstone)
        })  # fmt: skip

    def check_invariants(self) -> None:
        """Check what must hold whenever the services are at rest.

        Raises:
            AssertionError: names the invariant, by its number in the design, and what breaks it.
        """
        sides = {name: runner.worker.owner.sides for name, runner in self._runners.items()}
        invariants.check(self.broker, sides)
