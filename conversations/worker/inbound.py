"""What an envelope does to its endpoint, and which handler that calls.

An envelope of the peer goes through four gates, in this order. Each may end its way:

1. **Was its number accepted before it waited?** Then the endpoint has it already, and only its handler is due.
2. **Is there an endpoint?** Without one it is a stranger's (``strangers``): it begins a dialog, or comes too late, or is refused.
3. **What does the endpoint say?** ``Endpoint.receive`` is a pure machine. It answers with one ``Reaction``:

   =========  =======================================================================================================
   DELIVER    the next number: call its handler
   HOLD       a number before it is missing: keep it as a held row
   DUPLICATE  it took effect before: count it, and acknowledge it again
   OVERFLOW   more are held than may be: the dialog breaks
   END        the peer ended: call ``on_end``, then end this side
   ERROR      the peer broke the dialog, or its broker did: call ``on_error``, then end this side
   RESEND     the peer misses something that is not kept any more: the dialog breaks
   DISCARD    this side is over: keep the bytes of a message as a dead letter
   =========  =======================================================================================================

4. **Does its dialog wait behind a failed message?** Then it goes behind it, whatever it is. Its number is accepted all the same: an
   acknowledgement is a receipt. Only an END is accepted in its turn, as it would end the dialog in front of what waits.

An END or an ERROR of the peer does not close this side: a handler may have something to say first. This side ends when that handler has
finished, and at once where there is none. So ``Task.finish`` is called after the handler, by the run that called it.

A **breach** is a message that the contract does not allow, or whose body is not what its type says. No handler is called and no attempt
is charged: the bytes are kept, the peer is told with a system code, and this side hears of it as an error.

Deadlines are looked at here as well (``due``), because they end in the same tasks: a timer calls ``on_timer``, an expired lifetime calls
``on_error``. Some only transmit: an acknowledgement that is owed, a question for what is missing.
"""

from __future__ import annotations

from conversations.bodies import BodyCodec
from conversations.errors import InvalidBody
from conversations.protocol import breaches, codes, letters, rows
from conversations.protocol.codes import Code
from conversations.protocol.effects import Due, Reaction
from conversations.protocol.endpoint import Endpoint
from conversations.protocol.envelope import Envelope, Kind
from conversations.protocol.events import ConversationId, SkippedByPeer
from conversations.protocol.identifiers import uuid_text
from conversations.protocol.states import State
from conversations.worker import outbound, strangers, undelivered
from conversations.worker.active import Active, Arrival, Item, Park
from conversations.worker.partition import Partition
from conversations.worker.records import encode_item
from conversations.worker.task import Task

TOO_MANY = "Too many messages wait behind one that failed."
"""The peer's error text when its dialog has more behind a failed message than the limits allow."""


def receive(partition: Partition, item: Arrival) -> Task | None:
    """Take an envelope in its turn: bring the endpoint up to date and say which handler to run, if any.

    The endpoint's row is to be written whatever it said: at least an acknowledgement has moved. An item that waited in a row comes here
    a second time, with its number accepted; a dialog that ended meanwhile has nothing to deliver to, and the bytes are kept.
    """
    active, envelope = item.active, item.envelope
    parked = partition.parking.parks.get(active.identity) if partition.parking.parks and item.park is None else None
    if item.accepted:
        if not active.exists:
            strangers.left_behind(partition, item)
            return None
        if parked is not None:
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
    # Held messages have limits in number and in bytes. Where the bytes are used up, the number that is held now is the limit.
    acked = endpoint.acked
    limit = partition.context.settings.limits.held_messages
    if partition.waiting.held.bytes and _holds_enough(partition, active, envelope):
        limit = min(limit, len(endpoint.inbound.held))
    reaction = endpoint.receive(envelope, partition.context.clock.step_time, limit)
    partition.touch(active)
    if endpoint.acked != acked and partition.context.watchers:
        _tell_acknowledged(partition, endpoint)
    if reaction is Reaction.DELIVER:
        item.accept()
        if parked is not None:
            return _wait_behind(partition, item, parked)
        return deliver(partition, item)
    return _react(partition, item, reaction)


def _wait_behind(partition: Partition, item: Arrival, parked: Park) -> Task | None:
    """Park what arrived behind a failed message; a dialog with too many breaks.

    Nothing of it is lost by that: all that is parked becomes dead letters, and the peer is told how far it was accepted.
    """
    active = item.active
    partition.parking.append(parked, item)
    if not partition.parking.is_full(parked):
        return None
    return breach(partition, active, codes.NOT_CONVERSING, TOO_MANY)


def too_much(partition: Partition, item: Item, task: Task) -> Task | None:
    """Break a dialog whose message came to wait for the brake, where too much of such peers waits already.

    Other peers are handled meanwhile, so the queue's input cannot pause for this one.
    """
    parked = partition.parking.parks.get(task.active.identity)
    if parked is None or item.park is not None or task.codec is None or not partition.parking.is_full(parked):
        return None
    return breach(partition, task.active, codes.NOT_CONVERSING, TOO_MANY)


def _react(partition: Partition, item: Arrival, reaction: Reaction) -> Task | None:
    """Carry out the endpoint's reaction to an envelope that is not simply the next message."""
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
        partition.parking.close(active)
        return broken(partition, active)
    if reaction is Reaction.HOLD:
        partition.waiting.hold(active.identity, item.envelope.seq, encode_item(item))
    elif reaction is Reaction.DUPLICATE:
        partition.context.counts.count_duplicate()
    elif reaction is Reaction.OVERFLOW:
        return _overflow(partition, item)
    elif reaction is Reaction.RESEND:
        return breach(partition, active, codes.NOT_CONVERSING, "A missing message is not kept by its sender.")
    elif reaction is Reaction.DISCARD:
        _discard(partition, item)
    if endpoint.state is State.CLOSED:
        outbound.close(partition, active)
    return None


def _holds_enough(partition: Partition, active: Active, envelope: Envelope) -> bool:
    """Say whether a message ahead of a gap is one too many: no more bytes may be held of its dialog, or in the partition.

    The message that closes the gap is never one too many.
    """
    limits, held = partition.context.settings.limits, partition.waiting.held
    if active.endpoint.state not in (State.STARTED_INBOUND, State.CONVERSING) or envelope.kind > Kind.END:
        return False
    return held.bytes >= limits.held_bytes or held.of.get(active.identity, 0) >= limits.dialog_bytes


def _overflow(partition: Partition, item: Arrival) -> Task | None:
    """Too many are held: the dialog breaks, and the one too many is kept once, like the held ones.

    A number that is far ahead of all others is not believed, and not remembered: its bytes are kept as often as it comes.
    """
    active = item.active
    code = codes.NOT_CONVERSING
    if item.envelope.kind is Kind.MESSAGE:
        partition.letters.dead_letter(item, letters.HELD_AT_END, code=code.number)
        active.endpoint.gave_up_on()
    outbound.fail(partition, active, code, "Too many messages arrived ahead of a missing one.")
    limit = partition.context.settings.limits.held_messages
    if item.envelope.seq - active.endpoint.inbound.next <= 2 * limit:
        active.endpoint.inbound.late(item.envelope.seq, limit)  # after the peer was told what is accepted
    return broken(partition, active)


def _discard(partition: Partition, item: Arrival) -> None:
    """Keep the bytes of a message that came after this side was over."""
    active = item.active
    if item.envelope.kind is Kind.MESSAGE:
        active.endpoint.gave_up_on()
        partition.letters.dead_letter(item, letters.AFTER_END)


# -- messages ------------------------------------------------------------------------------------------------


def deliver(partition: Partition, item: Arrival) -> Task | None:
    """Say which handler takes a message whose number is accepted; a breach of the contract calls none.

    The dialog may be over by now: a handler may have ended it since the endpoint accepted the number.
    """
    active, envelope = item.active, item.envelope
    if active.endpoint.state is not State.CONVERSING and envelope.kind is Kind.MESSAGE:
        # It was accepted while a handler ran that then ended the dialog.
        _discard(partition, item)
        return None
    if envelope.kind is Kind.END:
        return ended(partition, active) if active.endpoint.state is State.DISCONNECTED_INBOUND else None
    if envelope.kind is Kind.ERROR:
        return broken(partition, active) if active.endpoint.state is State.ERROR else None
    receiver = active.side.receivers.get(envelope.message_type)
    if receiver is None:
        side = active.side
        code = breaches.of_type(side.contract, envelope.message_type, initiator=side.initiator)
        partition.letters.dead_letter(item, letters.BREACH, code=code.number)
        return breach(partition, active, code)
    codec, handler = receiver
    if handler is None:
        return _ignored(partition, item, codec)
    return Task(active, handler, codec)


def invalid(partition: Partition, item: Arrival, error: InvalidBody) -> Task | None:
    """A body that does not fit its type is a breach: no attempt, its bytes kept, the field told to the sender.

    No handler sees it, and no policy is asked: it would be the same body at each attempt.
    """
    active = item.active
    code = breaches.of_body(initiator=active.endpoint.initiator)
    partition.letters.dead_letter(item, letters.BREACH, failure=error, code=code.number)
    return breach(partition, active, code, f"{code.description} {error}")


def _ignored(partition: Partition, item: Arrival, codec: BodyCodec) -> Task | None:
    """Settle a message that the service ignores by declaration; its body must fit its type all the same."""
    try:
        body = codec.decode(item.envelope.body)
    except InvalidBody as error:
        return invalid(partition, item, error)
    handled(partition, item, body)
    return None


def handled(partition: Partition, item: Arrival, body: object) -> None:
    """A message is settled: tell a request that waits for it, which may end the dialog.

    A request of a client in this process begins a dialog, waits for one reply and ends it. The end goes into the same transaction as the
    reply's result; the client itself is told once that is committed.
    """
    active = item.active
    partition.context.counts.count_handled()
    active.endpoint.finished()
    partition.touch(active)
    if not partition.context.watchers:
        return
    watcher = partition.context.watchers.get(active.identity[:16])
    if watcher is None or not active.endpoint.initiator:
        return
    message_type = item.envelope.message_type
    partition.outbox.notify(lambda: watcher.message(message_type, body))
    if watcher.wants(message_type) and active.endpoint.state is State.CONVERSING:
        outbound.end(partition, active)


def breach(partition: Partition, active: Active, code: Code, description: str = "") -> Task | None:
    """Break the dialog on this side's initiative: the peer is told, then this side's ``on_error`` runs.

    The peer is told in the same transaction: its own ``on_error`` runs once that is committed, and not if it never is.
    """
    outbound.fail(partition, active, code, description)
    return broken(partition, active)


# -- the end of a dialog -----------------------------------------------------------------------------------------


def ended(partition: Partition, active: Active) -> Task | None:
    """The peer ended: run ``on_end``, then end this side; without a handler end at once.

    Everything the peer said before its END was handled by then: the END has the number after them, and waits for its turn.
    """
    handler = active.side.on_end
    if handler is None:
        outbound.finish_end(partition, active)
        return None
    return Task(active, handler, finish=outbound.finish_end)


def broken(partition: Partition, active: Active) -> Task | None:
    """The dialog broke: run ``on_error``, then end this side; without a handler end at once.

    An error does not wait for its turn: earlier messages of the peer may be missing for good. Held and parked messages become dead letters.
    """
    handler = active.side.on_error
    error = active.endpoint.error
    if active.endpoint.state is not State.ERROR or error is None:
        outbound.close(partition, active)
        return None
    if handler is None:
        outbound.finish_end(partition, active)
        return None
    return Task(active, handler, error=error, finish=outbound.finish_end, without=rows.ERROR)


# -- time --------------------------------------------------------------------------------------------------------


def due(partition: Partition, active: Active) -> list[Task]:
    """Do what deadlines of an endpoint ask for; return the handlers to run.

    Several may have passed together, above all after a restart. Each is done in the order that the endpoint names them, and may make the
    next one void: an expired lifetime ends a timer. So the tasks are asked once more at the end whether they are still due.
    """
    tasks: list[Task | None] = []
    if not active.exists:
        return []
    if active.identity in partition.transmission.refused:
        refusal = undelivered.keep(partition, active.identity)
        if active.endpoint.state not in (State.ERROR, State.CLOSED):
            tasks.append(breach(partition, active, refusal.code, f"{refusal.code.description} {refusal.why}"))
    for reason in active.endpoint.due(partition.context.now):
        partition.touch(active)
        if reason is Due.ACK:
            if active.endpoint.inbound.accepted > active.endpoint.told:
                outbound.acknowledge(partition, active)
        elif reason is Due.RESEND:
            outbound.ask_resend(partition, active)
        elif reason is Due.GAP:
            tasks.append(
                breach(partition, active, codes.NOT_CONVERSING, "A message is missing and was not sent again.")
            )
        elif reason is Due.TIMER:
            tasks.append(timer(active))
        elif reason is Due.BROKEN:
            tasks.append(broken(partition, active))
        else:
            outbound.conclude(partition, active)
            tasks.append(broken(partition, active))
    partition.look_in_time(active)
    return [task for task in tasks if task is not None and _is_still_due(task)]


def _is_still_due(task: Task) -> bool:
    """A deadline that passed together with another may be none any more: that one broke the dialog, or ended it."""
    endpoint = task.active.endpoint
    return endpoint.firing if task.without == rows.TIMER else endpoint.state is State.ERROR


def timer(active: Active) -> Task | None:
    """Say which handler a timer that fired calls.

    The row keeps the timer until its handler has finished, so that a crash calls the handler again.
    """
    handler = active.side.on_timer
    if handler is None:
        active.endpoint.fired()
        return None
    return Task(active, handler, finish=_fired, without=rows.TIMER)


def _fired(partition: Partition, active: Active) -> None:
    """The timer's handler has finished: the timer is over, unless the handler set it anew."""
    active.endpoint.fired()
    partition.touch(active)


def _tell_acknowledged(partition: Partition, endpoint: Endpoint) -> None:
    """Tell a client of this process that waits for it, once the step is committed."""
    watcher = partition.context.watchers.get(endpoint.conversation) if endpoint.initiator else None
    if watcher is not None:
        partition.outbox.notify(watcher.acknowledged)
