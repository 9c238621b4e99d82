"""Operators' decisions about the failed message at the head of a parked dialog, or about a failed handler without a message."""

from __future__ import annotations

from dataclasses import replace

from conversations.errors import LocalError
from conversations.protocol import codes, letters, rows
from conversations.protocol.admission import body_too_large, check_error
from conversations.protocol.command import Action, Command, Failed, Resolve
from conversations.protocol.envelope import Kind, encode
from conversations.protocol.events import ConversationId, Resolved
from conversations.protocol.identifiers import uuid_text
from conversations.protocol.limits import DESCRIPTION_LIMIT, sendable
from conversations.protocol.sequencing import NONE
from conversations.protocol.states import OPEN_STATES
from conversations.worker import commands, outbound, parking, probes
from conversations.worker.active import Active, Arrival, Park
from conversations.worker.commands import Effect
from conversations.worker.partition import Partition

_HANDLERS = {Failed.MESSAGE: b"", Failed.ERROR: rows.ERROR, Failed.SKIPPED: rows.SKIPPED}


def _handler(decision: Resolve) -> bytes:
    """Return the bytes that name the handler that a decision is about; empty for the handler of a message."""
    return (
        rows.timer_handler(decision.timer) if decision.handler == Failed.TIMER else _HANDLERS[Failed(decision.handler)]
    )


def prepare(partition: Partition, command: Command) -> Effect:
    """Carry out a decision about the head of a parked dialog, or about a failed handler without a message.

    The decision takes effect here, so the returned effect does nothing more.

    Raises:
        LocalError: nothing waits for a decision, another decision or attempt came first, or the new body does not fit its type.
    """
    active, decision = commands.find(partition, command), command.operations[0]
    if len(command.operations) > 1 or not isinstance(decision, Resolve):
        raise LocalError(
            "a decision about a failed message must stand alone in its command", code=codes.COMMAND_CONTRADICTS
        )
    commands.check_there(active, command)
    _decide(partition, active, command, decision)
    return lambda: None


def _decide(partition: Partition, active: Active, command: Command, decision: Resolve) -> None:
    key = active.identity + _handler(decision)
    found = (partition.parking.parks if decision.handler == Failed.MESSAGE else partition.parking.retries).get(key)
    if found is None:
        raise LocalError("no message or handler of this dialog waits for another attempt", code=codes.DECISION_REFUSED)
    item = partition.parking.head(active, found) if decision.handler == Failed.MESSAGE else None
    _check(found, item, decision)
    number = uuid_text(command.command_id)
    with partition.letters.decided(command.issued_by, decision.reason):
        if decision.action == Action.END:
            _end(partition, active, found, decision)
        elif item is None:
            _resolve_handler(partition, active, found, decision, number)
        elif decision.action == Action.SKIP:
            _skip(partition, found, item)
        else:
            if decision.action == Action.EDIT:
                _edit(partition, found, item, decision.body)
            edited = number if decision.action == Action.EDIT else ""
            _give_back(partition, active, found, rows.PARK + key, number, item, edited=edited)
    event = Resolved(
        number, ConversationId(uuid_text(active.identity[:16])), not command.from_initiator, decision.handler.lower(),
        decision.number, decision.action.lower(), by=command.issued_by, reason=decision.reason,
    )  # fmt: skip
    partition.letters.event(event)


def _check(found: Park, item: Arrival | None, decision: Resolve) -> None:
    if found.taken:
        raise LocalError("the message or handler is being tried again right now", code=codes.DECISION_REFUSED)
    number = NONE if item is None else item.envelope.seq
    if number != decision.number:
        raise LocalError(
            f"message {decision.number} does not wait: its dialog waits for {number}", code=codes.DECISION_REFUSED
        )
    if decision.ticket not in (0, found.row.ticket):
        raise LocalError(
            f"another decision or attempt came first: look again (ticket {found.row.ticket}, not {decision.ticket})",
            code=codes.DECISION_REFUSED,
        )


def _end(partition: Partition, active: Active, found: Park, decision: Resolve) -> None:
    check_error(decision.code, decision.description)
    partition.parking.returned(found, parking.DECIDED)
    if active.endpoint.state in OPEN_STATES:
        description = sendable(decision.description, DESCRIPTION_LIMIT)
        outbound.end_with_error(partition, active, decision.code, description)
    else:
        outbound.end(partition, active)
    outbound.close(partition, active)


def _skip(partition: Partition, found: Park, item: Arrival) -> None:
    active, envelope = item.active, item.envelope
    if envelope.kind is not Kind.MESSAGE:
        if not item.accepted:
            raise LocalError("the peer's END was not tried yet: it cannot be skipped", code=codes.DECISION_REFUSED)
        partition.parking.returned(found, parking.DECIDED)
        partition.parking.skip_head(found, item)
        outbound.finish_end(partition, active)
        return
    failure = found.row.failure
    partition.parking.returned(found, parking.DECIDED)
    partition.parking.skip_head(found, item)
    partition.letters.dead_letter(item, letters.SKIPPED, why=failure)
    active.endpoint.gave_up_on()
    outbound.tell_skipped(partition, active, envelope.seq)


def _edit(partition: Partition, found: Park, item: Arrival, body: bytes) -> None:
    active, envelope = item.active, item.envelope
    receiver = active.side.receivers.get(envelope.message_type)
    if receiver is None:
        raise LocalError("only a message of the contract has a body that can be edited", code=codes.DECISION_REFUSED)
    limit = partition.context.settings.limits.record_body
    if len(body) > limit:
        raise body_too_large(len(body), limit)
    receiver[0].decode(body)
    partition.letters.dead_letter(item, letters.EDITED, held=True)
    partition.waiting.fragments.forget(active, envelope.seq)
    edited = replace(envelope, body=body, content_type=receiver[0].content_type, fragment=0, fragments=1)
    item.replace(edited, encode(edited))
    partition.parking.replace_head(found, item)


def _give_back(
    partition: Partition,
    active: Active,
    found: Park,
    key: bytes,
    command: str,
    head: Arrival | None = None,
    *,
    edited: str = "",
) -> None:
    partition.parking.returned(found, parking.DECIDED)
    found.give_back(command, edited)
    # While the brake is on, the next step tries one message of the peer: that of the last decision of this step.
    partition.parking.try_now(
        active, found, key, None if active.endpoint.peer in partition.context.brakes.peers else head
    )
    parks = partition.parking.parks if key.startswith(rows.PARK) else partition.parking.retries
    probes.try_given_back(partition, parks, key[1:])


def _resolve_handler(partition: Partition, active: Active, found: Park, decision: Resolve, command: str) -> None:
    name = _handler(decision)
    key = active.identity + name
    if decision.action == Action.EDIT:
        raise LocalError("a handler without a message has no body that could be edited", code=codes.DECISION_REFUSED)
    if decision.action == Action.RETRY:
        _give_back(partition, active, found, rows.RETRY + key, command)
        return
    partition.parking.forget_retry(active, name, parking.DECIDED)
    if decision.handler == Failed.ERROR:
        outbound.finish_end(partition, active)
    elif decision.handler == Failed.TIMER:
        active.endpoint.fired(decision.timer)
        partition.touch(active)
