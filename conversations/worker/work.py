"""The work of a partition: which conversation groups have something to do, and which are being worked on.

Each group has a **lane**, which holds what is to be done in order. A lane with something to do is **ready** until a step gives it
a **run**, which works it off, one handler at a time. A step waits for the runs it started, but not for long: a lane whose run goes on
beyond its step is **slow**. What a slow or a ready lane holds when a step is closed is kept as rows.

    put --> ready --start--> running --the step is closed--> slow
              ^                 |                              |
              '-----------------'------------------------------'   left with something to do; a lane without anything rests

After an unclean start a **suspicion** stands between ready and running: a lane whose head is suspect waits until it is announced.
"""

from __future__ import annotations

from collections.abc import Iterator

from conversations.lanes import Mark, Run, Scheduler
from conversations.protocol.command import NO_CONVERSATION
from conversations.protocol.rows import identity
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
        """What commands about the partition wait at, in a lane of their own; it is no endpoint, and no group has an empty key."""
        self.lanes: dict[tuple[str, str], Lane] = {}
        self.ready: list[Lane] = []
        """Lanes with something to do and no run yet."""
        self._running: list[Run] = []
        """Runs started in this step."""
        self.slow: dict[Lane, Run] = {}
        """Lanes at work when the last step was committed."""
        self.suspicion: Suspicion | None = None
        """What may run, since an unclean start; None: anything."""

    # -- lanes --------------------------------------------------------------------------------------------

    def lane(self, origin: str, key: str) -> Lane:
        """Return the lane of a conversation group."""
        name = (origin, key)
        lane = self.lanes.get(name)
        if lane is None:
            lane = self.lanes[name] = Lane(name)
        return lane

    def forget(self, lane: Lane) -> bool:
        """Drop a lane from memory if it is idle; say whether it was."""
        if lane.items or lane.run is not None:
            return False
        self.lanes.pop(lane.name, None)
        return True

    def enqueue(self, lane: Lane, item: Item) -> None:
        """Put an item at the end of a lane."""
        if self.suspicion is not None:
            self.suspicion.unspilled.add(lane)
        if lane.put(item):
            self.ready.append(lane)

    def fall_due(self, active: Active, handler: bytes = b"") -> None:
        """Give an endpoint its turn: something of it is due."""
        item = Deadline(active, handler=handler)
        self.suspect(item)
        self.enqueue(active.lane, item)

    def follow(self, lane: Lane, item: Item) -> None:
        """Put an item at the end of a lane; a run that works on it goes on as long as there is something."""
        if lane.run is not None:
            lane.items.append(item)
        else:
            self.enqueue(lane, item)

    # -- runs ---------------------------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """Something is under way that the next step would carry on."""
        stirring = self.suspicion is not None and self.suspicion.stirring
        return bool(self.slow or self.ready or stirring)

    @property
    def runs(self) -> list[Run]:
        """What runs: from before this step, and started in it."""
        return [*self.slow.values(), *self._running]

    def take_ready(self) -> list[Lane]:
        """Take the lanes to be worked on now."""
        ready, self.ready = self.ready, []
        if self._number in self._breakdowns.careful:
            ready, self.ready = ready[:1], ready[1:]
        return ready if self.suspicion is None else self.suspicion.admit(ready)

    def start(self, runs: list[Run], mark: Mark) -> None:
        """Start the runs that were made for lanes of this step."""
        self._running += runs
        for run in runs:
            self._scheduler.start(run, mark)

    def abandon(self, run: Run) -> None:
        """Refuse all later results of a run: its handler cannot be stopped."""
        self._scheduler.abandon(run)

    def leave(self, lane: Lane) -> None:
        """The run of a lane is over: the next step goes on with the lane, or the lane rests."""
        if lane.end():
            self.go_on(lane)

    def go_on(self, lane: Lane) -> None:
        """The next step works on a lane whose run is over, and that has something left."""
        self.ready.append(lane)

    def resume(self, lane: Lane) -> None:
        """Go on with a lane whose run was given up on, unless it was put there meanwhile."""
        if lane.items and lane not in self.ready:
            self.ready.append(lane)

    def close_step(self) -> None:
        """Note which runs of this step go on: they are slow."""
        running, self._running = self._running, []
        for run in running:
            if run.lane.run is run:
                self.slow[run.lane] = run
        for lane in [lane for lane, run in self.slow.items() if lane.run is not run]:
            del self.slow[lane]
            if lane.run is not None:
                self.slow[lane] = lane.run

    def unfinished(self) -> Iterator[Lane]:
        """Lanes whose items are to be kept as rows before a step is committed."""
        yield from self.slow
        yield from self.ready
        if self.suspicion is not None:
            yield from (lane for lane in self.suspicion.take_unspilled() if lane.items)

    def stop(self) -> None:
        """Refuse whatever still runs."""
        self.trust()
        for run in self.runs:
            if not run.done:
                self._scheduler.abandon(run)

    # -- suspicion ----------------------------------------------------------------------------------------

    def suspect(self, item: Item) -> None:
        """Put an item from before an unclean start under suspicion."""
        if self.suspicion is not None:
            self.suspicion.mark(item)

    def doubt(self, suspicion: Suspicion) -> None:
        """The partition was opened after an unclean start."""
        self.suspicion = suspicion

    def trust(self) -> None:
        """Let anything run again."""
        if self.suspicion is not None:
            self._stage.leave(self.suspicion)
            self.suspicion = None
