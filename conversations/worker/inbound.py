"""The effect of an arriving envelope on its endpoint, and the handler to call for it.

An envelope of the peer passes four checks, in this order. Each check may decide what happens to the envelope:

1. **Was its number accepted already?** This happens if the envelope waited in a row. Then only the handler must be called.
2. **Is there an endpoint?** If not, ``strangers`` decides: the envelope begins a dialog, or it is too late, or it is refused.
3. **How does the endpoint react?** ``Endpoint.receive`` changes only the endpoint, and answers with one ``Reaction``:

   =========  =======================================================================================================
   DELIVER    the envelope has the next number: call its handler
   HOLD       an envelope before this one is missing: keep this one as a held row
   DUPLICATE  the envelope took effect earlier: count it, and acknowledge it again
   OVERFLOW   too many envelopes are held: break the dialog
   END        the peer ended the dialog: call ``on_end``, then end this side
   ERROR      the peer, or its worker, broke the dialog: call ``on_error``, then end this side
   RESEND     the peer asks for a message again: transmit it from its row. If no row keeps it, break the dialog
   DISCARD    this side is over: keep the bytes of a message as a dead letter
   DROP       this side is over, and the sender keeps the message: leave the message to its sender
   RENEW      the peer broke the dialog, and a new dialog must carry on: ask the peer what it has accepted (``renewals``)
   FENCE      the peer asks what this side has accepted: this side is over now, and answers
   ANSWERED   the peer has answered: begin the new dialog, or call ``on_error``
   NOTHING    nothing to do; the envelope may have acknowledged more
   =========  =======================================================================================================

4. **Is its dialog parked behind a failed message?** Then an arriving message is parked as well, behind the others. Its number is accepted
   now, because an acknowledgement says only that a message was received. An END with the next number is parked too. The number of this END
   is accepted later, in its turn. Otherwise the END would end the dialog before the parked messages are handled.

An END or an ERROR of the peer does not close this side at once, because a handler may want to send something first. This side ends when
that handler has finished, or at once if there is no handler. So the run calls the handler, and then calls ``Task.finish``.

A large message comes in **fragments**, each an envelope of its own, with a number of its own. Each of them passes the checks. All but the last one are only
kept (``assembly``), and no handler is called for them. The last one stands for the whole message from then on.

A **breach** is a message that no release of the peer may send: only this side may send its type, or its body has the wrong syntax. No handler
is called for it. Its bytes become a dead letter, an ERROR with a system code goes to the peer, and ``on_error`` of this side is called.

A message is **unfit** if this release does not know its type, or if its body does not fit its type. The peer may have another release. So an
unfit message is given up on without an attempt, as its policy says (``failures.give_up_on_unfit``). By default it is held, until another
release of this service knows the type or has an upgrade for the body. If the policy ends the dialog, the message is treated as a breach.

Each envelope of a target has the end of the lifetime there. The target's contract may have brought this end forward. Then the initiator takes it
over before anything else, so that both sides end at the same time without another record (design decision 0043).

This module also carries out deadlines (``due``), because they lead to the same tasks. A timer leads to a call of ``on_timer``, an expired
lifetime to a call of ``on_error``. After some deadlines only an envelope is sent: an acknowledgement that is owed, or a RESEND that asks
for missing messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from conversations.bodies import BodyCodec, UnknownBody
from conversations.errors import InvalidBody
from conversations.handlers import Handler
from conversations.protocol import breaches, codes, letters, repetitions, rows
from conversations.protocol.codes import SystemCode
from conversations.protocol.contract import END_OF_STREAM
from conversations.protocol.effects import Due, Failure, Reaction
from conversations.protocol.envelope import Envelope, Kind
from conversations.protocol.events import ConversationId, SkippedByPeer
from conversations.protocol.identifiers import uuid_text
from conversations.protocol.states import State
from conversations.worker import assembly, commands, outbound, parking, presence, renewals, strangers, undelivered
from conversations.worker.active import Active, Arrival, Item, Park
from conversations.worker.partition import Partition
from conversations.worker.records import encode_item
from conversations.worker.task import Task

_HANDLING: Final = frozenset({State.CONVERSING, State.FENCING})
"""States in which accepted messages are given to their handlers."""
NAME_LENGTH: Final = 128
"""Number of characters of an unknown message type's name that errors show. A valid name is not longer."""
TOO_MANY = "Too many messages wait behind one that failed."
"""Error text for the peer if more messages of the dialog are parked than the limits allow."""


def receive(partition: Partition, item: Arrival) -> Task | None:
    """Receive an envelope in its turn: bring the endpoint up to date, and return the task for its handler, if any.

    The endpoint's row must be written after every reaction, because every envelope may acknowledge more. The number of an item
    that waited in a row may be accepted already. Its dialog may have been closed meanwhile. Then no handler is called, and a message
    becomes a dead letter.
    """
    active, envelope = item.active, item.envelope
    if active.exists and active.endpoint.initiator and active.endpoint.expire_earlier(envelope.prefix.expires_at):
        # The end is in the constant part of the row and of the envelopes.
        active.forget_encoded()
        partition.touch(active)
    parked = partition.parking.parks.get(active.identity) if partition.parking.parks and item.park is None else None
    if item.accepted:
        if not active.exists:
            strangers.left_behind(partition, item)
            return None
        if parked is not None and envelope.kind is not Kind.ACK:
            return _wait_behind(partition, item, parked)
        return deliver(partition, item)
    if active.tombstone is not None:
        strangers.late(partition, item)
        return None
    if not active.exists and not strangers.admit(partition, item):
        return None
    endpoint = active.endpoint
    if parked is not None and envelope.kind is Kind.END and envelope.seq == endpoint.inbound.next:
        return _wait_behind(partition, item, parked)
    # Held messages have two limits: their number and their bytes. If the limit of bytes is reached, no further message may be held.
    acked = endpoint.acked
    limit = partition.waiting.most_held
    if partition.waiting.held.bytes and _holds_enough(partition, active, envelope):
        limit = min(limit, len(endpoint.inbound.held))
    reaction = endpoint.receive(envelope, partition.context.clock.step_time, limit)
    partition.touch(active)
    if endpoint.acked != acked:
        partition.context.counts.traffic.count_acknowledged(endpoint.acked - acked)
        if partition.context.watchers.there:
            presence.tell_acknowledged(partition, endpoint)
    if reaction is Reaction.DELIVER:
        item.accept()
        if parked is not None:
            return _wait_behind(partition, item, parked)
        return deliver(partition, item)
    return _react(partition, item, reaction)


def _wait_behind(partition: Partition, item: Arrival, parked: Park) -> Task | None:
    """Park an envelope behind the failed message of its dialog. Break the dialog if too much is parked.

    No message is lost if the dialog breaks. All parked messages become dead letters, and the peer learns the last accepted number.
    """
    active = item.active
    partition.parking.append(parked, item)
    if not partition.parking.is_full(parked):
        return None
    return breach(partition, active, codes.NOT_CONVERSING, TOO_MANY)


def too_much(partition: Partition, item: Item, task: Task) -> Task | None:
    """Break the dialog of a message that has just been parked because of the brake, if too much is parked for this reason.

    All peers for which the brake is on share one limit. The queue's input does not pause for their parked messages as long as messages of
    other peers are handled, because a pause would stop these other peers as well.
    """
    parked = partition.parking.parks.get(task.active.identity)
    if parked is None or item.park is not None or task.codec is None or not partition.parking.is_full(parked):
        return None
    return breach(partition, task.active, codes.NOT_CONVERSING, TOO_MANY)


def _react(partition: Partition, item: Arrival, reaction: Reaction) -> Task | None:
    """Carry out a reaction of an endpoint; return the task for a handler, if any. The caller carries out DELIVER itself."""
    active = item.active
    endpoint = active.endpoint
    if item.envelope.skipped:
        conversation = ConversationId(uuid_text(active.identity[:16]))
        partition.letters.event(SkippedByPeer(conversation, tuple(item.envelope.skipped)))
    if reaction is Reaction.END:
        item.accept()
        return ended(partition, active)
    if reaction is Reaction.ERROR:
        item.accept()
        assembly.close(partition, active)
        return broken(partition, active, by=endpoint.peer)
    if reaction is Reaction.FENCE:
        return _fenced(partition, active)
    if reaction is Reaction.ANSWERED:
        return answered(partition, active)
    if reaction is Reaction.RENEW:
        partition.look_in_time(active)
        return None
    if reaction is Reaction.HOLD:
        partition.context.counts.traffic.count_early()
        partition.waiting.hold(active.identity, item.envelope.seq, encode_item(item))
    elif reaction is Reaction.DUPLICATE:
        partition.context.counts.count_duplicate()
    elif reaction is Reaction.OVERFLOW:
        return _overflow(partition, item)
    elif reaction is Reaction.RESEND:
        if not renewals.resend(partition, active, item.envelope):
            return breach(partition, active, codes.NOT_CONVERSING, "A missing message is not kept by its sender.")
    elif reaction is Reaction.DROP:
        partition.context.counts.count_left_to_sender()
    elif reaction is Reaction.DISCARD:
        _discard(partition, item)
    if endpoint.state is State.CLOSED:
        if item.envelope.kind is Kind.ERROR:
            outbound.report(partition, active, Failure(item.envelope.code, item.envelope.description), by=endpoint.peer)
        outbound.close(partition, active)
    elif item.envelope.skipped and active.side.on_skipped is not None:
        return _told_of_skipped(partition, item)
    return None


def _fenced(partition: Partition, active: Active) -> Task | None:
    """Answer a FENCE. If the dialog has just broken by it, return the task for ``on_error``."""
    endpoint = active.endpoint
    if endpoint.state is State.ERROR:
        assembly.close(partition, active)
    renewals.answer(partition, active)
    if endpoint.state is State.CLOSED:
        outbound.close(partition, active)
        return None
    return (
        broken(partition, active, by=endpoint.peer) if endpoint.state is State.ERROR and not endpoint.recover else None
    )


def answered(partition: Partition, active: Active) -> Task | None:
    """Carry on after the answer to a FENCE, or after waiting for it in vain: renew the dialog, or call ``on_error``, or close this side."""
    partition.touch(active)
    if renewals.renew(partition, active):
        return None
    active.endpoint.give_up_renewal()
    if active.endpoint.state is State.ERROR:
        assembly.close(partition, active)
        return broken(partition, active, by=active.endpoint.peer)
    outbound.close(partition, active)
    return None


def _told_of_skipped(partition: Partition, item: Arrival) -> Task | None:
    """Return the task for ``on_skipped``. If this handler waits for another attempt, it gets the new numbers then.

    The notice has no number of its own. So a row for each skipped number keeps a copy of it from taking effect again. The item is accepted in the
    same transaction, so that after a crash its waiting row leads to the handler, and not to these rows.
    """
    active, numbers = item.active, item.envelope.skipped
    if not all(0 <= number <= active.endpoint.acked for number in numbers):
        return None  # the peer cannot have skipped what it has not accepted
    untold = [row for it in numbers if partition.outbox.read(row := repetitions.skipped(active.identity, it)) is None]
    if not untold:
        partition.context.counts.count_duplicate()
        return None
    for row in untold:
        commands.remember(partition, row, item.log_time)
    item.accept()
    return deliver(partition, item)


def skipped(partition: Partition, active: Active, numbers: Sequence[int]) -> Task | None:
    """Return the task for ``on_skipped``; None if this side is over, or this release of the service has no such handler."""
    handler = active.side.on_skipped
    if handler is None or active.endpoint.state in (State.ERROR, State.CLOSED):
        partition.parking.forget_retry(active, rows.SKIPPED, parking.ENDED)
        return None
    return Task(active, handler, without=rows.SKIPPED, skipped=tuple(numbers))


def _holds_enough(partition: Partition, active: Active, envelope: Envelope) -> bool:
    """Return True if no more bytes may be held, either of this dialog or in the partition.

    Then a further message ahead of a gap breaks its dialog. The message that closes the gap does not break the dialog, because it need
    not be held.
    """
    limits, held = partition.context.settings.limits, partition.waiting.held
    if active.endpoint.state not in (State.STARTED_INBOUND, State.CONVERSING) or envelope.kind > Kind.END:
        return False
    return held.bytes >= limits.held_bytes or held.of.get(active.identity, 0) >= limits.dialog_bytes


def _overflow(partition: Partition, item: Arrival) -> Task | None:
    """Break the dialog because too many messages are held. This message and the held messages become dead letters, or are left to a sender that keeps them.

    The number of this message is remembered, so that a repetition is recognized and not kept again. A number that is far ahead of the next
    expected number is not credible, and is not remembered. A message with this number becomes a dead letter each time that it arrives.
    """
    active = item.active
    code, limit = codes.NOT_CONVERSING, partition.waiting.most_held
    is_credible = item.envelope.seq - active.endpoint.inbound.next <= 2 * limit
    is_left = item.envelope.prefix.resends and is_credible
    if is_left:
        partition.context.counts.count_left_to_sender()
    elif item.envelope.kind is Kind.MESSAGE:
        partition.letters.dead_letter(item, letters.HELD_AT_END, code=code.number)
        active.endpoint.gave_up_on()
    ahead = "Too many messages arrived ahead of a missing one."
    outbound.fail(partition, active, code, ahead)
    if is_credible and not is_left:
        active.endpoint.inbound.late(item.envelope.seq, limit)  # after ``fail`` has sent the last accepted number
    return broken(partition, active, partition.context.name, Failure(code.number, ahead))


def _discard(partition: Partition, item: Arrival) -> None:
    """Keep the bytes of a message that came after this side was over, as a dead letter."""
    active = item.active
    if item.envelope.kind is Kind.MESSAGE and item.envelope.message_type != END_OF_STREAM:
        active.endpoint.gave_up_on()
        partition.letters.dead_letter(item, letters.AFTER_END)


# -- messages ------------------------------------------------------------------------------------------------


def deliver(partition: Partition, item: Arrival) -> Task | None:
    """Return the task for an envelope whose number is accepted. If the envelope is a breach, break the dialog instead.

    The dialog may be over already, because a handler may have ended it after the number was accepted.
    """
    active, envelope = item.active, item.envelope
    if active.endpoint.state not in _HANDLING and envelope.kind is Kind.MESSAGE:
        # Its number was accepted while another handler ran, and that handler ended the dialog.
        _discard(partition, item)
        return None
    if envelope.kind is Kind.END:
        return ended(partition, active) if active.endpoint.state is State.DISCONNECTED_INBOUND else None
    if envelope.kind is Kind.ERROR:
        return broken(partition, active, by=active.endpoint.peer) if active.endpoint.state is State.ERROR else None
    if envelope.kind is Kind.ACK:
        waits = partition.parking.skipped_too(active, envelope.skipped)
        return None if waits else skipped(partition, active, envelope.skipped)
    if (envelope.fragments > 1 or partition.waiting.fragments.begun) and not assembly.completes(partition, item):
        why = assembly.keep(partition, item)
        return breach(partition, active, codes.NOT_CONVERSING, why) if why else None
    receiver = active.side.receivers.get(envelope.message_type)
    if receiver is None:
        if envelope.message_type == END_OF_STREAM and not active.endpoint.initiator:
            _end_of_stream(partition, active)
            return None
        if envelope.message_type in active.side.contract.types:
            return _wrong_type(partition, item)
        return _never_called(active, UnknownBody(envelope.message_type[:NAME_LENGTH]))
    codec, handler = receiver
    if handler is None:
        return _ignored(partition, item, codec)
    return Task(active, handler, codec)


def _wrong_type(partition: Partition, item: Arrival) -> Task | None:
    """Break the dialog because of the type of a message. Keep the bytes of the message."""
    side = item.active.side
    code = breaches.of_type(side.contract, item.envelope.message_type, initiator=side.initiator)
    partition.letters.dead_letter(item, letters.BREACH, code=code.number)
    return breach(partition, item.active, code)


def _never_called(active: Active, codec: BodyCodec) -> Task:
    """Return the task of an unfit message that has no handler. Its body is decoded first. This fails, so no handler is called."""
    return Task(active, Handler(_no_handler, is_async=False, time_limit=1.0, name=codec.name), codec)


def _no_handler(*_: object) -> None:
    raise AssertionError("an unfit message has no handler")


def invalid(partition: Partition, item: Arrival, error: InvalidBody) -> Task | None:
    """Break the dialog because of an unfit message. Keep its bytes, and tell the peer which field is wrong."""
    active = item.active
    if item.envelope.message_type not in active.side.receivers:
        return _wrong_type(partition, item)
    code = breaches.of_body(active.side.contract, item.envelope.message_type, initiator=active.endpoint.initiator)
    partition.letters.dead_letter(item, letters.BREACH, failure=error, code=code.number)
    return breach(partition, active, code, f"{code.text} {error}")


def _end_of_stream(partition: Partition, active: Active) -> None:
    """End this side, because a pool of the peer replaces the dialog. All messages before are settled, and their replies are sent."""
    active.endpoint.finished()
    outbound.end(partition, active)


def _ignored(partition: Partition, item: Arrival, codec: BodyCodec) -> Task | None:
    """Settle a message of a type that the service ignores. The body of the message must still fit its type."""
    try:
        body = item.active.side.upgrades.decode(codec, item.envelope.content_type, item.envelope.body)
    except InvalidBody:
        return _never_called(item.active, codec)
    handled(partition, item, body, at_once=True)
    return None


def handled(partition: Partition, item: Arrival, body: object, *, at_once: bool = False) -> None:
    """Account for a handled message. If a client's request waits for the message, pass it on. If the message is the reply, end the dialog.

    A request of a client in this process begins a dialog, waits for one reply and ends the dialog. The END is in the same transaction as
    the result of the reply's handler. The client gets the reply after this transaction is committed. ``at_once`` is for a reply without a
    handler, which has no result: the client gets this reply before the commit (``Watchers``).
    """
    active = item.active
    partition.context.counts.count_handled()
    active.endpoint.finished(item.pieces)
    if item.pieces > 1:
        partition.waiting.fragments.forget(active, item.envelope.seq)
    partition.touch(active)
    # A request that is answered before the commit ends its dialog in this step as well, and again if the step is rolled back and repeated.
    if partition.context.watchers.there and active.endpoint.initiator:
        answers = presence.pass_on(partition, item, body, at_once=at_once)
        if answers and active.endpoint.state is State.CONVERSING:
            outbound.end(partition, active)


def breach(partition: Partition, active: Active, code: SystemCode, description: str = "") -> Task | None:
    """Break the dialog from this side: send an ERROR to the peer, and return the task for ``on_error`` of this side.

    The ERROR is in this step's transaction. So the peer's ``on_error`` runs only if the transaction is committed.
    """
    outbound.fail(partition, active, code, description)
    return broken(partition, active, partition.context.name, Failure(code.number, description or code.text))


# -- the end of a dialog -----------------------------------------------------------------------------------------


def ended(partition: Partition, active: Active) -> Task | None:
    """Return the task for ``on_end`` after the peer's END. This side ends after the handler, or at once if there is no handler.

    All earlier messages of the peer are settled already. The END has a higher number than these messages, and has waited for its turn.
    """
    handler = active.side.on_end
    if handler is None or partition.successions.is_replaced(active.endpoint):
        outbound.finish_end(partition, active)
        return None
    return Task(active, handler, finish=outbound.finish_end)


def broken(partition: Partition, active: Active, by: str | None, failure: Failure | None = None) -> Task | None:
    """Return the task for ``on_error`` of a broken dialog. This side ends after the handler, or at once if there is no handler.

    An ERROR does not wait for its turn, because earlier messages of the peer may never arrive. Held and parked messages become dead
    letters. ``by`` is the service that found the error; empty if that is not known any more, None if the error is reported already.
    ``failure`` is the error if this side may be closed already: then no handler is called.
    """
    handler = active.side.on_error
    error = active.endpoint.error
    if active.endpoint.state is not State.ERROR or error is None:
        if failure is not None:
            outbound.report(partition, active, failure, by)
        outbound.close(partition, active)
        return None
    if handler is None:
        outbound.report(partition, active, error, by)
        outbound.finish_end(partition, active)
        return None
    return Task(active, handler, error=error, finish=outbound.finish_end, without=rows.ERROR)


# -- time --------------------------------------------------------------------------------------------------------


def due(partition: Partition, active: Active) -> list[Task]:
    """Carry out the passed deadlines of an endpoint; return the tasks for the handlers to run.

    Several deadlines may have passed together, above all after a restart. They are carried out in the order in which the endpoint lists
    them. One deadline may cancel another. For example, an expired lifetime cancels a timer. So at the end each task is checked again.
    """
    tasks: list[Task | None] = []
    if not active.exists:
        return []
    if active.identity in partition.transmission.refused:
        lost_end = undelivered.has_end(partition, active)
        refusal = undelivered.keep(partition, active.identity)
        if active.endpoint.state not in (State.ERROR, State.CLOSED):
            why = f"{refusal.code.text} {refusal.why}"
            outbound.fail(partition, active, refusal.code, why, lost_end=lost_end)
            tasks.append(broken(partition, active, None, Failure(refusal.code.number, why)))
        elif lost_end and active.endpoint.state is State.ERROR:
            outbound.tell_broken(partition, active)
    if active.endpoint.waits_anew:
        partition.touch(active)  # so that its row has the end of the wait
    for reason in active.endpoint.due(partition.context.now):
        partition.touch(active)
        if reason is Due.ACK:
            if active.endpoint.taken_over > active.endpoint.told:
                outbound.acknowledge(partition, active)
        elif reason is Due.RESEND:
            outbound.ask_resend(partition, active)
        elif reason is Due.GAP:
            tasks.append(
                breach(partition, active, codes.NOT_CONVERSING, "A message is missing and was not sent again.")
            )
        elif reason is Due.TIMER:
            fired = [timer(active, name) for name in active.endpoint.fire(partition.context.now)]
            partition.context.counts.traffic.count_timers(len(fired))
            tasks += fired
        elif reason is Due.BROKEN:
            tasks.append(broken(partition, active, by=""))
        elif reason is Due.FENCE:
            if not renewals.ask(partition, active):
                tasks.append(answered(partition, active))
        elif reason is Due.RETRANSMIT:
            renewals.retransmit(partition, active)
        elif reason is Due.LIFETIME:
            outbound.conclude(partition, active)
            failure = Failure(codes.LIFETIME.number, codes.LIFETIME.text)
            tasks.append(broken(partition, active, partition.context.name, failure))
    partition.look_in_time(active)
    return [task for task in tasks if task is not None and _is_still_due(task)]


def _is_still_due(task: Task) -> bool:
    """Return True if a task must still run. Another deadline that passed at the same time may have broken or ended the dialog."""
    endpoint = task.active.endpoint
    if rows.is_timer(task.without):
        return endpoint.is_firing(rows.timer_of(task.without))
    return endpoint.state is State.ERROR


def timer(active: Active, name: str) -> Task | None:
    """Return the task for a timer that fired. If the service has no handler for timers, end the timer and return None.

    The timer stays in the endpoint's row until the handler has finished. So after a crash the handler is called again.
    """
    handler = active.side.on_timer
    if handler is None:
        active.endpoint.fired(name)
        return None
    return Task(active, handler, finish=partial(_fired, name=name), without=rows.timer_handler(name))


def _fired(partition: Partition, active: Active, name: str) -> None:
    """End the timer whose handler has finished, unless the handler set it anew."""
    active.endpoint.fired(name)
    if name not in active.endpoint.timers():
        partition.transmission.carried.forget_timer(active.identity, name)
    partition.touch(active)
