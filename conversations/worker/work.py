"""The work of a partition: its lanes that have something to do, and the runs that work on them.

Each conversation group has a **lane**, which has the items of the group in order. A lane with items is **ready** until a step gives it
a **run**. The run works on the items, one handler at a time. A step waits only a short time for the runs that it has started. A lane is
**slow** while its run continues after the end of its step. When a step is closed, the items of slow and ready lanes are kept as rows.

    put --> ready --start--> running --the step is closed--> slow
              ^                 |                              |
              '-----------------'------------------------------'   the run ends with items left; a lane without items is idle

After an unclean start a **suspicion** comes between ready and running: a lane whose head is suspect waits until the head is announced.
"""

from __future__ import annotations

from collections.abc import Iterator

from conversations.protocol.command import NO_CONVERSATION
from conversations.protocol.rows import identity
from conversations.scheduler import Mark, Run, Scheduler
from conversations.worker.active import Active, Deadline, Item, Lane
from conversations.worker.breakdowns import Breakdowns
from conversations.worker.stage import Stage
from conversations.worker.suspicion import Suspicion


class Work:
    """The lanes of one partition, and their runs."""

    __slots__ = (
        "_breakdowns",
        "_number",
        "_regrouped",
        "_running",
        "_scheduler",
        "_stage",
        "itself",
        "lanes",
        "large",
        "ready",
        "slow",
        "suspicion",
    )

    def __init__(self, number: int, breakdowns: Breakdowns, stage: Stage, scheduler: Scheduler) -> None:
        self._number = number
        self._breakdowns = breakdowns
        self._stage = stage
        self._scheduler = scheduler
        self.itself = Active(identity(NO_CONVERSATION, True), Lane(("", "")))
        """Takes the place of an endpoint in commands about the partition. Its lane has an empty key; no group has an empty key."""
        self.lanes: dict[tuple[str, str], Lane] = {}
        self.ready: list[Lane] = []
        """Lanes with something to do and no run yet."""
        self._running: list[Run] = []
        """Runs started in this step."""
        self.slow: dict[Lane, Run] = {}
        """Lanes whose run continues after the step that started it."""
        self.suspicion: Suspicion | None = None
        """Decides what may run after an unclean start; None: everything may run."""

    # -- lanes --------------------------------------------------------------------------------------------

    def lane(self, origin: str, key: str) -> Lane:
        """Return the lane of a conversation group."""
        name = (origin, key)
        lane = self.lanes.get(name)
        if lane is None:
            lane = self.lanes[name] = Lane(name)
        return lane

    def forget(self, lane: Lane) -> bool:
        """Drop a lane from memory if it is idle; return False if it is not idle."""
        if lane.has_items or lane.run is not None:
            return False
        if self.lanes.get(lane.name) is lane:  # else the group has another lane by now
            del self.lanes[lane.name]
        return True

    def enqueue(self, lane: Lane, item: Item) -> None:
        """Put an item at the end of a lane."""
        if self.suspicion is not None:
            self.suspicion.unspilled.add(lane)
        if lane.put(item):
            self.ready.append(lane)

    def fall_due(self, active: Active, handler: bytes = b"") -> None:
        """Put an item without a record into the lane of an endpoint. The endpoint's deadline has passed, or its dialog must be broken."""
        item = Deadline(active, handler=handler)
        self.suspect(item)
        self.enqueue(active.lane, item)

    def follow(self, lane: Lane, item: Item) -> None:
        """Put an item at the end of a lane; if a run works on the lane, the run comes to this item as well."""
        if lane.run is not None:
            lane.put(item)
        else:
            self.enqueue(lane, item)

    # -- runs ---------------------------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """True if some work is not finished. The next step continues it."""
        stirring = self.suspicion is not None and self.suspicion.stirring
        return bool(self.slow or self.ready or stirring)

    @property
    def runs(self) -> list[Run]:
        """All runs: the runs of earlier steps, and the runs that this step started."""
        return [*self.slow.values(), *self._running]

    def take_ready(self) -> list[Lane]:
        """Return the lanes to work on now; they are not ready any more."""
        ready, self.ready = self.ready, []
        if self._number in self._breakdowns.careful:
            ready, self.ready = ready[:1], ready[1:]
        return ready if self.suspicion is None else self.suspicion.admit(ready)

    def start(self, runs: list[Run], mark: Mark) -> None:
        """Start the runs that were made for lanes of this step."""
        self._running += runs
        self._scheduler.start(runs, mark)

    def abandon(self, run: Run) -> None:
        """Refuse all later results of a run, because its handler cannot be stopped."""
        self._scheduler.abandon(run)

    def leave(self, lane: Lane) -> None:
        """End the run of a lane. If the lane has items left, the next step continues with it."""
        if lane.end():
            self.go_on(lane)

    def go_on(self, lane: Lane) -> None:
        """Let the next step work on a lane that has items left after the end of its run."""
        self.ready.append(lane)

    def resume(self, lane: Lane) -> None:
        """Make a lane ready after its run was abandoned. If the lane has no items or is ready already, do nothing."""
        if lane.has_items and lane not in self.ready:
            self.ready.append(lane)

    def close_step(self) -> None:
        """Note which runs continue after this step: their lanes are slow."""
        running, self._running = self._running, []
        for run in running:
            if run.lane.run is run:
                self.slow[run.lane] = run
        for lane in [lane for lane, run in self.slow.items() if lane.run is not run]:
            del self.slow[lane]
            if lane.run is not None:
                self.slow[lane] = lane.run

    def unfinished(self) -> Iterator[Lane]:
        """Yield the lanes whose items must be kept as rows before the step is committed."""
        yield from self.slow
        yield from self.ready
        if self.suspicion is not None:
            for lane in self.suspicion.take_unspilled():
                if lane.has_items:
                    yield lane

    def stop(self) -> None:
        """End the suspicion, and refuse the results of handlers that still run."""
        self.trust()
        for run in self.runs:
            if not run.done:
                self._scheduler.abandon(run)

    # -- suspicion ----------------------------------------------------------------------------------------

    def suspect(self, item: Item) -> None:
        """Mark an item as suspect, if the partition is under suspicion."""
        if self.suspicion is not None:
            self.suspicion.mark(item)

    def doubt(self, suspicion: Suspicion) -> None:
        """Begin the suspicion: the partition was opened after an unclean start."""
        self.suspicion = suspicion

    def trust(self) -> None:
        """End the suspicion: everything may run again."""
        if self.suspicion is not None:
            self._stage.leave(self.suspicion)
            self.suspicion = None
