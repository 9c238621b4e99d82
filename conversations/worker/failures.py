"""Failures of handlers. After a failure, the handler runs again at once or later, or its message is given up on.

Each failure leads to three questions, in this order:

1. **Is the message the cause?** If handlers of many dialogs fail within a short time, the brake goes on for their peer. If a message fails
   while the brake is on, the message waits as if it had not been tried. The attempt is not counted, and the message is not given up on.
2. **Is the handler called again?** The service's policies decide (``conversations.poison``). With a delay of zero, the same run calls the
   handler again at once. With a longer delay, the message is parked: its dialog waits behind it, and other dialogs of the lane go on.
3. **If the handler is not called again, what happens to the message?** The policy decides this too:

   ==============  =====================================================================================================
   END_DIALOG      a dead letter; the dialog ends with an error, and an ERROR goes to the peer
   SKIP            a dead letter; an ACK tells the peer the skipped number; the dialog goes on with the next message
   HOLD            a dead letter marked as held; the message stays the head of its dialog until an operator decides
   DISABLE_QUEUE   no letter; the queue is turned off, and the message is tried again when the queue is on
   ==============  =====================================================================================================

Four kinds of message are given up on without a call of their handler. The first is a message that killed too many processes
(``suspicion``). The second is a message with which our own code failed (``quarantine``). If our own code fails too often in a row, the queue
is turned off instead. The third is an unfit message: this release does not know its type, or its body does not fit its type. The fourth is a
message whose handler published a record that its topic refuses.

The handler of a timer or of an error has no message. So there are no bytes for a dead letter, and no dialog waits behind this handler. Only
the handler itself waits.
"""

from __future__ import annotations

import logging
from datetime import timedelta

from conversations.bodies import said
from conversations.errors import InvalidBody, NewerState, ProcessDied, PublicationRefused, StateDamaged
from conversations.poison import End, Retry, Subject, Then, decide, last, members
from conversations.protocol import letters
from conversations.protocol.endpoint import NEVER
from conversations.protocol.events import BrakeOff, BrakeOn, ConversationId, GaveUp
from conversations.protocol.identifiers import uuid_text
from conversations.protocol.park_row import QUEUE_ON
from conversations.protocol.states import OPEN_STATES
from conversations.protocol.times import later
from conversations.worker import outbound, parking, queue_switch
from conversations.worker.active import Arrival, Item
from conversations.worker.partition import Partition
from conversations.worker.task import Task

log = logging.getLogger("conversations.worker")

SOONEST = timedelta(milliseconds=100)
"""Shortest wait of a parked handler. Without it, a handler that always asks to be called again at once would keep the worker busy."""
TEXT_LIMIT = 1_000
NAME_LIMIT = 200
"""Maximum number of characters of a message type's name in the log and in events. An unknown type may have a name of any length."""


def text_of(failure: BaseException) -> str:
    """Describe an exception in one line."""
    return f"{type(failure).__name__}: {said(failure)[:TEXT_LIMIT]}"


def judge(partition: Partition, item: Item, task: Task, failure: BaseException) -> bool:
    """Decide what follows the failure of a handler. Return False if the handler must run again at once. Return True if the lane goes on."""
    for member in members(failure):
        if isinstance(member, StateDamaged):
            raise member  # damaged state is not the handler's fault
    context = partition.context
    context.counts.count_failure()
    facts = _fields(partition, item, task)
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
    wait = max(decision.after + decision.jitter * context.chance(), SOONEST) // timedelta(microseconds=1)
    level = logging.WARNING
    if item.park is not None and any(isinstance(member, NewerState) for member in members(failure)):
        # It may wait for days, and so may thousands of others. So the wait grows, and only the first one is a warning.
        level = logging.INFO
        wait = max(wait, min(context.now - item.park.row.since, context.periods.blocked_last))
    log.log(level, "%s waits for its next attempt (%d failed): %s", what, item.attempts, text, extra=facts)
    partition.parking.let_wait(item, task.without, later(context.now, wait), text)
    return True


def give_up_on_failed(partition: Partition, item: Item, task: Task, failure: Exception) -> None:
    """Apply the policy of a message to a failure of our own code. If too many such failures come in a row, turn the queue off instead."""
    context, row = partition.context, partition.progress.row
    context.counts.count_failure()
    partition.progress.rolled_back()
    limit = context.settings.rollbacks
    if limit is not None and row.rollbacks >= limit and not row.off:
        by = f"{row.rollbacks} rollbacks in a row"
        queue_switch.turn_off(partition, queue_switch.ROLLBACKS, by, text_of(failure))
        queue_switch.hold_back(partition, item, task.without)
        return
    _give_up_at_once(partition, item, task, failure)


def give_up_on_refused(partition: Partition, item: Item, task: Task, refusal: PublicationRefused) -> None:
    """Apply the policy of a message whose handler published a record that its topic refuses. Another attempt would publish it again."""
    partition.context.counts.count_failure()
    log.error("giving up on %s: %s", _what(item, task), refusal, extra=_fields(partition, item, task))
    _give_up_at_once(partition, item, task, refusal)


def _give_up_at_once(partition: Partition, item: Item, task: Task, failure: Exception) -> None:
    if not _is_braked(partition, item, task, failure):
        item.charge()
        give_up(partition, item, task, failure, last(failure, partition.context.service.poison, _subject(item, task)))


def give_up_on_unfit(partition: Partition, item: Arrival, task: Task, error: InvalidBody) -> bool:
    """Apply the policy of an unfit message without an attempt, because every attempt would get the same body.

    Return False, and do nothing, if the policy ends the dialog. Also return False for a service without operators.
    """
    service = partition.context.service
    decision = last(error, service.poison, _subject(item, task))
    if service.temporary or decision.then is Then.END_DIALOG:
        return False
    partition.context.counts.count_failure()
    facts = _fields(partition, item, task)
    if not _is_braked(partition, item, task, error):
        item.charge()
        what, said = _what(item, task), text_of(error)
        log.error("giving up on %s, which does not fit this release: %s", what, said, extra=facts)
        give_up(partition, item, task, error, decision, letters.UNFIT)
    return True


def give_up_on_killer(partition: Partition, item: Item, task: Task, died: ProcessDied) -> None:
    """Apply the policy of a message that killed too many processes, without a call of its handler."""
    partition.context.counts.count_failure()
    facts = _fields(partition, item, task)
    item.charge()
    log.error("giving up on %s without calling it: %s", task.handler.name, died, extra=facts)
    give_up(partition, item, task, died, last(died, partition.context.service.poison, _subject(item, task)))


def _is_braked(partition: Partition, item: Item, task: Task, failure: BaseException) -> bool:
    """Count a failure for the brake. If the brake is now on for the peer, let the message wait as if it was never tried; return True."""
    context, peer = partition.context, task.active.endpoint.peer
    text = text_of(failure)
    count = context.brakes.failed(peer, task.active.identity, context.now)
    if count:
        log.error(
            "%s: %d dialogs failed within a short time, the messages of %s are tried one at a time: %s",
            context.name,
            count,
            peer,
            text,
            extra=partition.log_fields(task.active.identity[:16]),
        )
        context.counts.traffic.count_brake()
        partition.letters.event(BrakeOn(count, peer, text))
    braked = peer in context.brakes.peers
    if braked:
        if item.park is not None:
            partition.parking.returned(item.park, parking.FAILED)
        partition.parking.let_wait(item, task.without, QUEUE_ON, text)
    return braked


def succeeded(partition: Partition, item: Item, peer: str) -> None:
    """Count a handler that succeeded. If the brake had let its message through, turn the brake off for the peer."""
    context = partition.context
    if context.brakes.tries(item.park, peer):
        context.brakes.over(peer)
        log.warning(
            "%s: a message of %s was handled again: the brake is off for this peer",
            context.name,
            peer,
            extra=partition.log_fields(item.active.identity[:16]),
        )
        partition.letters.event(BrakeOff(peer))
    context.brakes.succeeded(peer)


def _fields(partition: Partition, item: Item, task: Task) -> dict[str, object]:
    """Return the fields of a log line about an attempt: the dialog, the message and the number of the attempt, and nothing of the body."""
    found = {**partition.log_fields(task.active.identity[:16]), "attempt": item.attempts + 1}
    if isinstance(item, Arrival):
        found |= {"message_type": item.envelope.message_type[:NAME_LIMIT], "message_number": item.envelope.seq}
    return found


def _subject(item: Item, task: Task) -> Subject:
    contract = task.active.endpoint.contract
    if isinstance(item, Arrival) and task.codec is not None:
        return Subject(contract, item.envelope.message_type)
    return Subject(contract, None)


def _what(item: Item, task: Task) -> str:
    """Return a name for the log: the type of the failed message, or the name of the failed handler if there is no message type."""
    message_type = item.envelope.message_type if isinstance(item, Arrival) else ""
    return message_type[:NAME_LIMIT] or task.handler.name


def give_up(
    partition: Partition,
    item: Item,
    task: Task,
    failure: BaseException,
    decision: End,
    reason: str = letters.HANDLER_FAILED,
) -> None:
    """Apply the decision of a policy to a message that is given up on, and report it. ``reason`` is the reason of the dead letter."""
    then = decision.then
    if item.park is not None:
        partition.parking.returned(item.park, parking.FAILED)
    if then is Then.HOLD:
        _hold(partition, item, task, failure, reason)
    elif then is Then.SKIP:
        _skip(partition, item, task, failure, reason)
    elif then is Then.DISABLE_QUEUE:
        _disable_queue(partition, item, task, failure)
    else:
        _end_dialog(partition, item, task, failure, decision)
    conversation = ConversationId(uuid_text(task.active.identity[:16]))
    code = decision.code if then is Then.END_DIALOG else 0
    partition.letters.event(GaveUp(conversation, then.value, code, text_of(failure)))


def _hold(partition: Partition, item: Item, task: Task, failure: BaseException, reason: str) -> None:
    """Hold the dialog. The failed message stays its head until an operator decides. A dead letter, marked as held, shows its bytes."""
    if not parking.has_message(item, task.without):
        partition.parking.postpone(item, NEVER, text_of(failure))
        return
    partition.letters.dead_letter(item, reason, failure=failure, held=True)
    partition.parking.park(item, NEVER, text_of(failure))


def _disable_queue(partition: Partition, item: Item, task: Task, failure: BaseException) -> None:
    """Turn the queue off. The message stays the head of its dialog, without a letter, and is tried again when the queue is on."""
    partition.parking.let_wait(item, task.without, QUEUE_ON, text_of(failure))
    queue_switch.turn_off(partition, queue_switch.POLICY, _what(item, task), text_of(failure))


def _skip(partition: Partition, item: Item, task: Task, failure: BaseException, reason: str) -> None:
    active = task.active
    partition.parking.forget_retry(active, task.without, parking.FAILED)
    if parking.has_message(item, task.without):
        partition.letters.dead_letter(item, reason, failure=failure)
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
