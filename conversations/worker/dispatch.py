"""The work of a lane, one item after the other. Each item is worked on until its handlers have finished, or its message is given up on.

A run is a generator (``steps``). It yields one handler call after the other. After each call the scheduler sends it the exception that the
handler raised, or None. The scheduler decides on which thread a handler runs; the run itself never waits for a handler. **The lock** of
the worker is held while the generator's own code runs, and released while a handler runs:

    lock ── take the head of the lane ── what is to be done? ── draft, call ──┐ yield: unlocked, the handler runs
      ▲                                                                       │
      └── next task or next item ◄── apply the draft, or judge the failure ◄──┘ locked again

The head of a lane stays in the lane until the head is settled. A step may be closed while the handler of the head runs. Then the
module ``departure`` finds the head there, and keeps it as a row. If the partition moves to another worker, that worker finds the row.
After each handler call, the run checks whether the result may still be used. The result is dropped in two cases: the run was
**abandoned**, because its handler took too long, or the partition is **gone**, because it belongs to another worker.

Each kind of item leads to handler calls in its own way (``_tasks``):

* an ``Arrival`` goes to its endpoint (``inbound``). The result is one handler to call, or none;
* an ``Order`` is carried out at once and calls no handler (``dialog_commands``, ``partition_commands``, ``decisions``);
* for a ``Deadline``, the endpoint lists its passed deadlines. Each handler to run gets its own item, because each handler may fail
  independently.

If a handler fails and is tried again later, its item is made again from a row. The new item refers to its park. For the handler of a timer
or of an error, the new item is always a ``Deadline``.

**A handler works on a draft** (``conversations.draft``). The draft checks each request of the handler, as if the earlier requests had
already taken effect. The draft itself changes nothing. So the requests of a handler that fails have no effect. When the draft is applied,
no request can be refused any more, because only this lane changes its endpoints, and the lane has waited for the handler.

**Slow handlers** run longer than their step. This step, and perhaps many later steps, are closed and committed without the results of the
slow handlers. When a slow handler returns, its run continues during the present step. The result becomes part of the present step's
transaction. When a handler reaches its time limit, its run is abandoned. The failure is judged, and the lane gets another run. The thread
of an abandoned handler is lost until the handler returns. If too many threads are lost, the worker ends, and its process is replaced.

**Our own code** may fail here as well. Such a failure must not be mistaken for a failure of the handler. So ``steps`` catches every
exception. The partition is rebuilt from its committed rows, because its state in memory may contain half of a step.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final, cast

from conversations.bodies import may_fit_elsewhere
from conversations.calls import Call
from conversations.draft import Draft
from conversations.errors import InvalidBody, TimeLimitExceeded, Verdict
from conversations.protocol import rows
from conversations.protocol.command import Piece, Resolve, Reuse, concerns_partition
from conversations.protocol.limits import STATE_BYTES
from conversations.protocol.states import State
from conversations.scheduler import Mark, Run, Steps
from conversations.worker import (
    commands,
    decisions,
    dialog_commands,
    failures,
    inbound,
    outbound,
    parking,
    partition_commands,
    pieces,
    pooled,
    quarantine,
    queue_switch,
)
from conversations.worker.active import NO_ROW, Active, Arrival, Deadline, Item, Lane, Order, Recorded
from conversations.worker.breakdowns import Condemned
from conversations.worker.handler_calls import call_of, span_of, traced
from conversations.worker.partition import Partition
from conversations.worker.records import arrival_of
from conversations.worker.room import Room
from conversations.worker.task import Task

SETTLED: Final = object()
"""Result of ``_condemned`` for an item that is settled: no task is left."""


def start_ready(partition: Partition, mark: Mark) -> None:
    """Start the runs of all lanes of a partition that have something to do.

    A lane has one run at a time, and so one handler at a time. All runs are made before the first run is started, because a run may end
    as soon as it starts. Then this run may put its lane back among the ready lanes.
    """
    room = Room(partition)
    ready = [lane for lane in partition.work.take_ready() if lane.run is None]
    runs = [lane.begin(steps(partition, lane, room)) for lane in ready]
    partition.work.start(runs, mark)


def steps(partition: Partition, lane: Lane, room: Room) -> Steps:
    """Work through the items of a lane. Yield each handler call; receive the handler's exception or None. Hold the lock between the calls.

    The run ends in five cases: the lane has no items left, the step's budget is spent, the item at the head must be announced first, the
    run is abandoned, or the partition is gone. While the worker searches the partition for a record that makes steps fail, the run ends
    after one item. If items are left in a partition that is not gone, the next step continues with the lane.
    """
    # If the budget is spent, the run ends between two items, because the bytes of a step are limited. The next step goes on with the lane.
    lock, brakes, breakdowns, took, progress, item, run = (
        partition.context.lock, partition.context.brakes, partition.context.breakdowns, partition.context.counts.durations.took,
        partition.progress, None, cast("Run", lane.run),
    )  # fmt: skip
    lock.acquire()
    try:
        while (item := lane.peek()) is not None and not partition.gone and not partition.context.budget.is_spent():
            held_back = False
            # Three checks before the item is touched: do we search for a record that makes steps fail, may the item run, is it condemned?
            if breakdowns.careful:
                partition.outbox.begin(item)
            if partition.work.suspicion is not None and not partition.work.suspicion.has_turn(item):
                partition.work.leave(lane)  # the lane continues when the item is announced
                return
            condemned = _condemned(partition, item) if breakdowns.condemned or item.suspect else None
            for first in () if condemned is SETTLED else _tasks(partition, item):
                task: Task | None = first
                while task is not None:
                    # Three checks before the handler is called: is the item held back, is it announced, is it given up on without a call?
                    if task.without or item.handler:
                        _begins(partition, item, task)
                    if progress.row.off or (brakes.peers and brakes.holds_back(item.park, task.active.endpoint.peer)):
                        task = _hold_back(partition, item, task)
                        held_back = task is None
                        continue
                    if partition.work.suspicion is not None and not _may_run(partition, lane, item, task):
                        return
                    if (condemned or breakdowns.refused) and _is_given_up(partition, item, task, condemned):
                        break
                    # ``call_of`` decodes the body while the lock is held. If the message is unfit, no handler is called.
                    draft = Draft(room, task.active)
                    try:
                        call = call_of(
                            item,
                            task,
                            draft,
                            None if room.tracing is None else span_of(partition, item, task, room.tracing),
                        )
                    except InvalidBody as unfit:
                        task = _unfit(partition, item, task, unfit)
                        continue
                    # Until the lock is acquired again, everything except the endpoints of this lane may change.
                    lock.release()
                    failure = yield call
                    draft.close()
                    lock.acquire()
                    if run.abandoned or partition.gone:
                        return  # too late: its results are refused, and the lane has another run, or another owner
                    took[call.handler.name].append(run.took)
                    task = (
                        _outcome(partition, item, task, draft, call, failure)
                        if call.span is None
                        else _traced_outcome(partition, item, task, draft, call, failure)
                    )
            _finished(partition, lane, item, held_back=held_back)
            if partition.number in breakdowns.careful:
                break
        if lane.end():
            partition.work.go_on(lane)
    except GeneratorExit:
        # This run was abandoned while its handler ran, and Python closes its generator. The lock is not held, and the lane has another run.
        lock.acquire()
        raise
    except BaseException as error:  # noqa: BLE001 - every bug of ours must reach the polling thread
        quarantine.failed(partition, item, error)
    finally:
        lock.release()
    yield None


def _hold_back(partition: Partition, item: Item, task: Task) -> Task | None:
    """Let an item wait until the queue is on, or the brake is off.

    If too much is parked, break the item's dialog, and return the task for ``on_error``.
    """
    queue_switch.hold_back(partition, item, task.without)
    return inbound.too_much(partition, item, task)


def _tasks(partition: Partition, item: Item) -> Sequence[Task]:
    """Return the tasks of an item: the handlers to call. Commands, and envelopes that call no handler, are carried out here at once."""
    is_owed = item.handler and not isinstance(item, Deadline)  # the record is settled, and a handler must still run
    if item.park is not None and not is_owed and partition.parking.is_stale(item):
        return ()
    if item.handler:
        # A handler without a message failed before, or waited for its turn. The record or deadline that led to this handler is settled,
        # and is not carried out again. Meanwhile the timer may have been set anew, or the dialog may have ended. So the state of the
        # endpoint decides whether the handler must still run.
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
    """Carry out a command about its partition, about a failed message, or about its dialog.

    The module ``commands`` makes sure that a command takes effect only one time. Ticks, and commands that turn the queue on or off, do not
    need this check, because a repetition of them changes nothing.
    """
    partition.context.counts.count_command()
    operations = order.command.operations
    partition.transmission.carried.carry(order.trace)
    if (refusal := commands.misplaced(partition, order)) is not None:
        commands.refuse(partition, order, refusal)
    elif isinstance(operations[0], Piece) and len(operations) == 1:
        pieces.take(partition, order, operations[0], _carry_out)
    elif concerns_partition(order.command):
        partition_commands.carry_out(partition, order)
    elif isinstance(operations[0], Reuse):
        commands.take_effect(partition, order, pooled.prepare)
    elif any(isinstance(operation, Resolve) for operation in operations):
        commands.take_effect(partition, order, decisions.prepare)
    else:
        commands.take_effect(partition, order, dialog_commands.prepare)
    partition.transmission.carried.carry(b"")


def _may_run(partition: Partition, lane: Lane, item: Item, task: Task) -> bool:
    """Return True if a handler may be called. If not, the lane waits until the item is announced, or the item is given up on here.

    A suspect item is checked twice: before its record is carried out, and again before its handler is called. Between the two checks, the
    name of the item may have changed. For example, if the record broke its dialog, ``on_error`` is called. This call is announced under
    another name than the record.
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
    """Check whether our own code failed with an item before, or whether the item killed too many processes.

    Such an item is given up on by its policy, without a call of its handler. A command has no policy, so it is set aside here after the
    first failure of our own code. Other items are set aside after the second failure, because then our own code failed even while it gave
    up on the item. An item that killed too many processes is set aside if it never calls a handler, or if a process died even while it
    gave up on the item.

    Returns:
        None for nearly all items; ``SETTLED`` if the item was set aside; else a ``Condemned`` with the failure for the policy.
    """
    found, suspicion = quarantine.condemned(partition, item), partition.work.suspicion
    if found is None and suspicion is not None and (died := suspicion.doom(item)) is not None:
        # An item with a handler is given up on later, when its handler would be called. All other items, and hopeless items, are set aside.
        if not quarantine.has_no_handler(item) and not suspicion.is_hopeless(item):
            return None
        found = Condemned(died)
    elif found is None or (found.times == 1 and not isinstance(item, Order)):
        return found
    quarantine.set_aside(partition, item, found)
    return SETTLED


def _is_given_up(partition: Partition, item: Item, task: Task, condemned: Condemned | object | None) -> bool:
    """Give up on an item without a call of its handler, if our code failed with it, or if a topic refuses what the handler publishes."""
    if isinstance(condemned, Condemned):
        failures.give_up_on_failed(partition, item, task, condemned.failure)
        return True
    refusal = quarantine.refused(partition, item, task)
    if refusal is None:
        return False
    failures.give_up_on_refused(partition, item, task, refusal)
    return True


def _begins(partition: Partition, item: Item, task: Task) -> None:
    """Note which handler runs for an item. For a timer or an error, the item's record is settled, and its waiting row is deleted.

    So the next owner of the partition calls the same handler, and does not carry out the record a second time.
    """
    if item.handler != task.without:
        item.run_handler(task.without)
    if not item.needs_record and isinstance(item, Recorded) and item.row != NO_ROW:
        partition.waiting.drop(item)


def _due(partition: Partition, active: Active) -> Sequence[Task]:
    """Carry out the passed deadlines of an endpoint; return the first task, if any.

    Each handler to run gets its own item, because each handler may fail independently. The first handler runs for the present head of the
    lane. The items for the other handlers go to the end of the lane.
    """
    if active.endpoint.initiator and partition.successions.is_due(active.endpoint, partition.context.now):
        pooled.replace(partition, active)
    tasks = inbound.due(partition, active)
    for task in tasks[1:]:
        item = Deadline(active, handler=task.without)
        partition.work.suspect(item)
        active.lane.put(item)
    return tasks[:1]


def _unfit(partition: Partition, item: Item, task: Task, error: InvalidBody) -> Task | None:
    """Give up on an unfit message. If its dialog breaks, return the task for ``on_error``, if there is one."""
    if not isinstance(item, Arrival) or task.codec is None:
        raise error  # only a message has a body
    may_fit = may_fit_elsewhere(task.codec, item.envelope.body)
    if may_fit and failures.give_up_on_unfit(partition, item, task, error):
        return None
    return inbound.invalid(partition, item, error)


def _outcome(
    partition: Partition, item: Item, task: Task, draft: Draft, call: Call, failure: BaseException | None
) -> Task | None:
    """Carry out the requests of a handler that succeeded, or judge its failure. Return the task if its handler must run again at once."""
    active = task.active
    # The group's state is encoded before the draft is applied. If it cannot be encoded, the handler has failed, and the draft is dropped.
    failure = failure or draft.newer_state
    if failure is None and draft.deletes_state:
        failure = _delete_state(partition, active)
    elif failure is None and draft.has_state:
        failure = _keep_state(partition, active, draft.outcome)
        if failure is not None:
            call.refuse(failure)
    if failure is not None:
        return None if failures.judge(partition, item, task, failure) else task
    if partition.progress.row.rollbacks:
        partition.progress.succeeded()  # the count begins again, because only rollbacks in a row turn a queue off
    brakes = partition.context.brakes
    if brakes.is_counting or brakes.peers or not brakes.well.get(active.endpoint.peer):
        failures.succeeded(partition, item, active.endpoint.peer)
    if partition.parking.retries:
        partition.parking.forget_retry(active, task.without, parking.HANDLED)
    # The draft is applied first, in the order of its requests. Then the message is settled, which may end the dialog.
    if draft.asks:
        outbound.apply(partition, draft)
    if draft.pooled is not None:
        pooled.append(partition, draft.pooled)
    if draft.publications is not None:
        records = draft.publications.records
        if call.span is not None:
            records = traced(records, call.span)
        partition.outbox.publish(records, quarantine.called(item, task))
    if task.finish is not None:
        task.finish(partition, active)
    elif task.codec is not None and isinstance(item, Arrival):
        inbound.handled(partition, item, call.arguments[0])
    if active.endpoint.state is State.CLOSED:
        outbound.close(partition, active)
    return None


def _traced_outcome(
    partition: Partition, item: Item, task: Task, draft: Draft, call: Call, failure: BaseException | None
) -> Task | None:
    """Do what ``_outcome`` does, and give what is sent meanwhile the trace context of the call."""
    if call.span is not None:
        partition.transmission.carried.carry(call.span.trace)
    again = _outcome(partition, item, task, draft, call, failure)
    partition.transmission.carried.carry(b"")
    return again


def _keep_state(partition: Partition, active: Active, state: object) -> BaseException | None:
    """Write the group's state if it changed. Return an exception if the state cannot be encoded or is too large: the handler has failed.

    Each handler gets its own copy of the state. After a handler has succeeded, its copy is encoded and compared with the stored state. So
    no row is written if the handler only read stored state.
    """
    codec, group = partition.context.service.state, partition.groups.of(active.lane)
    if group.state and group.version > codec.version:
        return codec.newer(group.version)
    try:
        encoded = data = codec.encode(state)
        if group.state and group.version == codec.version and not group.is_known:
            data = codec.with_unknown(encoded, group.state)
    except (Exception, Verdict) as error:  # noqa: BLE001 - the application encodes its state, and may raise anything
        return error
    if len(data) > STATE_BYTES:
        return ValueError(f"group.state has {len(data)} bytes as JSON; at most {STATE_BYTES} can be kept")
    if not group.state and active.lane.name[0] == rows.SHARED and data == codec.encode(codec.new()):
        return None  # the row of such a group stays for ever, so reading alone makes no row
    if group.state != data or group.version != codec.version:
        group.keep(data, codec.version, is_known=data is encoded)
        partition.progress.keep_state(codec.version)
        partition.groups.save(active.lane)
        active.endpoint.wrote_state()
        partition.touch(active)
    return None


def _delete_state(partition: Partition, active: Active) -> BaseException | None:
    """Delete the group's state. Its row stays as long as it has members. Return an exception if the state is of a newer version."""
    codec, group = partition.context.service.state, partition.groups.of(active.lane)
    if codec.version < group.version:
        return codec.newer(group.version)
    if group.state:
        group.keep(b"", 0)
        partition.groups.save(active.lane)
        partition.touch(active)
    return None


def check_time_limits(partition: Partition) -> None:
    """Abandon runs whose handler is past its time limit.

    The lock is acquired only for a run that seems overdue. Such a run is checked again under the lock.
    """
    now = time.monotonic()
    for lane, run in list(partition.work.slow.items()):
        if run.overdue(now):
            with partition.context.lock:
                # Check again: meanwhile the handler may have returned, and the next handler may have begun.
                if lane.run is run and run.overdue(now):
                    partition.work.abandon(run)
                    overdue(partition, lane)


def drain(partition: Partition, deadline: float) -> None:
    """Wait for running handlers until ``deadline`` on the monotonic clock. The messages of unfinished handlers stay in waiting rows."""
    with partition.context.lock:
        runs = partition.work.runs
    for run in runs:
        while not run.done and time.monotonic() < deadline and run.mark is not None:
            run.mark.wait(0.05)


def overdue(partition: Partition, lane: Lane) -> None:
    """Treat the handler of a lane's head as failed, because it ran too long. Let the lane continue with another run.

    The caller has abandoned the run of the handler. The handler itself cannot be stopped, but its later requests are refused, and its
    draft is never applied.
    """
    item = lane.head
    task = _running_task(partition, item)
    lane.end()
    # A failed attempt is written only by a step that commits something. So the partition's row is changed here, to have a commit.
    partition.progress.change()  # the attempt is to be committed, also when nothing else is
    if task is None or failures.judge(
        partition, item, task, TimeLimitExceeded(f"{task.handler.name} ran longer than {task.handler.time_limit:g} s")
    ):
        _finished(partition, lane, item)
    partition.work.resume(lane)


def _running_task(partition: Partition, item: Item) -> Task | None:
    """Return the task of an item whose handler ran before, or waits to run. Return None if no handler must run for the item any more."""
    active = item.active
    if not active.exists:
        return None
    if rows.is_timer(item.handler):
        name = rows.timer_of(item.handler)
        return _timer(partition, active, name) if active.endpoint.is_firing(name) else None
    if item.handler == rows.ERROR:
        return inbound.broken(partition, active, by="")
    if item.handler == rows.SKIPPED and item.park is not None:
        return inbound.skipped(partition, active, item.park.row.skipped)
    return inbound.deliver(partition, item) if isinstance(item, Arrival) else None


def _timer(partition: Partition, active: Active, name: str) -> Task | None:
    """Return the task for a timer that fired earlier, if its handler must still run.

    If this release of the service declares no handler for timers, end the timer and return None. Otherwise the timer would wait for ever.
    """
    task = inbound.timer(active, name)
    if task is None:  # this release of the service has no handler for timers
        partition.parking.forget_retry(active, rows.timer_handler(name), parking.ENDED)
        partition.touch(active)
    return task


# -- afterwards ----------------------------------------------------------------------------------------------------


def _finished(partition: Partition, lane: Lane, item: Item, *, held_back: bool = False) -> None:
    """Take a settled or parked item out of its lane, and delete its waiting row.

    If a gap has closed, put the held message after the gap at the front of the lane.

    ``held_back``: the handler was not called, because the queue is off or the brake is on. Then earlier deaths of processes still count
    against the item.
    """
    lane.take_head()
    # The transaction with the result deletes the waiting row. If this transaction fails, another owner finds the row and handles the item.
    if item.row != NO_ROW and isinstance(item, Recorded):
        partition.waiting.drop(item)
    if partition.work.suspicion is not None:
        partition.work.suspicion.finished(item, tried=not held_back)
    if item.park is not None:
        partition.parking.head_done(item)
    active = item.active
    # If a gap has closed, the held message after it goes to the front of the lane, before the lane's other items.
    if not active.exists or not active.endpoint.inbound.held:
        return
    number = active.endpoint.inbound.ready()
    if number is None:
        return
    row = partition.waiting.take_held(active.identity, number)
    if row is not None:
        lane.put_first(arrival_of(active, row))
