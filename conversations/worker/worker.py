"""The worker: it lives in steps, and each step is one Kafka transaction.

**Threads.** One thread polls: it alone talks to Kafka, opens partitions and closes steps. Handlers run on other threads (``Threads``). What they
asked for is carried out under ``context.lock``, between two handlers of a lane. ``stop``, ``ready`` and ``counts`` are for any thread.

**A step** is told in ``step``, top down. It has two rules that are easy to break:

* Whatever a step read is in the transaction, as a result or as a row. Records that it did not take on stay in the backlog, and the
  positions stay before them.
* Polling may change everything. Kafka tells a worker in the middle of ``poll`` that partitions went. So no list of partitions, and no
  list of records, survives a call of ``poll``: it is taken anew from ``assignment``.

**A commit** ends in one of five ways:

==================  ===================================================================================================
it is done          the rows go into the local copies, and notices are called (``departure.landed``)
``Fenced``          another worker owns some of the partitions by now: poll, to be told which; commit the rest again
DestinationFailed   a topic refuses records: they are taken out, and become rows; commit again (``refusals``)
``Interrupted``     the transaction was aborted, and nothing of it happened: commit again
``InDoubt``         nobody knows what was committed: forget everything, and join again over a new connection
==================  ===================================================================================================

A commit that is repeated carries the same flights: nothing is handled again.

**Failures** have a size. What a handler raises concerns its message (``failures``). What our own code raises around a handler concerns its
partition, which is built anew from what is committed (``quarantine``). Damaged rows concern their partition, which is set aside. Kafka's
failures concern the worker: it joins again, or it ends and its process is replaced.

**Giving back.** When Kafka takes partitions away it waits for ``revoked``. Handlers get ``settings.revocation`` to finish; their results are
committed; the partition's row is marked clean, so that its next owner need not suspect anything. A handler that is still at work is left
behind: its message is a row, and the next owner calls its handler again. ``lost`` is the same without the chance to commit.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from random import SystemRandom
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
from conversations.lanes import Mark, Scheduler, Threads
from conversations.memory.clock import SystemClock
from conversations.ports import Clock, Connection, Record, Stores, Unanswered
from conversations.protocol.endpoint import NEVER
from conversations.protocol.topics import DEFAULT_NAMESPACE
from conversations.service import Service
from conversations.worker import (
    closing,
    departure,
    dispatch,
    probes,
    refusals,
    rollbacks,
    routing,
    undelivered,
)
from conversations.worker.assignment import Assignment
from conversations.worker.context import Context
from conversations.worker.counts import Counts
from conversations.worker.membership import Membership, Phase
from conversations.worker.partition import Partition
from conversations.worker.readiness import Readiness

log = logging.getLogger("conversations.worker")

IDLE = 0.1
"""Seconds a poll waits when nothing is under way: a deadline that is sooner ends the wait."""
BUSY = 0.005
"""Seconds a poll waits while slow handlers run, whose results should not wait long."""
COMMIT_TRIES = 100
"""Aborted transactions in a row after which the worker joins anew."""
LEAVING = 10.0
"""Seconds for which a worker that was told to stop goes on trying to commit, after its handlers had their time."""
FENCES_AT_ONCE = 3
"""Fenced commits in a row that are repeated at once."""
FENCED_PAUSE = 0.1
"""Seconds a poll waits after a fenced commit to be told which partitions went; a rejoin takes several."""


class Worker:
    """Owns partitions of one service's queue and handles what arrives in them.

    Several workers of one service share its partitions, in one process or in many: Kafka's consumer group says who has which. A worker that
    is told to stop gives its partitions back; one that dies loses them, and their next owner finds everything in rows.

    Args:
        service: what to run; checked for completeness at once.
        connect: makes a connection to the service's topics; called again after an outcome in doubt.
        stores: where local copies of state live.
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
            settings=settings, namespace=namespace, random=random or SystemRandom(),
        )  # fmt: skip
        self.scheduler = scheduler or Threads(settings.concurrency, service.name)
        self.assignment = Assignment(self.context, stores, self.scheduler)
        self._phase = Phase.STEPPING
        self._membership = Membership()
        self.stopping, self._stop_by = threading.Event(), float("inf")
        self.readiness = Readiness(settings.periods.unreachable_after)

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

    @property
    def restoring(self) -> int:
        """How many partitions wait for their state."""
        return self.assignment.restoring

    # -- running ----------------------------------------------------------------------------------------

    def run(self) -> None:
        """Work until ``stop``; then finish what runs, commit, and give the partitions back.

        Raises:
            LogError: Kafka failed for good.
            StateUpgradeError, DeclarationError: stored state and code do not fit.
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
        """Ask ``run`` to end; may be called from any thread and from signal handlers.

        The step under way is finished, handlers get ``settings.revocation``, and the last commit is tried for ``LEAVING`` seconds at most.
        """
        self._stop_by = min(self._stop_by, time.monotonic() + self.settings.revocation.total_seconds() + LEAVING)
        self.stopping.set()

    def close(self) -> None:
        """Give the partitions back cleanly; harmless when done already."""
        self.context.connection.close()
        self.scheduler.close()

    def step(self, timeout: float = 0.0) -> int:
        """Do one step: read, handle, commit. Return how many records were read.

        Raises:
            LogError: Kafka failed for good.
        """
        if not self.joined and not self._join():
            return 0
        records: Sequence[Record] = ()
        try:
            # Poll. Records read stay in the backlog until they are taken: each call of poll may lose partitions.
            records = self._poll(timeout)
            self.assignment.keep(records)  # opening commits, which may lose partitions, read on, or fail
            self._advance_restores()
            records = self.assignment.take_backlog()
            with self.context.lock:
                # Route: one time for everything in this step, and no more than the step's budget takes on.
                self.context.begin_step()
                if self.context.budget.begin() and any(partition.work.ready for partition in self.partitions.values()):
                    self._put_back(records)  # what the last step took on and did not get to goes first
                else:
                    self._put_back(routing.route(self.context, self.partitions, records, self._set_damaged_aside))
                    self._wake()
                mark = self._start()
            # Run: quick handlers are done when the wait is over. Slow ones go on beside the next steps.
            self.scheduler.wait(mark, self.settings.patience.total_seconds())
            self._check_time_limits()
            # Close, commit, land.
            self._commit()
            self._build_anew()
        except InDoubt as error:
            self._rejoin(error)
            return 0
        except StateDamaged as error:
            self._set_damaged_aside(error)
        if self.scheduler.exhausted:  # only now: the failed attempts are committed, and count in the next process
            raise LogError(
                "so many handlers are past their time limit and cannot be stopped that the worker must be replaced"
            )
        return len(records)

    def _join(self) -> bool:
        """Enter the group; False when Kafka, which is known to be there, cannot do it now: then it is tried again.

        At the first start an unreachable Kafka is an error, as its address may be wrong. Later it is an outage, which the worker outlives.
        """
        self.context.begin_step()
        began = time.monotonic()
        try:
            self.context.connection.join(self)
            self.context.topics.look_for_retries(self.context.connection, self.context.service.poison)
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
        """True while something is under way that the next step would carry on."""
        assignment = self.assignment
        return bool(assignment.restoring or assignment.backlog or any(p.is_busy() for p in self.partitions.values()))

    # -- reading ----------------------------------------------------------------------------------------

    def _poll(self, timeout: float) -> Sequence[Record]:
        """Read what there is, for as long as nothing else has to be done.

        The wait ends with the soonest deadline of any partition. While handlers run it is short, as their results should not wait.
        """
        limit = self.settings.batch
        if self.assignment.backlog:
            timeout, limit = 0.0, 1  # only to be heard of: a member that does not poll is thrown out of its group
        elif self.busy():
            timeout = min(timeout, BUSY)
        soonest = min((p.next_deadline() for p in self.partitions.values()), default=NEVER)
        timeout = max(0.0, min(timeout, (soonest - self.context.clock.now()) / 1_000_000))
        try:
            read = self.context.hear(self.context.connection.poll(timeout, limit, self.settings.limits.step_bytes))
            self.assignment.keep(read)  # not in one line: polling may lose partitions, and their records with them
        except InputLost as error:
            self._set_partition_aside(error.partition, error.why)
        self.readiness.hear(self.context.connection.unanswered())
        return self.assignment.take_backlog()

    def _put_back(self, records: Sequence[Record]) -> None:
        """Keep records that are not taken in this step for the next; a partition that is gone is read again from its position."""
        self.assignment.put_back(records)
        routing.leave(self.partitions, records)

    def _wake(self) -> None:
        """Give everything its turn that waits for time: destinations, brakes, deadlines, further attempts, paused queues.

        Destinations come first: what they take again goes out before anything that is said in this step.
        """
        context = self.context
        context.destinations.try_again(context.now)
        probes.wake(context.brakes, self.partitions.values(), context.now)
        for partition in self.partitions.values():
            partition.wake()
            if partition.transmission.refused:
                undelivered.wake(partition)
            if partition.input.paused:
                departure.pace(partition)
            if partition.waiting.delayed.to:
                partition.transmission.release()

    def _start(self) -> Mark:
        """Start the lanes that have something to do; the mark is reached when all that they start has finished."""
        mark = Mark()
        for partition in self.partitions.values():
            dispatch.start_ready(partition, mark)
        return mark

    def _check_time_limits(self) -> None:
        """Give up on handlers that run for too long; their threads are lost, and replaced."""
        for partition in self.partitions.values():
            if partition.work.slow:
                dispatch.check_time_limits(partition)
        self.scheduler.look()

    # -- committing -------------------------------------------------------------------------------------

    def _commit(self, partitions: Sequence[Partition] | None = None) -> None:
        """Close the step of these partitions, of all if none are named, and commit what they have together.

        Endpoints leave memory behind a commit only: until their rows are committed and landed, memory is the only place that has them.
        """
        chosen = [p for p in (partitions or self.partitions.values()) if not p.gone]
        with self.context.lock:
            self._raise_failure()  # what its lane did until then is half done: nothing of it is committed
            flying = [partition for partition in chosen if closing.collect(partition)]
            self.context.budget.collected()
        if flying:
            self._commit_flying(flying)
        with self.context.lock:
            room = self.settings.limits.cached_endpoints // max(1, len(self.partitions))
            for partition in chosen:
                partition.make_room(room, committed=partition in flying)
        self._raise_failure()

    def _raise_failure(self) -> None:
        """Raise a failure of a lane's own code for which no record is to blame: the worker ends."""
        if self.context.breakdowns.failure is not None:
            if (partition := self.partitions.get(self.context.breakdowns.failed_in)) is not None:
                rollbacks.count(partition, self.context.breakdowns.failure)
            raise self.context.breakdowns.failure

    def _commit_flying(self, flying: list[Partition]) -> None:
        """Commit the flights that have departed, land them, and call their notices without the lock.

        Handlers go on meanwhile, under the lock between two of them, and fill the next flights. A notice may call the application, which
        may wait for a handler: so no notice is called with the lock held.
        """
        before = self._phase
        if before is Phase.STEPPING:
            self._phase = Phase.COMMITTING
        self.readiness.begin("committing a step")
        try:
            flying, checkpoints = self._commit_until_done(flying)
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
        """Forget the partitions in which our own code failed, and restore them: nothing of the step was committed.

        The record that is to blame is remembered here, and set aside when it comes again.
        """
        for number in self.context.breakdowns.take_broken():
            if number in self.partitions:
                self.assignment.build_anew(number)
                self.readiness.look(works=False)

    def _commit_until_done(self, flying: list[Partition]) -> tuple[list[Partition], dict[int, int]]:
        """Commit, again and again, until it is certain; return the partitions that landed, and their checkpoints."""
        fences = interrupted = 0
        for _ in range(2 * COMMIT_TRIES):
            flying = [p for p in flying if not p.gone]
            if not flying:
                return [], {}
            # Taken anew for each try: a flight may have lost records, and a partition may be gone.
            flights = {p.number: p.outbox.flying for p in flying if p.outbox.flying is not None}
            outs = [out for flight in flights.values() for out in flight.outs]
            offsets = {number: flight.queue for number, flight in flights.items()}
            try:
                return flying, self.context.commit(outs, offsets)
            except Fenced:
                if self._phase is Phase.GIVING_BACK:
                    raise  # the partitions are lost already
                self.context.counts.count_fenced()
                fences += 1
                read = self.context.connection.poll(FENCED_PAUSE if fences > FENCES_AT_ONCE else 0, 1)
                self.assignment.keep(read)  # not in one line: polling may lose partitions, and their records with them
            except DestinationFailed as error:
                for number, why in refusals.take_out(self.context, list(self.partitions.values()), outs, error).items():
                    self.context.connection.drop(number)
                    self.assignment.set_aside(self.partitions[number], why)
            except Interrupted as error:
                interrupted += 1
                if interrupted >= COMMIT_TRIES or time.monotonic() > self._stop_by:
                    raise InDoubt(f"given up after {interrupted} tries: {error}") from error
                log.warning("transaction aborted, trying again: %s", error)
                self.readiness.look(works=self.ready.is_set())
        raise LogError(f"a step could not be committed in {2 * COMMIT_TRIES} tries")

    # -- ownership (ports.Listener) ---------------------------------------------------------------------

    def assigned(self, partitions: Sequence[int]) -> None:
        """Restore from now on; records flow once the state is there."""
        self.assignment.restore(partitions)
        self.readiness.look(works=False)

    def revoked(self, partitions: Sequence[int]) -> None:
        """Wait a moment for running handlers, commit what is finished, mark clean, let go; rows keep what still runs."""
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
                log.warning("partitions %s given back without a last commit: %s", list(partitions), error)
            finally:
                self._phase = Phase.STEPPING
        self.lost(partitions)

    def lost(self, partitions: Sequence[int]) -> None:
        """Forget partitions that belong to somebody else; nothing of them is committed, and results that still come are refused."""
        with self.context.lock:
            self.context.breakdowns.forget(list(partitions))
        self.assignment.forget(partitions)

    def _advance_restores(self) -> None:
        """Go on restoring, and commit at once that the partitions which are there now were opened.

        That commit says "not given back" in their rows, before the first record is looked at.
        """
        opened = self.assignment.advance()
        if opened:
            # Before any handler runs: one that kills the process is to be found by the starts that are counted here.
            self._commit(opened)
        self.readiness.look(works=self.assignment.is_complete)

    def _set_partition_aside(self, number: int, why: str) -> None:
        """Commit what is finished of a partition that a human must look at, and stop it; the others go on.

        Its input is wrong, and not its rows: the topic was made anew, or records are gone that were not read.
        """
        self.context.connection.drop(number)
        if (partition := self.partitions.get(number)) is not None:
            self._commit([partition])
            self.assignment.set_aside(partition, why)

    def _set_damaged_aside(self, error: StateDamaged) -> None:
        """Stop a partition in the middle of a step: nothing is built upon its rows; if only a copy is damaged it is made anew.

        What the step did of it is in memory alone, and goes with it. The other partitions of the step are committed by the next one.
        """
        self.context.connection.drop(error.partition)
        with self.context.lock:
            if self.context.breakdowns.failure is error:
                self.context.breakdowns.forgive()
        if error.of_a_copy:
            self.assignment.build_anew(error.partition)
            self.readiness.look(works=False)
        elif error.partition in self.partitions:
            self.assignment.set_aside(self.partitions[error.partition], error.why)

    def _rejoin(self, error: InDoubt) -> None:
        """The outcome of a commit is not known: forget everything and begin again from the topics.

        Restoring waits until the old transaction is done or aborted for good: a group offset that is not stable is asked for again.
        """
        log.warning("rejoining: %s", error)
        self.lost(self.assignment.forget_all())
        self._leave()

    def _leave(self) -> None:
        """Close the connection; the next step joins over a new one.

        What closing it raises is only logged: nothing of the old connection counts any more.
        """
        self._membership.leave()
        try:
            self.context.connection.close()
        except LogError as failure:
            log.warning("closing the old connection failed: %s", failure)
        self.context.reconnect(self._connect())
