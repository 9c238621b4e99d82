"""Carries the faults of a plan out, each at its time, and mends what is left at the end."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random
from time import monotonic

from tests.chaos.cluster import copies
from tests.chaos.cluster.faults import Fault, What
from tests.chaos.cluster.nodes import Nodes
from tests.chaos.cluster.proxy import Proxy, Trouble
from tests.chaos.processes import Fleet, Process

PATIENCE = 8.0
"""Seconds after which a worker that was told to stop is killed: it may be frozen, or cut off."""


@dataclass(frozen=True)
class Pending:
    """What is to be done to a worker once it is down."""

    worker: Process
    deadline: float
    what: Callable[[], None]


class Harm:
    """Does what a plan says.

    Args:
        faults: by time.
        directory: where old copies are kept meanwhile.
        say: hears of everything that is done.
    """

    def __init__(
        self,
        faults: Sequence[Fault],
        nodes: Nodes,
        proxy: Proxy,
        fleet: Fleet,
        directory: Path,
        say: Callable[[str], None],
    ) -> None:
        self._nodes, self._proxy, self._fleet, self._directory, self._say = nodes, proxy, fleet, directory, say
        self._workers = {process.name: process for process in fleet.processes}
        self._pool = ThreadPoolExecutor(1, "stopping")
        self._stopping: list[Future[None]] = []
        self._troubles: dict[int, Trouble] = {}
        self._pending: list[Pending] = []
        self.counts: Counter[str] = Counter()
        self._due: list[tuple[float, int, bool, Fault]] = []
        self._started: float | None = None
        numbers = count()
        for fault in faults:
            heapq.heappush(self._due, (fault.at, next(numbers), True, fault))
            if fault.lasts:
                heapq.heappush(self._due, (fault.over, next(numbers), False, fault))

    def start(self) -> None:
        """Begin to count."""
        self._started = monotonic()

    @property
    def elapsed(self) -> float:
        """Seconds since the start; 0 before."""
        return 0.0 if self._started is None else monotonic() - self._started

    @property
    def left(self) -> int:
        """What is still to come."""
        return len(self._due) + len(self._pending)

    def tick(self) -> None:
        """Do what is due."""
        for future in [future for future in self._stopping if future.done()]:
            self._stopping.remove(future)
            future.result()
        self._do_to_those_that_are_down()
        while self._due and self._due[0][0] <= self.elapsed:
            _, _, begins, fault = heapq.heappop(self._due)
            self._say(f"{self.elapsed:6.1f} s  {'begins' if begins else 'ends'}: {fault}")
            if begins:
                self.counts[fault.what.value] += 1
            _STEPS[fault.what][not begins](self, fault)

    def mend(self) -> None:
        """End everything that has begun; start all nodes."""
        for future in self._stopping:
            future.result()
        self._pool.shutdown()
        for trouble in self._troubles.values():
            self._proxy.end(trouble)
        for process in self._fleet.processes:
            self._fleet.thaw(process)
        for node in self._nodes.names:
            self._nodes.thaw(node)
            self._nodes.start(node)

    # -- brokers ------------------------------------------------------------------------------------------------

    def _kill(self, fault: Fault) -> None:
        for node in fault.targets:
            self._nodes.kill(node)

    def _stop(self, fault: Fault) -> None:
        for node in fault.targets:
            self._stopping.append(self._pool.submit(self._nodes.stop, node))

    def _freeze(self, fault: Fault) -> None:
        for node in fault.targets:
            self._nodes.freeze(node)

    def _thaw(self, fault: Fault) -> None:
        for node in fault.targets:
            self._nodes.thaw(node)

    def _start(self, fault: Fault) -> None:
        for future in self._stopping:
            future.result()
        self._stopping.clear()
        for node in fault.targets:
            self._nodes.start(node)

    # -- the network --------------------------------------------------------------------------------------------

    def _trouble(self, fault: Fault) -> None:
        trouble = self._troubles[id(fault)] = fault.trouble()
        self._proxy.begin(trouble)

    def _end_trouble(self, fault: Fault) -> None:
        self._proxy.end(self._troubles.pop(id(fault)))

    # -- workers ------------------------------------------------------------------------------------------------

    def _worker(self, fault: Fault) -> Process:
        return self._workers[fault.targets[0]]

    def _kill_worker(self, fault: Fault) -> None:
        self._fleet.kill_one(self._worker(fault))

    def _freeze_worker(self, fault: Fault) -> None:
        self._fleet.freeze_one(self._worker(fault))

    def _thaw_worker(self, fault: Fault) -> None:
        self._fleet.thaw(self._worker(fault))

    def _damage_copy(self, fault: Fault) -> None:
        worker = self._worker(fault)

        def damage() -> None:
            self.counts["copies damaged"] += copies.damage(worker.copy, Random(fault.amount))

        self._once_stopped(worker, damage)

    def _keep_copy(self, fault: Fault) -> None:
        worker = self._worker(fault)
        self._once_stopped(worker, lambda: copies.keep(worker.copy, self._old(fault)))

    def _put_copy_back(self, fault: Fault) -> None:
        worker = self._worker(fault)

        def put_back() -> None:
            self.counts["copies set back"] += copies.put_back(self._old(fault), worker.copy)

        self._once_stopped(worker, put_back)

    def _old(self, fault: Fault) -> Path:
        return self._directory / f"old-{fault.at:.3f}"

    def _set_clock(self, fault: Fault) -> None:
        worker = self._worker(fault)
        worker.clock = fault.amount  # from its next start on
        self._fleet.kill_one(worker)

    def _once_stopped(self, worker: Process, what: Callable[[], None]) -> None:
        """Do something to a worker that is down; in order, as only then its copies are whole in their files."""
        worker.held = True
        if worker.running:
            worker.stop()
        self._pending.append(Pending(worker, monotonic() + PATIENCE, what))

    def _do_to_those_that_are_down(self) -> None:
        for pending in list(self._pending):
            if not pending.worker.running:
                pending.what()
                self._pending.remove(pending)
                pending.worker.held = any(other.worker is pending.worker for other in self._pending)
            elif monotonic() > pending.deadline:
                self._fleet.kill_one(pending.worker)

    def _nothing(self, fault: Fault) -> None:
        """It has no end."""


_STEPS: dict[What, tuple[Callable[[Harm, Fault], None], Callable[[Harm, Fault], None]]] = {
    What.KILL_BROKER: (Harm._kill, Harm._start),
    What.STOP_BROKER: (Harm._stop, Harm._start),
    What.FREEZE_BROKER: (Harm._freeze, Harm._thaw),
    What.CUT: (Harm._trouble, Harm._end_trouble),
    What.LOSE: (Harm._trouble, Harm._end_trouble),
    What.LOSE_AND_RESET: (Harm._trouble, Harm._end_trouble),
    What.SLOW: (Harm._trouble, Harm._end_trouble),
    What.KILL_WORKER: (Harm._kill_worker, Harm._nothing),
    What.FREEZE_WORKER: (Harm._freeze_worker, Harm._thaw_worker),
    What.DAMAGE_COPY: (Harm._damage_copy, Harm._nothing),
    What.SET_COPY_BACK: (Harm._keep_copy, Harm._put_copy_back),
    What.SET_CLOCK: (Harm._set_clock, Harm._nothing),
}
"""What begins a fault, and what ends it."""
