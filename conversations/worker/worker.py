"""The worker runs in steps. Each step is one Kafka transaction.

**Threads.** Only the polling thread talks to Kafka, opens partitions and closes steps. Handlers run on other threads (``Threads``).
Their requests are carried out under ``context.lock``, between two handlers of a lane. Any thread may use ``stop``, ``ready`` and
``counts``.

**A step** is the method ``step``; read it from top to bottom. Two of its rules are easy to break:

* Every record that a step routes is in the step's transaction, as a result or as a row. Records that the step does not route stay in the
  backlog, and the positions do not move past them.
* Each call of ``poll`` may change the partitions, because Kafka assigns partitions and takes them away in the middle of the call. So a list
  of partitions or of records is out of date after a call of ``poll``. A new list must be taken from ``assignment``.

**The next step** may begin while the records of this one are on their way to the log (``next_step``).

**A commit** ends in one of five ways:

==================  ===================================================================================================
success             the rows go into the local copies, and notices are called (``departure.landed``)
``Fenced``          another worker owns some of the partitions now: poll to learn which partitions, and commit the rest again
DestinationFailed   a topic refuses records: they are taken out, and become rows; commit again (``refusals``). A partition whose handler
                    published a refused record is built anew
``Interrupted``     the transaction was aborted, and has no effect: commit again
``InDoubt``         it is unknown if the commit took effect: forget everything, and join again over a new connection
==================  ===================================================================================================

A repeated commit has the same flights, so no handler is called again.

**Failures** differ in what they concern. An exception of a handler concerns its message (``failures``). An exception of our own code around
a handler concerns the partition, which is built anew from its committed rows (``quarantine``). Damaged rows concern their partition, which
is set aside. A failure of Kafka concerns the worker: it joins again, or it ends and its process is replaced.

**Giving back.** When Kafka takes partitions away, it waits until ``revoked`` returns. Handlers get the time ``settings.revocation`` to
finish, and their results are committed. The partition's row is marked clean, so that its next owner has no suspects. A handler that still
runs is left behind. Its message is a row, and the next owner calls its handler again. When ``lost`` is called, it is too late to commit.
So the partitions are only forgotten.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from conversations.config import WorkerSettings
from conversations.errors import (
    DestinationFailed,
    Fenced,
    InDoubt,
    InputLost,
    Interrupted,
    KafkaNotReady,
    KafkaUnreachable,
    LogError,
    StateDamaged,
)
from conversations.memory.clock import SystemClock
from conversations.ports import Clock, Connection, Record, Stores, Unanswered, nothing
from conversations.protocol.endpoint import NEVER
from conversations.protocol.topics import DEFAULT_NAMESPACE
from conversations.randomness import Randomness
from conversations.scheduler import Scheduler, Threads
from conversations.service import Service
from conversations.worker import (
    closing,
    departure,
    dispatch,
    presence,
    refusals,
    rollbacks,
    routing,
)  # fmt: skip
from conversations.worker.assignment import Assignment
from conversations.worker.condition import Conditions
from conversations.worker.context import Context
from conversations.worker.counts import Counts
from conversations.worker.membership import Membership, Phase
from conversations.worker.next_step import NextStep
from conversations.worker.partition import Partition
from conversations.worker.readiness import Readiness
from conversations.worker.receipts import Receipts

log = logging.getLogger("conversations.worker")

IDLE = 0.1
"""Maximum wait of a poll, in seconds, if nothing is under way. A deadline may end the wait earlier."""
BUSY = 0.005
"""Maximum wait of a poll, in seconds, while slow handlers run, because their results should not wait long."""
COMMIT_TRIES = 100
"""Number of consecutive aborted transactions after which the worker joins again."""
LEAVING = 10.0
"""A stopping worker tries to commit for this many seconds after the time that its handlers get."""
FENCES_AT_ONCE = 3
"""Number of consecutive fenced commits that are repeated without a wait."""
FENCED_PAUSE = 0.1
"""Maximum wait, in seconds, of a poll after a fenced commit, if more than ``FENCES_AT_ONCE`` consecutive commits were fenced.

The worker learns in these polls which partitions were lost. This may take several polls, because the members of the group join again.
"""


class Worker:
    """Owns partitions of one service's queue and handles what arrives in them.

    Several workers of one service share its partitions, in one process or in many. Kafka's consumer group assigns the partitions. A worker
    that stops gives its partitions back. A worker that dies loses its partitions. In both cases the next owner finds everything in rows.

    Args:
        service: the service to run; its declarations are checked at once.
        connect: makes a connection to the service's topics; called again whenever the worker must join again.
        stores: opens the local copies of the state.
        settings: batch size, patience, limits.

    Raises:
        DeclarationError: the service has no handler for something that it may receive.
    """

    def __init__(
        self,
        service: Service[Any],
        connect: Callable[[], Connection],
        stores: Stores,
        *,
        settings: WorkerSettings | None = None,
        clock: Clock | None = None,
        scheduler: Scheduler | None = None,
        namespace: str = DEFAULT_NAMESPACE,
        random: Any = None,
    ) -> None:
        sides = service.check()
        settings = settings or WorkerSettings()
        self._connect = connect
        self.context = Context(
            service, sides, connect(), clock or SystemClock(),
            settings=settings, namespace=namespace, random=random or Randomness(),
        )  # fmt: skip
        self.scheduler = scheduler or Threads(settings.concurrency, service.name)
        self.assignment = Assignment(self.context, stores, self.scheduler)
        self._phase, self._membership = Phase.STEPPING, Membership()
        self.stopping, self._stop_by = threading.Event(), float("inf")
        self.readiness = Readiness(settings.periods.unreachable_after)
        self._conditions = Conditions(self.context, self.assignment, self.readiness)
        self.receipts = Receipts(self.context)
        self._next = NextStep(self.context, self.assignment, self.receipts, dispatch.start_ready)

    @property
    def settings(self) -> WorkerSettings:
        """Batch size, patience, limits."""
        return self.context.settings

    @property
    def ready(self) -> threading.Event:
        """Set while at least one partition is open, none is being restored, and Kafka answers."""
        return self.readiness.ready

    @property
    def partitions(self) -> dict[int, Partition]:
        """The partitions that are open, by number."""
        return self.assignment.partitions

    @property
    def counts(self) -> Counts:
        """Counts since the start."""
        return self.context.counts

    @property
    def joined(self) -> bool:
        """True while the worker is a member of its service's group."""
        return self._membership.joined

    def condition(self) -> dict[str, Any]:
        """Return the condition of the worker, as plain data for the health page. Any thread may call this method."""
        return {"joined": self.joined, "stopping": self.stopping.is_set(), **self._conditions.now()}

    # -- running ----------------------------------------------------------------------------------------

    def run(self) -> None:
        """Work until ``stop``; then let handlers finish, commit, and give the partitions back.

        Raises:
            LogError: Kafka failed for good.
            DeclarationError: the code does not fit the open dialogs.
        """
        try:
            while not self.stopping.is_set():
                self.step(IDLE)
        except BaseException:
            self._phase = Phase.FAILED
            raise
        finally:
            self.close()

    def stop(self) -> None:
        """Ask ``run`` to end. Any thread, and any signal handler, may call this method.

        The current step is finished. Handlers get the time ``settings.revocation``.
        The last commit is tried for at most ``LEAVING`` seconds.
        """
        self._stop_by = min(self._stop_by, time.monotonic() + self.settings.revocation.total_seconds() + LEAVING)
        self.stopping.set()

    def close(self) -> None:
        """Give the partitions back cleanly. A repeated call does nothing."""
        self.context.connection.close()
        self.scheduler.close()

    def step(self, timeout: float = 0.0) -> int:
        """Do one step: read, handle, commit. Return the number of records that were read.

        Raises:
            LogError: Kafka failed for good.
        """
        if not self.joined and not self._join():
            return 0
        read = 0
        try:
            read = self._read(timeout)
            mark = self._next.take()
            if mark is None:
                mark = self._next.begin(self._set_damaged_aside)
                if self._next.is_due:
                    read += self._read(0.0)  # for the next step, while the handlers of this one run
            routing.leave(self.partitions, self.assignment.backlog)  # this step may be closed before they are routed
            # Run: quick handlers have finished when the wait is over. Slow handlers continue during the next steps.
            self.scheduler.wait(mark, self.settings.patience.total_seconds())
            self._check_time_limits()
            presence.tell_answers(self.context)
            # Close, commit, land.
            self._commit(meanwhile=nothing if self.stopping.is_set() else self._next.work_ahead)
            self._set_found_aside()
            presence.tell_answers(self.context)  # of lanes that went on until the step was closed
            self._build_anew()
        except InDoubt as doubt:
            self._rejoin(doubt)
            return 0
        except StateDamaged as damage:
            self._set_damaged_aside(damage)
            self._set_found_aside()
        if self.scheduler.exhausted:  # after the commit, because the next process must know the failed attempts
            raise LogError("too many handlers are past their time limit and cannot be stopped: replace the worker")
        return 0 if self.receipts.until else read

    def _join(self) -> bool:
        """Join the group; return False if Kafka cannot be reached now. Then the next step tries again.

        Before the first join, an unreachable Kafka is an error, because the address may be wrong. After the first join, it is an outage,
        and the worker waits for the end of the outage. The worker also waits while Kafka answers that it is not ready.
        """
        self.context.begin_step()
        began = time.monotonic()
        try:
            self.context.connection.join(self)
            refusals.look_at_topics(self.context, is_first=not self._membership.was_joined)
        except KafkaUnreachable as error:
            if not self._membership.was_joined and not isinstance(error, KafkaNotReady):
                raise
            self.readiness.hear(Unanswered(began, f"joining its group: {error}"))
            self.readiness.look(works=False)
            seconds = self._membership.fail()
            log.warning("joining again in %.1f s: %s", seconds, error)
            self._leave()
            self.stopping.wait(seconds)
            return False
        self._membership.enter()
        self.readiness.hear(None)
        return True

    def busy(self) -> bool:
        """Return True if some work is not finished. The next step continues it."""
        unrouted = self.assignment.restoring or (self.assignment.backlog and not self.receipts.until)
        begun = bool(unrouted) or self._next.is_begun
        return begun or any(partition.is_busy() for partition in self.partitions.values())

    # -- reading ----------------------------------------------------------------------------------------

    def _read(self, timeout: float) -> int:
        """Poll, and continue the restores; return the number of records that were read.

        Records stay in the backlog until they are routed, because each call of poll may lose partitions, and the restores may commit.
        """
        records = self._poll(timeout)
        self.assignment.keep(records)
        self._advance_restores()
        return len(records)

    def _poll(self, timeout: float) -> Sequence[Record]:
        """Read records; if there are none, wait until something else must be done.

        The wait ends with the next deadline of any partition. While handlers run, the wait is short, because their results should not wait.
        """
        limit = self.settings.batch
        if self.assignment.backlog and not self.receipts.until:
            timeout, limit = 0.0, 1  # only to stay in the group: Kafka removes members that do not poll
        elif self._next.is_begun:
            timeout = 0.0
        elif self.busy():
            timeout = min(timeout, BUSY)
        soonest = min((p.next_deadline() for p in self.partitions.values()), default=NEVER)
        left = min(soonest, self.receipts.until or NEVER) - self.context.clock.now()
        timeout = max(0.0, min(timeout, left / 1_000_000))
        try:
            read = self.context.hear(self.context.connection.poll(timeout, limit, self.settings.limits.step_bytes))
            self._next.read(len(read))
            self.assignment.keep(read)  # after the poll, because the poll may remove records from the backlog
        except InputLost as error:
            self._set_partition_aside(error.partition, error.why)
        self.readiness.hear(self.context.connection.unanswered())
        return self.assignment.take_backlog()

    def _check_time_limits(self) -> None:
        """Give up on handlers that are past their time limit. Until such a handler returns, another thread replaces its thread."""
        for partition in self.partitions.values():
            if partition.work.slow:
                dispatch.check_time_limits(partition)
        self.scheduler.look()

    # -- committing -------------------------------------------------------------------------------------

    def _commit(self, partitions: Sequence[Partition] | None = None, meanwhile: Callable[[], None] = nothing) -> None:
        """Close the step of these partitions (by default of all), and commit their flights in one transaction.

        ``meanwhile`` is called while the records are on their way to the log.

        Endpoints leave memory only after the commit. Before their rows are committed and landed, the endpoints are only in memory.
        """
        chosen = [p for p in (partitions or self.partitions.values()) if not p.gone]
        with self.context.lock:
            self._raise_failure()  # if a lane stopped halfway, nothing of the step is committed
            flying = [partition for partition in chosen if closing.collect(partition)]
            if partitions is None:
                self.context.budget.collected()
        if flying:
            self._commit_flying(flying, meanwhile)
        self.assignment.make_room(chosen, flying)
        self._raise_failure()

    def _raise_failure(self) -> None:
        """If there is a failure that no record is to blame for, raise it. Then the worker ends, or sets a damaged partition aside."""
        if self.context.breakdowns.failure is not None:
            if (partition := self.partitions.get(self.context.breakdowns.failed_in)) is not None:
                rollbacks.count(partition, self.context.breakdowns.failure)
            raise self.context.breakdowns.failure

    def _commit_flying(self, flying: list[Partition], meanwhile: Callable[[], None]) -> None:
        """Commit the flights that have departed, land them, and call their notices without the lock.

        Handlers continue during the commit, and their requests fill the next flights. A notice may call the application, and the
        application may wait for a handler, whose run needs the lock. So notices are called without the lock.
        """
        before = self._phase
        if before is Phase.STEPPING:
            self._phase = Phase.COMMITTING
        self.readiness.begin("committing a step")
        try:
            flying, checkpoints = self._commit_until_done(flying, meanwhile)
        finally:
            self._phase = before
            self.readiness.end()
        self.context.counts.count_commit()
        with self.context.lock:
            notices = [notice for p in flying for notice in departure.landed(p, checkpoints.get(p.number))]
            for partition in flying:
                departure.pace(partition)
        for notice in notices:
            notice()

    def _build_anew(self) -> None:
        """Restore the partitions in which our own code failed, from their committed rows. Nothing of the failed step was committed.

        ``context.breakdowns`` remembers the record that is to blame. When this record comes again, it is given up on (``quarantine``).
        """
        for number in filter(self.partitions.__contains__, self.context.breakdowns.take_broken()):
            self.assignment.build_anew(number)
            self.readiness.look(works=False)

    def _commit_until_done(
        self, flying: list[Partition], meanwhile: Callable[[], None]
    ) -> tuple[list[Partition], dict[int, int]]:
        """Repeat the commit until it succeeds; return the partitions that were committed, and the checkpoints of their local copies."""
        fences = interrupted = 0
        for _ in range(2 * COMMIT_TRIES):
            flying = [p for p in flying if not p.gone]
            if not flying:
                return [], {}
            # Collected anew for each try, because records may have been taken out of a flight, and a partition may be gone.
            flights = {p.number: p.outbox.flying for p in flying if p.outbox.flying is not None}
            outs = [out for flight in flights.values() for out in flight.outs]
            offsets = {number: flight.queue for number, flight in flights.items()}
            try:
                return flying, self.context.commit(outs, offsets, meanwhile)
            except Fenced:
                if self._phase is Phase.GIVING_BACK:
                    raise  # the partitions are lost already
                self.context.counts.count_fenced()
                fences += 1
                read = self.context.connection.poll(FENCED_PAUSE if fences > FENCES_AT_ONCE else 0, 1)
                self.assignment.keep(read)  # after the poll, because the poll may remove records from the backlog
            except DestinationFailed as error:
                self.assignment.leave_out(*refusals.take_out(self.context, list(self.partitions.values()), outs, error))
            except Interrupted as abort:
                interrupted += 1
                if interrupted >= COMMIT_TRIES or time.monotonic() > self._stop_by:
                    raise InDoubt(f"the commit was given up after {interrupted} tries: {abort}") from abort
                log.warning("transaction aborted, trying again: %s", abort)
                self.readiness.look(works=self.ready.is_set())
        raise LogError(f"a step could not be committed in {2 * COMMIT_TRIES} tries")

    # -- ownership (ports.Listener) ---------------------------------------------------------------------

    def assigned(self, partitions: Sequence[int]) -> None:
        """Begin to restore partitions. Their records are read after their state is restored."""
        self.assignment.restore(partitions)
        self.readiness.look(works=False)

    def revoked(self, partitions: Sequence[int]) -> None:
        """Give partitions back: wait for running handlers, commit their results, and mark the partitions' rows as clean.

        A message whose handler has not finished is kept as a row.
        """
        owned = self.assignment.owned(partitions)
        if self._phase is Phase.STEPPING and self.context.breakdowns.failure is None:
            deadline = time.monotonic() + self.settings.revocation.total_seconds()
            for partition in owned:
                dispatch.drain(partition, deadline)
                with self.context.lock:
                    partition.progress.give_back()
            self._phase = Phase.GIVING_BACK
            try:
                self._commit(owned)
            except LogError as error:
                log.warning("partitions %s are given back without a last commit: %s", list(partitions), error)
            finally:
                self._phase = Phase.STEPPING
        self.lost(partitions)

    def lost(self, partitions: Sequence[int]) -> None:
        """Forget partitions that belong to another worker. Their work is not committed, and later results of their handlers are refused."""
        with self.context.lock:
            self.context.breakdowns.forget(list(partitions))
        self.assignment.forget(partitions)

    def _advance_restores(self) -> None:
        """Continue to restore. If partitions were opened, commit their rows at once.

        This commit marks the partitions as not given back, before the first of their records is decoded.
        """
        opened = self.assignment.advance()
        if opened:
            # Commit before any handler runs. Then the next start counts as unclean if a handler kills the process.
            self._commit(opened)
        self.readiness.look(works=self.assignment.is_complete)

    def _set_partition_aside(self, number: int, why: str) -> None:
        """Set aside a partition that a human must look at: commit its finished work, and stop it. The other partitions continue.

        The partition's input is wrong, not its rows: the topic was re-created, or records were deleted before they were read.
        """
        self.context.connection.drop(number)
        if (partition := self.partitions.get(number)) is not None:
            self._commit([partition])
            if not partition.gone:  # else it is built anew, and its input is found lost again
                self.assignment.set_aside(partition, why)

    def _set_found_aside(self) -> None:
        """Stop the partitions whose damaged rows were found while the next step was begun."""
        for damage in self._next.take_damaged():
            self._set_damaged_aside(damage)

    def _set_damaged_aside(self, error: StateDamaged) -> None:
        """Stop a partition with damaged rows in the middle of a step. If only its local copy is damaged, build it anew; else set it aside.

        The step's work on this partition is only in memory, and is thrown away. The next step commits the work on the other partitions.
        """
        with self.context.lock:
            if self.context.breakdowns.failure is error:
                self.context.breakdowns.forgive()
        if not self.assignment.has(error.partition):
            return  # it was lost meanwhile, and its next owner finds the damage
        self.context.connection.drop(error.partition)
        if error.of_a_copy:
            self.assignment.build_anew(error.partition)
            self.readiness.look(works=False)
        elif error.partition in self.partitions:
            self.assignment.set_aside(self.partitions[error.partition], error.why)

    def _rejoin(self, error: InDoubt) -> None:
        """Forget everything, and begin again from the topics, because the outcome of a commit is not known.

        The restore waits until the old transaction is committed or aborted. It asks for the group's offset until this offset is stable.
        """
        log.warning("rejoining: %s", error)
        self._next.forget()
        self.lost(self.assignment.forget_all())
        self._leave()

    def _leave(self) -> None:
        """Close the connection, and make a new one; the next step joins over it.

        An error while the old connection is closed is only logged: this connection is not used any more.
        """
        self._membership.leave()
        try:
            self.context.connection.close()
        except LogError as failure:
            log.warning("closing the old connection failed: %s", failure)
        self.context.reconnect(self._connect())
