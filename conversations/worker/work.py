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

from conversations.lanes import Run
from conversations.worker.active import Item, Lane
from conversations.worker.owner import Owner
from conversations.worker.suspicion import Suspicion


class Work:
    """The lanes of one partition, and their runs."""

    __slots__ = ("_number", "_owner", "_regrouped", "_running", "lanes", "large", "ready", "slow", "suspicion")

    def __init__(self, number: int, owner: Owner) -> None:
        self._number = number
        self._owner = owner
        self.lanes: dict[tuple[str, str], Lane] = {}
        self.ready: list[Lane] = []
        """Lanes with something to do and no run yet."""
        self._running: list[Run] = []
        """Runs started in this step."""
        self.slow: dict[Lane, Run] = {}
        """Lanes at work when the last step was committed."""
        self._regrouped: set[Lane] = set()
        """Lanes whose group's row is to be written."""
        self.large: set[Lane] = set()
        """Lanes whose group takes much memory."""
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

    def forget(self, lane: Lane) -> None:
        """Drop an idle lane from memory."""
        if not lane.items and lane.run is None:
            self.lanes.pop(lane.name, None)
            self.large.discard(lane)

    def enqueue(self, lane: Lane, item: Item) -> None:
        """Put an item at the end of a lane."""
        if self.suspicion is not None:
            self.suspicion.unspilled.add(lane)
        if lane.put(item):
            self.ready.append(lane)

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
        if self._number in self._owner.breakdowns.careful:
            ready, self.ready = ready[:1], ready[1:]
        return ready if self.suspicion is None else self.suspicion.admit(ready)

    def started(self, runs: list[Run]) -> None:
        """These runs were made for lanes of this step."""
        self._running += runs

    def leave(self, lane: Lane) -> None:
        """The run of a lane is over: the next step goes on with the lane, or the lane rests."""
        if lane.end():
            self.ready.append(lane)

    def resume(self, lane: Lane) -> None:
        """Go on with a lane whose run was given up on, unless it was put there meanwhile."""
        if lane.items and lane not in self.ready:
            self.ready.append(lane)

    def close_step(self) -> None:
        """Tell the runs that went on beyond their step from those that are over."""
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
                self._owner.scheduler.abandon(run)

    # -- suspicion ----------------------------------------------------------------------------------------

    def suspect(self, item: Item) -> Item:
        """Put an item from before an unclean start under suspicion; return it."""
        if self.suspicion is not None:
            self.suspicion.mark(item)
        return item

    def doubt(self, suspicion: Suspicion) -> None:
        """The partition was opened after an unclean start."""
        self.suspicion = suspicion

    def trust(self) -> None:
        """Let anything run again."""
        if self.suspicion is not None:
            self._owner.stage.leave(self.suspicion)
            self.suspicion = None

    # -- groups -------------------------------------------------------------------------------------------

    @property
    def regrouped(self) -> frozenset[Lane]:
        """Lanes whose group's row is to be written."""
        return frozenset(self._regrouped)

    @property
    def is_regrouped(self) -> bool:
        """The row of some group is to be written."""
        return bool(self._regrouped)

    def regroup(self, lane: Lane) -> None:
        """Write the row of a lane's group with the next transaction."""
        self._regrouped.add(lane)

    def ungroup(self, lane: Lane) -> None:
        """The group of a lane is over: it has no row any more."""
        lane.forget_group()
        self._regrouped.discard(lane)

    def take_regrouped(self) -> set[Lane]:
        """Take out the lanes whose group's row is to be written now."""
        regrouped, self._regrouped = self._regrouped, set()
        return regrouped

    def note_large(self, lane: Lane) -> None:
        """The group of a lane takes much memory."""
        self.large.add(lane)

    def forget_large(self) -> None:
        """Let go of large groups whose lanes have nothing to do: they are read again when they are needed."""
        for lane in [lane for lane in self.large if not lane.items and lane.run is None]:
            if lane not in self._regrouped:
                lane.forget_group()
                self.large.discard(lane)
