"""A lane's work: one item after the other, each until its handlers have finished or are given up on.

A run is a generator (``steps``). It yields one handler call after the other, and is sent what the handler raised, or None. The
scheduler decides on which thread a handler runs; the run itself never blocks. **The lock** is held whenever the generator's own code runs, and
released while a handler runs:

    lock ── take the head of the lane ── what is to be done? ── draft, call ──┐ yield: unlocked, the handler runs
      ▲                                                                       │
      └── next task or next item ◄── apply the draft, or judge the failure ◄──┘ locked again

The head of a lane stays in ``lane.items`` until it is settled. So a step that is closed meanwhile finds it there and keeps it as a row
(``departure``), and a successor finds the row. After each handler the run asks whether it still counts: a run that took too long was
**abandoned**, and a partition that belongs to somebody else is **gone**. Results that come then are dropped.

What an item asks for, by its kind (``_tasks``):

* an ``Arrival`` is taken by its endpoint (``inbound``), which names one handler or none;
* an ``Order`` is carried out at once, and calls no handler (``dialog_commands``, ``partition_commands``, ``decisions``);
* a ``Deadline`` asks the endpoint what is due; each handler to run gets an item of its own, as each may fail by itself.

An item whose handler failed comes back here as the same kind of item, made of its row, with its park.

**What a handler sees** is a draft (``conversations.dialog``). It checks each thing that the handler asks for against the state that the
things before would leave, and changes nothing. So a handler that fails leaves nothing behind, whatever it asked for, and a draft that
is applied cannot be refused any more: its lane is the only one that changes these endpoints, and the lane has waited for the handler.

**Slow handlers** outlive their step. The step is closed and committed without them, and again, as often as it takes. When the handler
returns, its run goes on in the middle of whatever step is under way, and its result is part of that step's transaction. At its time
limit a run is abandoned: its failure is judged in its place, and the lane gets another run. The thread of an abandoned handler is lost
until the handler returns. With too many of them lost the worker ends, and its process is replaced.

**Our own code** may fail in here as well. Such a failure must not look like the handler's. It is caught around everything (``steps``), and
its partition is built anew from what is committed: half of a step is in memory, and nobody knows which half.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from conversations.calls import Call
from conversations.dialog import Dialog, Draft
from conversations.errors import InvalidBody, PeerError, TimeLimitExceeded, Verdict
from conversations.lanes import Mark, Steps
from conversations.protocol import rows
from conversations.protocol.command import Resolve, concerns_partition
from conversations.protocol.envelope import Kind
from conversations.protocol.limits import STATE_BYTES
from conversations.protocol.states import State
from conversations.worker import (
    commands,
    decisions,
    dialog_commands,
    failures,
    inbound,
    outbound,
    parking,
    partition_commands,
    quarantine,
    switch,
)
from conversations.worker.active import NO_ROW, Active, Arrival, Deadline, Item, Lane, Order, Recorded
from conversations.worker.breakdowns import Condemned
from conversations.worker.partition import Partition
from conversations.worker.records import arrival_of
from conversations.worker.room import Room
from conversations.worker.task import Task

HANDLED = frozenset({Kind.MESSAGE, Kind.END, Kind.ERROR})
"""Kinds of envelopes that a handler may be called for."""
SETTLED = object()
"""Of an item: there is nothing to be done with it any more."""


def start_ready(partition: Partition, mark: Mark) -> None:
    """Start the runs of all lanes of a partition that have something to do.

    A lane has one run at a time, so one handler at a time. All runs are made before the first is started: one that is started may end at
    once, and put its lane back among the ready ones.
    """
    room = Room(partition)
    ready = [lane for lane in partition.work.take_ready() if lane.run is None and lane.items]
    runs = [lane.begin(steps(partition, lane, room)) for lane in ready]
    partition.work.start(runs, mark)


def steps(partition: Partition, lane: Lane, room: Room) -> Steps:
    """Work off a lane; yields each handler to call, is sent its exception or None. Holds the owner's lock in between.

    The run ends when its lane has nothing more to do, when the step's budget is spent, when the item at the head must be announced
    first, or when the run counts no more. A lane that has something left is taken up again by the next step.
    """
    # The budget ends a run between two items: the bytes that a step writes have a limit, and lanes go on with the next step.
    lock, brakes, breakdowns = partition.context.lock, partition.context.brakes, partition.context.breakdowns
    items, progress, item, run = lane.items, partition.progress, None, lane.run
    lock.acquire()
    try:
        while items and not partition.gone and not partition.context.budget.is_spent():
            item, held_back = items[0], False
            # Three questions before anything is done: is a failure being looked for, has the item its turn, did our code fail with it?
            if breakdowns.careful:
                partition.outbox.begin(item)
            if partition.work.suspicion is not None and not partition.work.suspicion.has_turn(item):
                partition.work.leave(lane)  # taken up again when it is announced
                return
            condemned = _condemned(partition, item) if breakdowns.condemned or item.suspect else None
            for first in () if condemned is SETTLED else _tasks(partition, item):
                task: Task | None = first
                while task is not None:
                    # Then three before the handler is called: is it held back, is it announced, is it given up on already?
                    if task.without or item.handler:
                        _begins(partition, item, task)
                    if progress.row.off or (brakes.peers and brakes.holds_back(item.park, task.active.endpoint.peer)):
                        task = _hold_back(partition, item, task)
                        held_back = task is None
                        continue
                    if partition.work.suspicion is not None and not _may_run(partition, lane, item, task):
                        return
                    if isinstance(condemned, Condemned):
                        failures.give_up_on_failed(partition, item, task, condemned.failure)
                        break
                    # The body is decoded here, with the lock held: a body that does not fit its type calls no handler.
                    draft = Draft(room, task.active)
                    try:
                        call = _call(item, task, draft)
                    except InvalidBody as error:
                        task = _invalid(partition, item, error)
                        continue
                    # From here until the lock is taken again everything may change but this lane.
                    lock.release()
                    failure = yield call
                    draft.close()
                    lock.acquire()
                    if run.abandoned or partition.gone:
                        return  # too late: its results are refused, and the lane has another run, or another owner
                    task = _outcome(partition, item, task, draft, call, failure)
            _finished(partition, lane, item, held_back=held_back)
            if partition.number in breakdowns.careful:
                break
        if lane.end():
            partition.work.go_on(lane)
    except GeneratorExit:
        # Abandoned while its handler ran: the lock is not held, and the lane is somebody else's now.
        lock.acquire()
        raise
    except BaseException as error:  # noqa: BLE001 - a bug of ours must reach the polling thread, whatever it is
        quarantine.failed(partition, item, error)
    finally:
        lock.release()


def _hold_back(partition: Partition, item: Item, task: Task) -> Task | None:
    """Let an item wait for its queue or the brake; return what to call instead where too much waits already."""
    switch.hold_back(partition, item, task.without)
    return inbound.too_much(partition, item, task)


def _tasks(partition: Partition, item: Item) -> Sequence[Task]:
    """Say what is to be done for an item; commands, and whatever calls no handler, are done at once."""
    is_owed = item.handler and not isinstance(item, Deadline)  # the record is settled, but not the error it was
    if item.park is not None and not is_owed and partition.parking.is_stale(item):
        return ()
    if item.handler:
        # It failed before, or waited to be announced: what asked for it is settled, and would not ask again. The endpoint only says
        # whether it is still owed: the timer may be set anew by now, or the dialog may be over.
        task = _running_task(partition, item)
        return () if task is None else (task,)
    if isinstance(item, Arrival):
        task = inbound.receive(partition, item)
        return () if task is None else (task,)
    if isinstance(item, Order):
        _carry_out(partition, item)
        return ()
    return _due(partition, item.active)


def _carry_out(partition: Partition, order: Order) -> None:
    """Do what a command says: about its partition, about a failed message, or about its dialog.

    All but ticks and the switch take effect once (``commands``). Those two may be repeated: they say how things are to be.
    """
    partition.context.counts.count_command()
    operations = order.command.operations
    if concerns_partition(order.command):
        partition_commands.carry_out(partition, order)
    elif any(isinstance(operation, Resolve) for operation in operations):
        commands.take_effect(partition, order, decisions.prepare)
    else:
        commands.take_effect(partition, order, dialog_commands.prepare)


def _may_run(partition: Partition, lane: Lane, item: Item, task: Task) -> bool:
    """Say whether a handler may be called; if not, its lane waits until it is announced, or goes on without it.

    An item is asked about before it is looked at, and its handler once more: a record that broke its dialog calls ``on_error``, which has a
    name of its own among the suspects.
    """
    suspicion = partition.work.suspicion
    died = suspicion.doom(item) if suspicion is not None else None
    if suspicion is None or (died is None and suspicion.may_run(item)):
        return True
    if died is not None:
        failures.give_up_on_killer(partition, item, task, died)
        _finished(partition, lane, item)
    partition.work.leave(lane)
    return False


def _condemned(partition: Partition, item: Item) -> Condemned | object | None:
    """Say whether our own code failed with an item before; what no policy can be applied to is set aside at once.

    The same goes for what processes died of. A command is set aside at the first failure: it has no policy.

    Returns None for nearly all; ``SETTLED`` when nothing is left to be done; else why its policy is to be applied without a call.
    """
    found, suspicion = quarantine.condemned(partition, item), partition.work.suspicion
    if found is None and suspicion is not None and (died := suspicion.doom(item)) is not None:
        # A message that processes die of is given up on where its handler would be called, unless it has none.
        if not _has_no_handler(item) and not suspicion.is_hopeless(item):
            return None
        found = Condemned(died)
    elif found is None or (found.times == 1 and not isinstance(item, Order)):
        return found
    quarantine.set_aside(partition, item, found)
    return SETTLED


def _has_no_handler(item: Item) -> bool:
    """Say whether no policy can be applied to an item, because nothing of it would ever call a handler."""
    return isinstance(item, Order) or (isinstance(item, Arrival) and item.envelope.kind not in HANDLED)


def _begins(partition: Partition, item: Item, task: Task) -> None:
    """Note which handler runs; if it is not that of the item's record, the record is settled and needs no row.

    So a successor that takes the item up from its rows calls the same handler, and does not take the record a second time.
    """
    if item.handler != task.without:
        item.run_handler(task.without)
    if task.without and isinstance(item, Recorded) and item.row != NO_ROW:
        partition.waiting.drop(item)


def _due(partition: Partition, active: Active) -> Sequence[Task]:
    """Do what deadlines ask for; each handler to run gets an item of its own, as each may fail by itself.

    The first is run for the item that is at the head now, the others follow at the end of the lane.
    """
    tasks = inbound.due(partition, active)
    for task in tasks[1:]:
        item = Deadline(active, handler=task.without)
        partition.work.suspect(item)
        active.lane.items.append(item)
    return tasks[:1]


def _call(item: Item, task: Task, draft: Draft) -> Call:
    """Make one run of a handler; its body is decoded afresh, so that a failed run leaves nothing behind.

    A handler gets what happened, and the dialog: a message has its body, an error its code, an end and a timer nothing.
    """
    envelope = item.envelope if isinstance(item, Arrival) else None
    edited = item.park.row.edited if item.park is not None else ""
    dialog: Dialog[object] = Dialog(draft, task.active, envelope, item.attempts + 1, edited)
    if task.codec is not None and envelope is not None:
        return Call(task.handler, (task.codec.decode(envelope.body), dialog))
    if task.error is not None:
        return Call(task.handler, (PeerError(task.error.code, task.error.description), dialog))
    return Call(task.handler, (dialog,))


def _invalid(partition: Partition, item: Item, error: InvalidBody) -> Task | None:
    """Break the dialog for a body that does not fit its type; return the task that comes in the handler's place."""
    if not isinstance(item, Arrival):
        raise error  # only a message has a body
    return inbound.invalid(partition, item, error)


def _outcome(
    partition: Partition, item: Item, task: Task, draft: Draft, call: Call, failure: BaseException | None
) -> Task | None:
    """Carry out a handler's requests, or charge its failure; return the task when it is to be run again."""
    active = task.active
    # State is encoded before anything is applied: when it cannot be, the handler has failed and its draft is thrown away.
    if failure is None and draft.has_state:
        failure = _keep_state(partition, active, draft.outcome)
    if failure is not None:
        return None if failures.judge(partition, item, task, failure) else task
    if partition.progress.row.rollbacks:
        partition.progress.succeeded()  # only rollbacks in a row turn a queue off
    brakes = partition.context.brakes
    if brakes.is_counting or brakes.peers or not brakes.well.get(active.endpoint.peer):
        failures.succeeded(partition, item, active.endpoint.peer)
    if partition.parking.retries:
        partition.parking.forget_retry(active, task.without, parking.HANDLED)
    # The draft first, in the order it was written; then the end of the message, which may end the dialog.
    if draft.asks:
        outbound.apply(partition, draft)
    if task.finish is not None:
        task.finish(partition, active)
    elif task.codec is not None and isinstance(item, Arrival):
        inbound.handled(partition, item, call.arguments[0])
    if active.endpoint.state is State.CLOSED:
        outbound.close(partition, active)
    return None


def _keep_state(partition: Partition, active: Active, state: object) -> BaseException | None:
    """Write the group's state if it changed; state that cannot be encoded is a failure of its handler.

    Each handler got a fresh copy of the state. Only the copy of a handler that succeeded is encoded, and compared with what is kept: a
    handler that only reads costs no row.
    """
    codec = partition.context.service.state
    try:
        data = codec.encode(state)
    except (Exception, Verdict) as error:  # noqa: BLE001 - state is the application's: its encoding may raise anything
        return error
    if len(data) > STATE_BYTES:
        return ValueError(f"group.state has {len(data)} bytes as JSON; at most {STATE_BYTES} can be kept")
    group = partition.groups.of(active.lane)
    if group.state != data or group.version != codec.version:
        group.keep(data, codec.version)
        partition.progress.keep_state(codec.version)
        partition.groups.save(active.lane)
        active.endpoint.wrote_state()
        partition.touch(active)
    return None


def check_time_limits(partition: Partition) -> None:
    """Give up on runs of handlers that are past their limit.

    The lock is taken only for runs that seem to be late, and each is asked again under the lock.
    """
    now = time.monotonic()
    for lane, run in list(partition.work.slow.items()):
        if run.overdue(now):
            with partition.context.lock:
                # Asked again: meanwhile it may have returned, and the next have begun.
                if lane.run is run and run.overdue(now):
                    partition.work.abandon(run)
                    overdue(partition, lane)


def drain(partition: Partition, deadline: float) -> None:
    """Wait for the handlers that run, until ``deadline`` of the monotonic clock; what still runs then stays a row."""
    with partition.context.lock:
        runs = partition.work.runs
    for run in runs:
        while not run.done and time.monotonic() < deadline and run.mark is not None:
            run.mark.wait(0.05)


def overdue(partition: Partition, lane: Lane) -> None:
    """Charge the handler at a lane's head with a time-out and let the lane go on.

    The handler itself cannot be stopped. Whatever it does from now on is refused: its run is abandoned, and its draft is never applied.
    """
    item = lane.items[0]
    task = _running_task(partition, item)
    lane.end()
    partition.progress.change()  # the attempt is to be committed, also when nothing else is
    if task is None or failures.judge(
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
        return inbound.broken(partition, active)
    return inbound.deliver(partition, item) if isinstance(item, Arrival) else None


def _timer(partition: Partition, active: Active) -> Task | None:
    """Say which handler a timer calls that fired before, and waited.

    None where this release declares none: the timer is over then, or it would wait for ever.
    """
    task = inbound.timer(active)
    if task is None:  # this release has no handler for it
        partition.parking.forget_retry(active, rows.TIMER, parking.ENDED)
        partition.touch(active)
    return task


# -- afterwards ----------------------------------------------------------------------------------------------------


def _finished(partition: Partition, lane: Lane, item: Item, *, held_back: bool = False) -> None:
    """An item is settled, or waits elsewhere: drop its row, and let what was held behind it follow.

    ``held_back``: its handler was not called, as the queue is off or the brake is on; a suspicion stays with it.
    """
    items = lane.items
    items.popleft()
    # Its waiting row goes with the transaction that carries its result: until then a successor would handle it.
    if item.row != NO_ROW and isinstance(item, Recorded):
        partition.waiting.drop(item)
    if partition.work.suspicion is not None:
        partition.work.suspicion.finished(item, tried=not held_back)
    if item.park is not None:
        partition.parking.head_done(item)
    active = item.active
    # A gap may have closed: the message behind it comes to the front, before whatever else the lane has to do.
    if not active.exists or not active.endpoint.inbound.held:
        return
    number = active.endpoint.inbound.ready()
    if number is None:
        return
    row = partition.waiting.take_held(active.identity, number)
    if row is not None:
        lane.items.appendleft(arrival_of(active, row))
