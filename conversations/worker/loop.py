"""The worker: poll, decide, let handlers run, commit; take partitions up and give them back."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from random import SystemRandom
from typing import Any

from conversations.backoff import Backoff
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
from conversations.ports import Clock, Log, Record, Stores, Unanswered
from conversations.protocol.endpoint import NEVER
from conversations.protocol.topics import DEFAULT_NAMESPACE
from conversations.service import Service
from conversations.worker import (
    closing,
    collecting,
    refusals,
    rollbacks,
    routing,
    speaking,
    undelivered,
    working,
)
from conversations.worker.owner import Counts, Owner
from conversations.worker.partition import Partition
from conversations.worker.readiness import Readiness
from conversations.worker.restoring import OUTAGE, Restoring

log = logging.getLogger("conversations.worker")

IDLE = 0.1
"""Seconds a poll waits when nothing is under way."""
BUSY = 0.005
"""Seconds a poll waits while slow handlers run, whose results should not wait long."""
COMMIT_TRIES = 100
LEAVING = 10.0
"""Seconds for which a worker that was told to stop goes on trying to commit, after its handlers had their time."""
FENCES_AT_ONCE = 3
FENCED_PAUSE = 0.1
"""Seconds a poll waits after a fenced commit to be told which partitions went; a rejoin takes several."""


class Worker:
    """Owns partitions of one service's queue and handles what arrives in them.

    Args:
        service: what to run; checked for completeness at once.
        open_log: makes a connection to the service's topics; called again after an outcome in doubt.
        stores: where local copies of state live.
        settings: batch size, patience, limits.

    Raises:
        DeclarationError: the service cannot handle what it may receive.
    """

    def __init__(
        self,
        service: Service[Any],
        open_log: Callable[[], Log],
        stores: Stores,
        *,
        settings: WorkerSettings | None = None,
        clock: Clock | None = None,
        scheduler: Scheduler | None = None,
        namespace: str = DEFAULT_NAMESPACE,
        random: Any = None,
    ) -> None:
        sides = service.check()
        self.settings = settings or WorkerSettings()
        self._open_log = open_log
        self._stores = stores
        self.owner = Owner(
            service, sides, open_log(), clock or SystemClock(),
            scheduler=scheduler or Threads(self.settings.concurrency, service.name),
            settings=self.settings, namespace=namespace, random=random or SystemRandom(),
        )  # fmt: skip
        self.partitions: dict[int, Partition] = {}
        self._restoring: dict[int, Restoring] = {}
        self._backlog: list[Record] = []
        self._committing = self._giving_back = self._failed = False
        self._joined = self._joined_once = False
        self._outage = Backoff(*OUTAGE)
        self.stopping, self._stop_by = threading.Event(), float("inf")
        self.readiness = Readiness(self.settings.periods.unreachable_after)
        self.ready = self.readiness.ready
        """Set while at least one partition is open, none is being restored, and Kafka answers."""

    @property
    def counts(self) -> Counts:
        """What was done since the start."""
        return self.owner.counts

    @property
    def joined(self) -> bool:
        """True while the worker is a member of its service's group."""
        return self._joined

    @property
    def restoring(self) -> int:
        """How many partitions wait for their state."""
        return len(self._restoring)

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
            self._failed = True  # in the middle of a step: what is in memory may be half done, and is not committed
            raise
        finally:
            self.close()

    def stop(self) -> None:
        """Ask ``run`` to end; may be called from any thread and from signal handlers."""
        self._stop_by = min(self._stop_by, time.monotonic() + self.settings.revocation.total_seconds() + LEAVING)
        self.stopping.set()

    def close(self) -> None:
        """Give the partitions back cleanly; harmless when done already."""
        self.owner.log.close()
        self.owner.scheduler.close()

    def step(self, timeout: float = 0.0) -> int:
        """Do one step: read, handle, commit. Return how many records were read.

        Raises:
            LogError: Kafka failed for good.
        """
        if not self._joined and not self._join():
            return 0
        records: Sequence[Record] = ()
        try:
            records = self._poll(timeout)
            self._backlog = [*records]  # opening commits, which may lose partitions, read on, or fail
            self._advance_restores()
            records, self._backlog = self._backlog, []
            with self.owner.lock:
                self.owner.look_at_clock()
                if self.owner.budget.begin() and any(partition.work.ready for partition in self.partitions.values()):
                    self._put_back(records)  # what the last step took on and did not get to goes first
                else:
                    self._put_back(routing.route(self.owner, self.partitions, records, self._set_damaged_aside))
                    self._wake()
                mark = self._start()
            self.owner.scheduler.wait(mark, self.settings.patience.total_seconds())
            self._check_time_limits()
            self._commit()
            self._build_anew()
        except InDoubt as error:
            self._rejoin(error)
            return 0
        except StateDamaged as error:
            self._set_damaged_aside(error)
        if self.owner.scheduler.exhausted:  # only now: the failed attempts are committed, and count in the next process
            raise LogError(
                "so many handlers are past their time limit and cannot be stopped that the worker must be replaced"
            )
        return len(records)

    def _join(self) -> bool:
        """Enter the group; False when Kafka, which is known to be there, cannot do it now: then it is tried again."""
        self.owner.look_at_clock()
        began = time.monotonic()
        try:
            self.owner.log.join(self)
            self.owner.topics.look_for_retries(self.owner.log, self.owner.service.poison)
        except KafkaUnreachable as error:
            if not self._joined_once and not isinstance(error, KafkaNotReady):
                raise
            self.readiness.hear(Unanswered(began, f"joining its group: {error}"))
            self.readiness.look(works=False)
            seconds = self._outage.again()
            log.warning("joining again in %.1f s: %s", seconds, error)
            self._leave()
            self.stopping.wait(seconds)
            return False
        self._outage.over()
        self.readiness.hear(None)
        self._joined = self._joined_once = True
        return True

    def busy(self) -> bool:
        """True while something is under way that the next step would carry on."""
        return bool(self._restoring or self._backlog or any(p.is_busy() for p in self.partitions.values()))

    # -- reading ----------------------------------------------------------------------------------------

    def _poll(self, timeout: float) -> Sequence[Record]:
        limit = self.settings.batch
        if self._backlog:
            timeout, limit = 0.0, 1  # only to be heard of: a member that does not poll is thrown out of its group
        elif self.busy():
            timeout = min(timeout, BUSY)
        soonest = min((p.next_deadline() for p in self.partitions.values()), default=NEVER)
        timeout = max(0.0, min(timeout, (soonest - self.owner.clock.now()) / 1_000_000))
        try:
            read = self.owner.hear(self.owner.log.poll(timeout, limit, self.settings.limits.step_bytes))
            self._backlog += read  # not in one line: polling may lose partitions, and their records with them
        except InputLost as error:
            self._set_partition_aside(error.partition, error.why)
        self.readiness.hear(self.owner.log.unanswered())
        records, self._backlog = self._backlog, []
        return records

    def _put_back(self, records: Sequence[Record]) -> None:
        """Keep records that are not taken in this step for the next; a partition that is gone is read again from its position."""
        self._backlog = [*(it for it in records if it.partition() in self.partitions), *self._backlog]
        routing.leave(self.partitions, records)

    def _wake(self) -> None:
        owner = self.owner
        owner.destinations.try_again(owner.now)
        owner.braking.wake(self.partitions.values(), owner.now)
        for partition in self.partitions.values():
            partition.wake()
            if partition.refused:
                undelivered.wake(partition)
            if partition.backlog.paused:
                collecting.pace(partition)
            if partition.waiting.delayed.to:
                speaking.release_delayed(partition)

    def _start(self) -> Mark:
        mark = Mark()
        for partition in self.partitions.values():
            working.start_ready(partition, mark)
        return mark

    def _check_time_limits(self) -> None:
        for partition in self.partitions.values():
            if partition.work.slow:
                working.check_time_limits(partition)
        self.owner.scheduler.look()

    # -- committing -------------------------------------------------------------------------------------

    def _commit(self, partitions: Sequence[Partition] | None = None) -> None:
        chosen = [p for p in (partitions or self.partitions.values()) if not p.gone]
        with self.owner.lock:
            self._raise_failure()  # what its lane did until then is half done: nothing of it is committed
            flying = [partition for partition in chosen if closing.collect(partition)]
            self.owner.budget.collected()
        if flying:
            self._commit_flying(flying)
        with self.owner.lock:
            room = self.settings.limits.cached_endpoints // max(1, len(self.partitions))
            for partition in chosen:
                partition.make_room(room, committed=partition in flying)
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self.owner.breakdowns.failure is not None:
            if (partition := self.partitions.get(self.owner.breakdowns.failed_in)) is not None:
                rollbacks.count(partition, self.owner.breakdowns.failure)
            raise self.owner.breakdowns.failure

    def _commit_flying(self, flying: list[Partition]) -> None:
        self._committing = True
        self.readiness.begin("committing a step")
        try:
            flying, checkpoints = self._commit_until_done(flying)
        finally:
            self._committing = False
            self.readiness.end()
        self.owner.counts.commits += 1
        with self.owner.lock:
            notices = [notice for p in flying for notice in collecting.landed(p, checkpoints.get(p.number))]
            for partition in flying:
                collecting.pace(partition)
        for notice in notices:
            notice()

    def _build_anew(self) -> None:
        """Forget the partitions in which our own code failed, and restore them: nothing of the step was committed."""
        for number in self.owner.breakdowns.take_broken():
            if number in self.partitions:
                self.owner.log.drop(number)
                self._forget([number])
                self.assigned([number])

    def _commit_until_done(self, flying: list[Partition]) -> tuple[list[Partition], dict[int, int]]:
        fences = interrupted = 0
        for _ in range(2 * COMMIT_TRIES):
            flying = [p for p in flying if not p.gone]
            if not flying:
                return [], {}
            flights = {p.number: p.outbox.flying for p in flying if p.outbox.flying is not None}
            outs = [out for flight in flights.values() for out in flight.outs]
            offsets = {number: flight.queue for number, flight in flights.items()}
            try:
                return flying, self.owner.commit(outs, offsets)
            except Fenced:
                if self._giving_back:
                    raise  # inside a callback of poll, which cannot be polled: the partitions are lost already
                self.owner.counts.fenced += 1
                fences += 1
                read = self.owner.log.poll(FENCED_PAUSE if fences > FENCES_AT_ONCE else 0, 1)
                self._backlog += read  # not in one line: polling may lose partitions, and their records with them
            except DestinationFailed as error:
                for number, why in refusals.take_out(self.owner, list(self.partitions.values()), outs, error).items():
                    self.owner.log.drop(number)
                    self._let_go(self.partitions[number], why)
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
        for number in partitions:
            self._restoring[number] = Restoring(number, self.owner, self._stores)
        self.readiness.look(works=False)

    def revoked(self, partitions: Sequence[int]) -> None:
        """Wait a moment for running handlers, commit what is finished, mark clean, let go; rows keep what still runs."""
        owned = [self.partitions[n] for n in partitions if n in self.partitions]
        if not self._committing and not self._failed and self.owner.breakdowns.failure is None:
            deadline = time.monotonic() + self.settings.revocation.total_seconds()
            for partition in owned:
                working.drain(partition, deadline)
                with self.owner.lock:
                    partition.progress.give_back()
            self._giving_back = True
            try:
                self._commit(owned)
            except LogError as error:
                log.warning("partitions %s given back without a last commit: %s", list(partitions), error)
            finally:
                self._giving_back = False
        self.lost(partitions)

    def lost(self, partitions: Sequence[int]) -> None:
        """Forget partitions that belong to somebody else."""
        with self.owner.lock:
            self.owner.breakdowns.forget(list(partitions))
        self._forget(partitions)

    def _forget(self, partitions: Sequence[int]) -> None:
        gone = set(partitions)
        self._backlog = [record for record in self._backlog if record.partition() not in gone]
        with self.owner.lock:
            for number in partitions:
                restoring = self._restoring.pop(number, None)
                if restoring is not None:
                    restoring.stop()
                partition = self.partitions.pop(number, None)
                if partition is not None:
                    partition.stop()

    def _advance_restores(self) -> None:
        opened = [number for number, restoring in list(self._restoring.items()) if self._restored(number, restoring)]
        if opened:
            # Before any handler runs: one that kills the process is to be found by the starts that are counted here.
            self._commit([self.partitions[number] for number in opened])
        self.readiness.look(works=bool(self.partitions) and not self._restoring)

    def _restored(self, number: int, restoring: Restoring) -> bool:
        """Go on restoring; True when the partition was opened."""
        try:
            if (partition := restoring.advance()) is None:
                return False
            self.owner.log.open(number, restoring.positions)
        except KafkaUnreachable as error:
            log.warning("partition %d of %s is restored again, later: %s", number, self.owner.name, error)
            restoring.begin_again()
            return False
        except InputLost as error:
            del self._restoring[number]
            restoring.stop()
            self.owner.log.drop(number)
            if restoring.partition is not None:
                closing.tell_aside(restoring.partition, error.why, restoring.committed)
            return False
        del self._restoring[number]
        self.partitions[number] = partition
        log.info("partition %d of %s is open, %d rows restored", number, self.owner.name, restoring.rows)
        return True

    def _set_partition_aside(self, number: int, why: str) -> None:
        """Commit what is finished of a partition that a human must look at, and stop it; the others go on."""
        self.owner.log.drop(number)
        if (partition := self.partitions.get(number)) is not None:
            self._commit([partition])
            self._let_go(partition, why)

    def _set_damaged_aside(self, error: StateDamaged) -> None:
        """Stop a partition in the middle of a step: nothing is built upon its rows; if only a copy is damaged it is made anew."""
        self.owner.log.drop(error.partition)
        with self.owner.lock:
            if self.owner.breakdowns.failure is error:
                self.owner.breakdowns.forgive()
        if error.of_a_copy:
            self._forget([error.partition])
            self.assigned([error.partition])
        elif error.partition in self.partitions:
            self._let_go(self.partitions[error.partition], error.why)

    def _let_go(self, partition: Partition, why: str) -> None:
        with self.owner.lock:
            self.partitions.pop(partition.number, None)
            position = closing.written_to(partition)
            partition.stop()
        closing.tell_aside(partition, why, position)

    def _rejoin(self, error: InDoubt) -> None:
        """Nobody knows what was committed: forget everything and begin again from the topics."""
        log.warning("rejoining: %s", error)
        self.lost([*self.partitions, *self._restoring])
        self._backlog.clear()
        self._leave()

    def _leave(self) -> None:
        self._joined = False
        try:
            self.owner.log.close()
        except LogError as failure:
            log.warning("closing the old connection failed: %s", failure)
        self.owner.log = self._open_log()
