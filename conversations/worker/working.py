"""A lane's work: one item after the other, each until its handlers have finished or are given up on."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from datetime import timedelta

from conversations.calls import Call
from conversations.checks import later
from conversations.dialog import Dialog, Draft
from conversations.errors import (
    InvalidBody,
    PeerError,
    ProcessDied,
    StateDamaged,
    TimeLimitExceeded,
    Verdict,
)
from conversations.lanes import Mark, Run, Steps
from conversations.poison import Retry, Subject, decide, last, members
from conversations.protocol import rows
from conversations.protocol.envelope import Kind
from conversations.protocol.identifiers import uuid_text
from conversations.protocol.limits import STATE_BYTES
from conversations.protocol.states import State
from conversations.worker import breakdowns as breakdowns_of
from conversations.worker import giving_up, groups, orders, parking, receiving, speaking, switching
from conversations.worker.active import NO_ROW, Active, Item, Lane
from conversations.worker.condemned import Condemned
from conversations.worker.partition import Partition
from conversations.worker.receiving import Task
from conversations.worker.records import item_of
from conversations.worker.room import Room

log = logging.getLogger("conversations.worker")

HANDLED = frozenset({Kind.MESSAGE, Kind.END, Kind.ERROR})
"""Kinds of envelopes that a handler may be called for."""
SETTLED = object()
"""Of an item: there is nothing to be done with it any more."""
SOONEST = timedelta(milliseconds=100)
"""A wait at least: a handler that asks to be called again at once keeps nobody busy."""


def start(partition: Partition, lane: Lane) -> Run:
    """Make the run that works off a lane."""
    run = Run(lane, steps(partition, lane))
    lane.begin(run)
    return run


def start_ready(partition: Partition, mark: Mark) -> None:
    """Start the runs of all lanes of a partition that have something to do."""
    runs = [start(partition, lane) for lane in partition.work.take_ready() if lane.run is None and lane.items]
    partition.work.started(runs)
    for run in runs:
        partition.owner.scheduler.start(run, mark)


def steps(partition: Partition, lane: Lane) -> Steps:
    """Work off a lane; yields each handler to call, is sent what it raised. Holds the owner's lock in between."""
    lock, braking, breakdowns = partition.owner.lock, partition.owner.braking, partition.owner.breakdowns
    items, progress, room, item, run = lane.items, partition.progress, Room(partition), None, lane.run
    lock.acquire()
    try:
        while items and not partition.gone and not partition.owner.budget.is_spent():
            item, held_back = items[0], False
            if breakdowns.careful:
                partition.outbox.begin(item)
            if partition.work.suspicion is not None and not partition.work.suspicion.has_turn(item):
                partition.work.leave(lane)  # taken up again when it is announced
                return
            condemned = _verdict(partition, item) if breakdowns.condemned or item.suspect else None
            for first in () if condemned is SETTLED else _tasks(partition, item):
                task: Task | None = first
                while task is not None:
                    _begins(partition, item, task)
                    if progress.row.off or (braking.peers and braking.holds_back(item, task.active.endpoint.peer)):
                        switching.hold_back(partition, item, task.without)
                        task = receiving.too_much(partition, item, task)
                        held_back = task is None
                        continue
                    if partition.work.suspicion is not None and not _may_run(partition, lane, item, task):
                        return
                    if isinstance(condemned, Condemned):
                        _give_up_on_failed(partition, item, task, condemned.failure)
                        break
                    draft = Draft(room, task.active)
                    try:
                        call = _call(item, task, draft)
                    except InvalidBody as error:
                        task = receiving.invalid(partition, item, error)
                        continue
                    run.begins(call)
                    lock.release()
                    failure = yield call
                    call.over()
                    lock.acquire()
                    if run.abandoned or partition.gone:
                        return  # too late: its results are refused, and the lane has another run, or another owner
                    task = _outcome(partition, item, task, draft, call, failure)
            _finished(partition, lane, item, held_back=held_back)
            if partition.number in breakdowns.careful:
                break
        partition.work.leave(lane)
    except GeneratorExit:
        # Abandoned while its handler ran: the lock is not held, and the lane is somebody else's now.
        lock.acquire()
        raise
    except BaseException as error:  # noqa: BLE001 - a bug of ours must reach the polling thread, whatever it is
        breakdowns_of.failed(partition, item, error)
    finally:
        lock.release()


def _tasks(partition: Partition, item: Item) -> Sequence[Task]:
    active, envelope = item.active, item.envelope
    is_owed = item.handler and not item.deadline  # the record is settled, but not the error it was
    if not is_owed and partition.parking.is_stale(item):
        return ()
    if item.handler:
        # It failed before, or waited to be announced: what asked for it is settled, and would not ask again.
        task = _running_task(partition, item)
        return () if task is None else (task,)
    if envelope is not None:
        task = receiving.receive(partition, item, envelope)
        return () if task is None else (task,)
    if item.command is not None:
        orders.carry_out(partition, item, item.command)
    elif item.deadline:
        return _due(partition, active)
    return ()


def _may_run(partition: Partition, lane: Lane, item: Item, task: Task) -> bool:
    """Say whether a handler may be called; if not, its lane waits until it is announced, or goes on without it."""
    suspicion = partition.work.suspicion
    died = suspicion.doom(item) if suspicion is not None else None
    if suspicion is None or (died is None and suspicion.may_run(item)):
        return True
    if died is not None:
        _give_up_on_killer(partition, item, task, died)
        _finished(partition, lane, item)
    partition.work.leave(lane)
    return False


def _give_up_on_killer(partition: Partition, item: Item, task: Task, died: ProcessDied) -> None:
    partition.owner.counts.failures += 1
    item.charge()
    log.error("giving up on %s without calling it: %s", task.handler.name, died)
    giving_up.give_up(partition, item, task, died, last(died, partition.owner.service.poison, _subject(item, task)))


def _verdict(partition: Partition, item: Item) -> Condemned | object | None:
    """Say whether our own code failed with an item before; what no policy can be applied to is set aside at once."""
    found, suspicion = breakdowns_of.verdict(partition, item), partition.work.suspicion
    if found is None and suspicion is not None and (died := suspicion.doom(item)) is not None:
        # A message that processes die of is given up on where its handler would be called, unless it has none.
        if not _has_no_handler(item) and not suspicion.is_hopeless(item):
            return None
        found = Condemned(died)
    elif found is None or (found.times == 1 and item.command is None):
        return found
    breakdowns_of.set_aside(partition, item, found)
    return SETTLED


def _has_no_handler(item: Item) -> bool:
    return item.command is not None or (item.envelope is not None and item.envelope.kind not in HANDLED)


def _give_up_on_failed(partition: Partition, item: Item, task: Task, failure: Exception) -> None:
    """Do what its policy says of a message around whose handler our own code failed; too many in a row turn the queue off."""
    owner, row = partition.owner, partition.progress.row
    owner.counts.failures += 1
    partition.progress.rolled_back()
    limit = owner.settings.rollbacks
    if limit is not None and row.rollbacks >= limit and not row.off:
        by = f"{row.rollbacks} rollbacks in a row"
        switching.turn_off(partition, switching.ROLLBACKS, by, giving_up.text_of(failure))
        switching.hold_back(partition, item, task.without)
        return
    if not _is_braked(partition, item, task, failure):
        item.charge()
        giving_up.give_up(partition, item, task, failure, last(failure, owner.service.poison, _subject(item, task)))


def _begins(partition: Partition, item: Item, task: Task) -> None:
    """Note which handler runs; if it is not that of the item's record, the record is settled and needs no row."""
    if item.handler != task.without:
        item.run_handler(task.without)
    if task.without and item.row != NO_ROW:
        partition.waiting.drop(item)


def _due(partition: Partition, active: Active) -> Sequence[Task]:
    """Do what deadlines ask for; each handler to run gets an item of its own, as each may fail by itself."""
    tasks = receiving.due(partition, active)
    active.lane.items.extend(
        partition.work.suspect(Item(active, deadline=True, handler=task.without)) for task in tasks[1:]
    )
    return tasks[:1]


def _call(item: Item, task: Task, draft: Draft) -> Call:
    """Make one run of a handler; its body is decoded afresh, so that a failed run leaves nothing behind."""
    envelope = item.envelope
    edited = item.park.row.edited if item.park is not None else ""
    dialog: Dialog[object] = Dialog(draft, task.active, envelope, item.attempts + 1, edited)
    if task.codec is not None and envelope is not None:
        return Call(task.handler, (task.codec.decode(envelope.body), dialog))
    if task.error is not None:
        return Call(task.handler, (PeerError(task.error.code, task.error.description), dialog))
    return Call(task.handler, (dialog,))


def _outcome(
    partition: Partition, item: Item, task: Task, draft: Draft, call: Call, failure: BaseException | None
) -> Task | None:
    """Carry out what a handler asked for, or charge its failure; return the task when it is to be run again."""
    active = task.active
    if failure is None and draft.has_state:
        failure = _keep_state(partition, active, draft.outcome)
    if failure is not None:
        return None if judge(partition, item, task, failure) else task
    if partition.progress.row.rollbacks:
        partition.progress.succeeded()
    braking = partition.owner.braking
    if braking.is_counting or braking.peers or not braking.well.get(active.endpoint.peer):
        _succeeded(partition, item, active.endpoint.peer)
    partition.parking.forget_retry(active, task.without, parking.HANDLED)
    if draft.asks:
        speaking.apply(partition, draft)
    if task.finish is not None:
        task.finish(partition, active)
    elif task.codec is not None:
        receiving.handled(partition, item, call.arguments[0])
    if active.endpoint.state is State.CLOSED:
        receiving.close(partition, active)
    return None


def _keep_state(partition: Partition, active: Active, state: object) -> BaseException | None:
    """Write the group's state if it changed; state that cannot be encoded is a failure of its handler."""
    codec = partition.owner.service.state
    try:
        data = codec.encode(state)
    except (Exception, Verdict) as error:  # noqa: BLE001 - state is the application's: its encoding may raise anything
        return error
    if len(data) > STATE_BYTES:
        return ValueError(f"group.state has {len(data)} bytes as JSON; at most {STATE_BYTES} can be kept")
    group = groups.group_of(partition, active.lane)
    if group.state != data or group.version != codec.version:
        group.state, group.version = data, codec.version
        partition.progress.keep_state(codec.version)
        groups.save(partition, active.lane)
        active.endpoint.stateful = True
        partition.touch(active)
    return None


# -- failure -----------------------------------------------------------------------------------------------------


def judge(partition: Partition, item: Item, task: Task, failure: BaseException) -> bool:
    """Charge a failed run; False when the handler is to be run again at once, True when the lane goes on without it."""
    for member in members(failure):
        if isinstance(member, StateDamaged):
            raise member  # not the handler's doing
    owner, active = partition.owner, task.active
    owner.counts.failures += 1
    facts = {"conversation": uuid_text(active.identity[:16]), "attempt": item.attempts + 1}
    what = item.envelope.message_type if item.envelope is not None and item.envelope.message_type else task.handler.name
    decision = decide(failure, item.attempts + 1, owner.service.poison, _subject(item, task))
    if (not isinstance(decision, Retry) or decision.counts) and _is_braked(partition, item, task, failure):
        return True
    if not isinstance(decision, Retry) or decision.counts:
        item.charge()
    if not isinstance(decision, Retry):
        log.error("handler of %s failed (attempt %d), giving up", what, item.attempts, exc_info=failure, extra=facts)
        giving_up.give_up(partition, item, task, failure, decision)
        return True
    text = giving_up.text_of(failure)
    if decision.counts and not decision.after:
        log.warning("handler of %s failed (attempt %d): %s", what, item.attempts, text, extra=facts)
        return False
    log.warning("%s waits for its next attempt (%d failed): %s", what, item.attempts, text, extra=facts)
    wait = max(decision.after + decision.jitter * owner.chance(), SOONEST) // timedelta(microseconds=1)
    partition.parking.let_wait(item, task.without, later(owner.now, wait), text)
    return True


def _is_braked(partition: Partition, item: Item, task: Task, failure: BaseException) -> bool:
    """While the brake is on, and when this failure puts it on, a message waits as if it had not been tried."""
    owner, peer = partition.owner, task.active.endpoint.peer
    text = giving_up.text_of(failure)
    count = owner.braking.failed(peer, task.active.identity, owner.now)
    if count:
        log.error(
            "%s: %d dialogs failed within a short time, those of %s go on one by one: %s", owner.name, count, peer, text
        )
        partition.letters.event("BRAKE_ON", dialogs=count, peer=peer, failure=text)
    braked = peer in owner.braking.peers
    if braked:
        partition.parking.let_wait(item, task.without, rows.QUEUE_ON, text)
    return braked


def _succeeded(partition: Partition, item: Item, peer: str) -> None:
    owner = partition.owner
    if owner.braking.tries(item, peer):
        owner.braking.over(peer)
        log.warning("%s: a message of %s was handled again, going on with all of them", owner.name, peer)
        partition.letters.event("BRAKE_OFF", peer=peer)
    owner.braking.succeeded(peer)


def _subject(item: Item, task: Task) -> Subject:
    envelope = item.envelope
    return Subject(
        task.active.endpoint.contract,
        envelope.message_type if envelope is not None and task.codec is not None else None,
    )


def check_time_limits(partition: Partition) -> None:
    """Give up on runs of handlers that are past their limit."""
    now = time.monotonic()
    for lane, run in list(partition.work.slow.items()):
        if run.overdue(now):
            with partition.owner.lock:
                # Asked again: meanwhile it may have returned, and the next have begun.
                if lane.run is run and run.overdue(now):
                    partition.owner.scheduler.abandon(run)
                    overdue(partition, lane)


def drain(partition: Partition, deadline: float) -> None:
    """Wait for the handlers that run, until ``deadline`` of the monotonic clock."""
    with partition.owner.lock:
        runs = partition.work.runs
    for run in runs:
        while not run.done and time.monotonic() < deadline and run.mark is not None:
            run.mark.wait(0.05)


def overdue(partition: Partition, lane: Lane) -> None:
    """Charge the handler at a lane's head with a time-out and let the lane go on."""
    item = lane.items[0]
    task = _running_task(partition, item)
    lane.end()
    partition.progress.change()  # the attempt is to be committed, also when nothing else is
    if task is None or judge(
        partition, item, task, TimeLimitExceeded(f"{task.handler.name} ran longer than {task.handler.time_limit:g} s")
    ):
        _finished(partition, lane, item)
    partition.work.resume(lane)


def _running_task(partition: Partition, item: Item) -> Task | None:
    """Say again which handler an item whose number is accepted calls."""
    active = item.active
    if not active.exists:
        return None
    if item.handler == rows.TIMER:
        return _timer(partition, active) if active.endpoint.firing else None
    if item.handler == rows.ERROR:
        return receiving.broken(partition, active)
    return None if item.envelope is None else receiving.deliver(partition, item, item.envelope)


def _timer(partition: Partition, active: Active) -> Task | None:
    task = receiving.timer(active)
    if task is None:  # this release has no handler for it
        partition.parking.forget_retry(active, rows.TIMER, parking.ENDED)
        partition.touch(active)
    return task


# -- afterwards ----------------------------------------------------------------------------------------------------


def _finished(partition: Partition, lane: Lane, item: Item, *, held_back: bool = False) -> None:
    """An item is settled, or waits elsewhere: drop its row, and let what was held behind it follow."""
    items = lane.items
    items.popleft()
    if item.row != NO_ROW:
        partition.waiting.drop(item)
    if partition.work.suspicion is not None:
        partition.work.suspicion.finished(item, tried=not held_back)
    if item.park is not None:
        partition.parking.head_done(item)
    active = item.active
    if not active.exists or not active.endpoint.inbound.held:
        return
    number = active.endpoint.inbound.ready()
    if number is None:
        return
    row = partition.waiting.take_held(active.identity, number)
    if row is not None:
        lane.items.appendleft(item_of(active, row))
