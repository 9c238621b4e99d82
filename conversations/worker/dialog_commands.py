"""Commands about a dialog: requests of clients and of other partitions to an endpoint.

The operations of a command are put into a draft, like the requests of a handler. Each operation is checked against the state that the
earlier operations would leave. If all operations are possible, the draft is applied. If one operation is not possible, the command has no
effect and is refused.
"""

from __future__ import annotations

from conversations.bodies import codec_of
from conversations.draft import Draft
from conversations.errors import LocalError
from conversations.protocol import codes
from conversations.protocol.admission import (
    body_too_large,
    check_content_type,
    check_error,
    check_key,
    check_service,
    check_timer_name,
    check_timer_time,
    check_to_group,
    clogged,
    lifetime_not_positive,
    not_initiated,
)
from conversations.protocol.command import (
    TRIGGERS,
    Begin,
    Cleanup,
    Command,
    End,
    EndWithError,
    Operation,
    Piece,
    Report,
    Resend,
    Resolve,
    Reuse,
    Send,
    SendFromPieces,
    SetTimer,
    Settle,
    Switch,
    Tick,
)
from conversations.protocol.endpoint import NEVER, Endpoint
from conversations.protocol.limits import DESCRIPTION_LIMIT, sendable
from conversations.protocol.states import check_timer
from conversations.protocol.times import later
from conversations.worker import commands, outbound
from conversations.worker.active import Active
from conversations.worker.commands import Effect
from conversations.worker.partition import Partition
from conversations.worker.room import Room


def prepare(partition: Partition, command: Command) -> Effect:
    """Check the operations of a command about its dialog; return the effect that carries them out.

    Raises:
        LocalError: an operation is not possible. Then no operation is carried out.
    """
    draft = _draft(partition, command)
    return lambda: outbound.apply(partition, draft)


def _draft(partition: Partition, command: Command) -> Draft:
    active = commands.find(partition, command)
    first = command.operations[0]
    if any(isinstance(operation, Begin) for operation in command.operations[1:]):
        raise LocalError("only the first operation of a command may begin the dialog", code=codes.COMMAND_CONTRADICTS)
    if isinstance(first, Begin):
        if not command.from_initiator:
            raise LocalError("only the initiator's side can begin a dialog", code=codes.COMMAND_CONTRADICTS)
        if active.exists or active.tombstone is not None:
            raise LocalError("a dialog with this id exists already", code=codes.DIALOG_EXISTS)
        if active.lane.name != ("", command.key):
            raise LocalError("an earlier record names another group for this dialog", code=codes.GROUP_INVALID)
        active = begun(partition, active, first)
    else:
        commands.check_there(active, command)
    draft = Draft(Room(partition), active)
    for operation in command.operations:
        ask(draft, active, operation)
    return draft


def begun(partition: Partition, known: Active, begin: Begin) -> Active:
    """Return the initiator's endpoint of a new dialog. ``known`` has its identity and its lane.

    Raises:
        LocalError: the dialog cannot begin.
    """
    context, key = partition.context, known.lane.name[1]
    check_service(begin.to_service)
    if begin.target_key:
        check_key(begin.target_key)
    side = context.sides.get((begin.contract, True))
    if side is None:
        raise not_initiated(context.name, begin.contract)
    if side.contract.shares_groups:
        check_to_group(side.contract, context.name, begin.target_key or None)
    partition.groups.check_room(known.lane)
    lifetime = begin.lifetime
    if lifetime < -1:
        raise lifetime_not_positive(lifetime)
    if lifetime == 0:
        lives = side.contract.lives(context.periods.lifetime)
        lifetime = -1 if lives is None else lives
    endpoint = Endpoint(
        known.identity[:16],
        initiator=True,
        contract=begin.contract,
        service=context.name,
        peer=begin.to_service,
        key=key,
        peer_key=begin.target_key or key,
        expires_at=NEVER if lifetime < 0 else later(context.now, lifetime),
    )
    active = Active(known.identity, known.lane)
    active.begin(endpoint, side)
    return active


def ask(draft: Draft, active: Active, operation: Operation) -> None:
    """Put an operation into a draft.

    Raises:
        LocalError: the operation is not possible.
    """
    match operation:
        case Send():
            _check_send(draft, active, operation)
        case EndWithError(code, description):
            check_error(code, description)
            operation = EndWithError(code, sendable(description, DESCRIPTION_LIMIT))
        case SetTimer(after, name):
            check_timer(draft.state_of(active))
            check_timer_name(name)
            if after >= 0:
                check_timer_time(later(draft.room.now, after), active.endpoint.expires_at)
                draft.check_timer_count(active, name)
        case Resend():
            draft.check_resend(active)
        case Begin() | End() | Cleanup():
            pass
        case Switch() | Settle():
            raise LocalError(
                "an operation about a partition must stand alone in its command", code=codes.COMMAND_CONTRADICTS
            )
        case Piece():
            raise LocalError("a piece must stand alone in its command", code=codes.COMMAND_CONTRADICTS)
        case Reuse():
            raise LocalError("Reuse must be the first operation of its command", code=codes.COMMAND_CONTRADICTS)
        case Tick() | Resolve() | Report():
            return
    if type(operation) in TRIGGERS:
        draft.move(active, type(operation))
    draft.asks.append((active, operation, draft.room.now))


def _check_send(draft: Draft, active: Active, send: Send) -> None:
    declared = active.side.contract.outgoing(None, send.message_type, active.endpoint.initiator)
    size = send.size if isinstance(send, SendFromPieces) else len(send.body)
    if size > draft.room.body_limit:
        raise body_too_large(size, draft.room.body_limit)
    check_content_type(send.message_type, send.content_type, codec_of(declared).content_type)
    if draft.room.delayed and draft.room.is_stopped(active) and draft.room.is_clogged(active):
        raise LocalError(clogged(active.endpoint.peer), code=codes.CLOGGED)
