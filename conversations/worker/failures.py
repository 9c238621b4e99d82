"""What follows when a handler fails: it runs again, it waits, or its message is given up on.

Three questions are asked of each failure, in this order:

1. **Is it the message's doing?** When handlers of many dialogs fail at once the brake goes on for their peer. A message that fails then
   waits as if it had not been tried: no attempt is charged, nothing is given up on.
2. **Is it tried again?** The service's policies decide (``conversations.poison``). An attempt without a wait follows at once, in its run. One
   with a wait is parked: its dialog waits behind it, and other dialogs of the lane go on.
3. **If not, what becomes of it?** The policy says that too:

   ==============  =====================================================================================================
   END_DIALOG      a dead letter; the dialog ends with an error, and its peer is told
   SKIP            a dead letter; the peer is told the number; the dialog goes on with the next message
   HOLD            an open letter; the message stays the head of its dialog until an operator decides
   DISABLE_QUEUE   no letter; the queue is off, and the message is tried again once it is on
   ==============  =====================================================================================================

Two kinds of failure never reach a handler. A message that processes died of is given up on without being called (``suspicion``). So is
a message around whose handler our own code failed (``quarantine``), unless that happens too often in a row: then the queue is off.

A handler without a message, of a timer or of an error, has no letter to write and no dialog that waits behind it. It only waits itself.
"""

from __future__ import annotations

import logging
from datetime import timedelta

from conversations.bodies import said
from conversations.errors import ProcessDied, StateDamaged
from conversations.poison import End, Retry, Subject, Then, decide, last, members
from conversations.protocol import letters, rows
from conversations.protocol.endpoint import NEVER
from conversations.protocol.events import BrakeOff, BrakeOn, ConversationId, GaveUp
from conversations.protocol.identifiers import uuid_text
from conversations.protocol.states import OPEN_STATES
from conversations.protocol.times import later
from conversations.worker import outbound, parking, switch
from conversations.worker.active import Arrival, Item
from conversations.worker.partition import Partition
from conversations.worker.task import Task

log = logging.getLogger("conversations.worker")

SOONEST = timedelta(milliseconds=100)
"""A wait at least: a handler that asks to be called again at once keeps nobody busy."""
TEXT_LIMIT = 1_000


def text_of(failure: BaseException) -> str:
    """Describe an exception in one line."""
    return f"{type(failure).__name__}: {said(failure)[:TEXT_LIMIT]}"


def judge(partition: Partition, item: Item, task: Task, failure: BaseException) -> bool:
    """Charge a failed run; False when the handler is to be run again at once, True when the lane goes on without it."""
    for member in members(failure):
        if isinstance(member, StateDamaged):
            raise member  # not the handler's doing
    context, active = partition.context, task.active
    context.counts.count_failure()
    facts = {"conversation": uuid_text(active.identity[:16]), "attempt": item.attempts + 1}
    what = _what(item, task)
    decision = decide(failure, item.attempts + 1, context.service.poison, _subject(item, task))
    if (not isinstance(decision, Retry) or decision.counts) and _is_braked(partition, item, task, failure):
        return True
    if not isinstance(decision, Retry) or decision.counts:
        item.charge()
    if not isinstance(decision, Retry):
        log.error("handler of %s failed (attempt %d), giving up", what, item.attempts, exc_info=failure, extra=facts)
        give_up(partition, item, task, failure, decision)
        return True
    text = text_of(failure)
    if decision.counts and not decision.after:
        log.warning("handler of %s failed (attempt %d): %s", what, item.attempts, text, extra=facts)
        return False
    log.warning("%s waits for its next attempt (%d failed): %s", what, item.attempts, text, extra=facts)
    wait = max(decision.after + decision.jitter * context.chance(), SOONEST) // timedelta(microseconds=1)
    partition.parking.let_wait(item, task.without, later(context.now, wait), text)
    return True


def give_up_on_failed(partition: Partition, item: Item, task: Task, failure: Exception) -> None:
    """Apply the policy of a message around whose handler our own code failed; too many in a row turn the queue off."""
    context, row = partition.context, partition.progress.row
    context.counts.count_failure()
    partition.progress.rolled_back()
    limit = context.settings.rollbacks
    if limit is not None and row.rollbacks >= limit and not row.off:
        by = f"{row.rollbacks} rollbacks in a row"
        switch.turn_off(partition, switch.ROLLBACKS, by, text_of(failure))
        switch.hold_back(partition, item, task.without)
        return
    if not _is_braked(partition, item, task, failure):
        item.charge()
        give_up(partition, item, task, failure, last(failure, context.service.poison, _subject(item, task)))


def give_up_on_killer(partition: Partition, item: Item, task: Task, died: ProcessDied) -> None:
    """Give up on a message that processes died of, without calling its handler."""
    partition.context.counts.count_failure()
    item.charge()
    log.error("giving up on %s without calling it: %s", task.handler.name, died)
    give_up(partition, item, task, died, last(died, partition.context.service.poison, _subject(item, task)))


def _is_braked(partition: Partition, item: Item, task: Task, failure: BaseException) -> bool:
    """While the brake is on, and when this failure puts it on, a message waits as if it had not been tried."""
    context, peer = partition.context, task.active.endpoint.peer
    text = text_of(failure)
    count = context.brakes.failed(peer, task.active.identity, context.now)
    if count:
        log.error(
            "%s: %d dialogs failed within a short time, the dialogs of %s go on one by one: %s",
            context.name,
            count,
            peer,
            text,
        )
        partition.letters.event(BrakeOn(count, peer, text))
    braked = peer in context.brakes.peers
    if braked:
        partition.parking.let_wait(item, task.without, rows.QUEUE_ON, text)
    return braked


def succeeded(partition: Partition, item: Item, peer: str) -> None:
    """Count a handler that succeeded; the brake is off for a peer whose tried message did."""
    context = partition.context
    if context.brakes.tries(item.park, peer):
        context.brakes.over(peer)
        log.warning("%s: a message of %s was handled again, going on with all of them", context.name, peer)
        partition.letters.event(BrakeOff(peer))
    context.brakes.succeeded(peer)


def _subject(item: Item, task: Task) -> Subject:
    contract = task.active.endpoint.contract
    if isinstance(item, Arrival) and task.codec is not None:
        return Subject(contract, item.envelope.message_type)
    return Subject(contract, None)


def _what(item: Item, task: Task) -> str:
    """Name what failed: the type of a message, else the handler."""
    message_type = item.envelope.message_type if isinstance(item, Arrival) else ""
    return message_type or task.handler.name


def give_up(partition: Partition, item: Item, task: Task, failure: BaseException, decision: End) -> None:
    """Apply the policy, and report it."""
    then = decision.then
    if item.park is not None:
        partition.parking.returned(item.park, parking.FAILED)
    if then is Then.HOLD:
        _hold(partition, item, task, failure)
    elif then is Then.SKIP:
        _skip(partition, item, task, failure)
    elif then is Then.DISABLE_QUEUE:
        _disable_queue(partition, item, task, failure)
    else:
        _end_dialog(partition, item, task, failure, decision)
    conversation = ConversationId(uuid_text(task.active.identity[:16]))
    code = decision.code if then is Then.END_DIALOG else 0
    partition.letters.event(GaveUp(conversation, then.value, code, text_of(failure)))


def _hold(partition: Partition, item: Item, task: Task, failure: BaseException) -> None:
    """Nothing is settled: the message waits as the head of its dialog, and its letter is open."""
    if not parking.has_message(item, task.without):
        partition.parking.postpone(item, NEVER, text_of(failure))
        return
    partition.letters.dead_letter(item, letters.HANDLER_FAILED, failure=failure, held=True)
    partition.parking.park(item, NEVER, text_of(failure))


def _disable_queue(partition: Partition, item: Item, task: Task, failure: BaseException) -> None:
    """The message stays the head of its dialog, without a letter, and is tried again once the queue is on."""
    partition.parking.let_wait(item, task.without, rows.QUEUE_ON, text_of(failure))
    switch.turn_off(partition, switch.POLICY, _what(item, task), text_of(failure))


def _skip(partition: Partition, item: Item, task: Task, failure: BaseException) -> None:
    active = task.active
    partition.parking.forget_retry(active, task.without, parking.FAILED)
    if parking.has_message(item, task.without):
        partition.letters.dead_letter(item, letters.HANDLER_FAILED, failure=failure)
    if task.codec is not None and isinstance(item, Arrival):
        active.endpoint.gave_up_on()
        outbound.tell_skipped(partition, active, item.envelope.seq)
    elif task.finish is not None:
        task.finish(partition, active)


def _end_dialog(partition: Partition, item: Item, task: Task, failure: BaseException, decision: End) -> None:
    active = task.active
    partition.parking.forget_retry(active, task.without, parking.FAILED)
    if parking.has_message(item, task.without):
        partition.letters.dead_letter(item, letters.HANDLER_FAILED, failure=failure, code=decision.code)
        if task.codec is not None:
            active.endpoint.gave_up_on()
    if active.endpoint.state in OPEN_STATES:
        outbound.end_with_error(partition, active, decision.code, decision.description)
    elif task.finish is not None:
        task.finish(partition, active)
    outbound.close(partition, active)
