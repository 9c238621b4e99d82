"""The next step of a worker: its records are routed, and its runs are started. Under load it begins while the last step is being committed.

    records are read --> backlog --begin: route, wake, start--> runs --> the step waits for them, and commits
                                     ^
                                     '-- work_ahead: while the records of the step before are on their way to the log

**Working ahead.** A commit takes as long as a third of the work before it, and only waits meanwhile. So while records come faster than the
steps take them, or parked records wait for the next step, that step begins as soon as the records of this one are on their way (``ports.Connection.commit``). Its handlers run
while the worker waits for the log. The outbox keeps the two steps apart, as it does for handlers that run longer than their step. Six rules:

* Nothing begins ahead in a commit that opens or closes partitions, while a record is suspect or searched for, or when the worker stops.
* Nothing begins ahead while envelopes are delayed. If their topic refused them again, those of two steps would change places.
* Nothing begins ahead for a few records: a request waits for its own commit only, and not for the work of others.
* Nothing begins ahead of a transaction with many bytes, so that two of them never fill the memory.
* The connection is in the middle of a commit. So the routing polls nothing and commits nothing, and damaged rows that it finds are reported
  after the commit.
* A step that is begun and not committed is unfinished work (``is_begun``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from conversations.errors import StateDamaged
from conversations.ports import Record
from conversations.scheduler import Mark
from conversations.worker import departure, probes, returns, routing, transmission, undelivered
from conversations.worker.assignment import Assignment
from conversations.worker.context import Context
from conversations.worker.partition import Partition
from conversations.worker.receipts import Receipts


class NextStep:
    """Begins the steps of one worker. ``start`` starts a run for each lane of a partition that has items, and counts it in a mark."""

    __slots__ = ("_assignment", "_context", "_damaged", "_is_full", "_mark", "_receipts", "_start")

    def __init__(
        self, context: Context, assignment: Assignment, receipts: Receipts, start: Callable[[Partition, Mark], None]
    ) -> None:
        self._context, self._assignment, self._receipts, self._start = context, assignment, receipts, start
        self._is_full = False
        self._mark: Mark | None = None
        self._damaged: list[StateDamaged] = []

    @property
    def is_begun(self) -> bool:
        """True if the step was begun ahead, and is not committed."""
        return self._mark is not None

    @property
    def is_due(self) -> bool:
        """True if the last poll returned as many records as a step takes. Then more are there, and are read for working ahead."""
        return self._is_full

    def read(self, count: int) -> None:
        """Note the number of records that a poll returned."""
        self._is_full = count >= self._context.settings.batch

    def take(self) -> Mark | None:
        """Return the mark that counts the runs of the step, if it was begun ahead. Then the step after it is the next one."""
        mark, self._mark = self._mark, None
        if mark is not None:
            self._context.budget.go_on()
        return mark

    def take_damaged(self) -> list[StateDamaged]:
        """Return the damages that were found when the step was begun ahead. Nothing of their partitions may be committed any more."""
        damaged, self._damaged = self._damaged, []
        return damaged

    def forget(self) -> None:
        """Forget the step that was begun ahead, because everything in memory is forgotten."""
        self._mark, self._is_full, self._damaged = None, False, []

    def work_ahead(self) -> None:
        """Begin the step while the records of the last one are on their way to the log, if there is much to do, and nothing is suspect."""
        if self._mark is None and self._has_much() and self._may_begin():
            try:
                self._mark = self.begin(self._damaged.append, may_hold=False)
            except Exception as error:  # noqa: BLE001 - it must not be taken for a failure of the commit, and is raised after it
                self._context.breakdowns.fail(error)

    def _has_much(self) -> bool:
        """Return True if records come faster than the steps take them, or if parked records wait for the next step."""
        is_draining = any(partition.parking.is_draining for partition in self._assignment.partitions.values())
        return is_draining or (self._is_full and bool(self._assignment.backlog))

    def _may_begin(self) -> bool:
        """Return True if no rule of this module is against it."""
        context, partitions = self._context, self._assignment.partitions.values()
        is_quiet = context.breakdowns.is_quiet and not self._assignment.restoring and not self._receipts.until
        is_delayed = bool(context.destinations.blocked) or any(it.waiting.delayed.of for it in partitions)
        return is_quiet and self._is_trusted() and not is_delayed and context.budget.has_room_ahead

    def _is_trusted(self) -> bool:
        """Return True if no record of the worker is suspect."""
        return all(it.work.suspicion is None for it in self._assignment.partitions.values())

    def begin(self, damaged: Callable[[StateDamaged], None], *, may_hold: bool = True) -> Mark:
        """Route the records of the backlog, and start the runs. Return the mark that counts the runs.

        Everything in a step has the same time, and the step's budget limits how much is routed. ``damaged`` is called if the rows of a partition
        are damaged. Receipts wait for other work only if they ``may_hold``.
        """
        records: Sequence[Record] = self._assignment.take_backlog()
        # A suspect record is announced, and then taken at once: while it waited, the worker would look for it in step after step.
        if may_hold and self._receipts.wait(records if self._is_trusted() else ()):
            self._put_back(records)
            records = ()
        with self._context.lock:
            self._context.begin_step()
            partitions = self._assignment.partitions
            if self._context.budget.begin() and any(partition.work.ready for partition in partitions.values()):
                self._put_back(records)  # items that the last step routed and did not handle go first
            else:
                self._put_back(routing.route(self._context, partitions, records, damaged))
                self._wake()
            mark = Mark()
            for partition in partitions.values():
                self._start(partition, mark)
            return mark

    def _put_back(self, records: Sequence[Record]) -> None:
        """Put the records that this step has not routed into the backlog. The step after it gets them from there.

        Records of gone partitions are dropped, because the new owners of these partitions read them.
        """
        self._assignment.put_back(records)
        routing.leave(self._assignment.partitions, records)

    def _wake(self) -> None:
        """Handle everything whose time has come: blocked destinations, brakes, deadlines, parked messages and paused queues.

        Blocked destinations are tried again before the handlers of this step run. So delayed envelopes are transmitted before the envelopes
        of these handlers.
        """
        context, partitions = self._context, self._assignment.partitions
        context.destinations.try_again(context.now)
        probes.wake(context.brakes, partitions.values(), context.now)
        for partition in partitions.values():
            partition.wake()
            if partition.transmission.refused:
                undelivered.wake(partition)
            if partition.transmission.returning:
                returns.go_on(partition)
            if partition.input.paused:
                departure.pace(partition)
        transmission.release_all([partition.transmission for partition in partitions.values()])
