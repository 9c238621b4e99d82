"""Carrying out commands: what clients, operators and other partitions ask of an endpoint."""

from __future__ import annotations

from hashlib import blake2b

from conversations.bodies import codec_of
from conversations.checks import check_error, check_key, check_service, later
from conversations.dialog import Ask, Draft, Verb
from conversations.errors import (
    BodyTooLarge,
    DialogEnded,
    InvalidBody,
    LocalError,
    UnknownContract,
)
from conversations.protocol import codes, letters, rows
from conversations.protocol.command import (
    Begin,
    Cleanup,
    Command,
    End,
    EndWithError,
    Report,
    Resolve,
    Send,
    SetTimer,
    Settle,
    Switch,
    Tick,
    encode_command,
)
from conversations.protocol.endpoint import NEVER, Endpoint, check_timer
from conversations.protocol.envelope import message_run
from conversations.protocol.identifiers import drawn_at, uuid_text
from conversations.protocol.limits import DESCRIPTION_LIMIT, sendable
from conversations.protocol.states import Event
from conversations.worker import resolving, settling, speaking, switching
from conversations.worker.active import Active, Item
from conversations.worker.partition import Partition
from conversations.worker.room import Room


class _Repeated(Exception):
    """The command took effect before."""


def carry_out(partition: Partition, item: Item, command: Command) -> None:
    """Do all of a command's operations, or none: a refused command is dead-lettered with Service Broker's code."""
    partition.owner.counts.commands += 1
    if all(isinstance(operation, Tick) for operation in command.operations):
        tick(partition, item)
        return
    if isinstance(command.operations[0], Switch) and len(command.operations) == 1:
        _switch(partition, command, command.operations[0])
        return
    report = isinstance(command.operations[-1], Report)
    try:
        _check_age(partition, item, command)
        _check_repeated(partition, command)  # before the dialog is asked: it may have ended since
        if isinstance(command.operations[0], Settle):
            settling.settle(partition, command)
            return
        draft = _draft(partition, command)
        if any(isinstance(operation, Resolve) for operation in command.operations):
            _resolve(partition, command)
        _remember(partition, command, item.log_time)
    except _Repeated:
        partition.owner.counts.duplicates += 1
        if report:
            _report(partition, command)
    except LocalError as error:
        partition.letters.dead_letter(item, letters.COMMAND_REFUSED, failure=error, code=error.code)
        partition.letters.event(
            "COMMAND_REFUSED", command=uuid_text(command.command_id), code=error.code, why=str(error)
        )
    else:
        speaking.apply(partition, draft)
        if report:
            _report(partition, command)


def _report(partition: Partition, command: Command) -> None:
    partition.letters.event("COMMAND_DONE", command=uuid_text(command.command_id), by=command.issued_by)


def _resolve(partition: Partition, command: Command) -> None:
    """Carry out a decision about a failed message, which stands alone in its command."""
    decision = command.operations[0]
    if len(command.operations) > 1 or not isinstance(decision, Resolve):
        raise LocalError("a decision about a failed message stands alone in its command", code=codes.HANDLE_IN_USE)
    own = rows.identity(command.conversation_id, command.from_initiator)
    resolving.resolve(partition, partition.find(rows.other_side(own), command.key, ""), command, decision)


def _switch(partition: Partition, command: Command, operation: Switch) -> None:
    """Turn the queue of this partition on or off; repeating it changes nothing."""
    by, number = command.issued_by, uuid_text(command.command_id)
    if operation.on:
        switching.turn_on(partition, by, operation.reason, command=number)
    else:
        switching.turn_off(partition, switching.OPERATOR, by, operation.reason, command=number)


def tick(partition: Partition, item: Item) -> None:
    """Note that log time may pass on a queue nobody writes to: only the polling thread can say whether all of it was read."""
    partition.schedule.hear_tick(item.log_time)


def _draft(partition: Partition, command: Command) -> Draft:
    own = rows.identity(command.conversation_id, command.from_initiator)
    active = partition.find(rows.other_side(own), command.key, "")
    first = command.operations[0]
    if any(isinstance(operation, Begin) for operation in command.operations[1:]):
        raise LocalError("only the first operation of a command may begin the dialog", code=codes.HANDLE_IN_USE)
    if isinstance(first, Begin):
        if not command.from_initiator:
            raise LocalError("only the initiator's side can begin a dialog", code=codes.HANDLE_IN_USE)
        if active.exists or active.tombstone is not None:
            raise LocalError("a dialog with this id exists already", code=codes.HANDLE_IN_USE)
        if active.lane.name != ("", command.key):
            raise LocalError("a record before this one names another group for the dialog", code=codes.HANDLE_IN_USE)
        active = _begun(partition, active, command, first)
    elif not active.exists:
        gone = active.tombstone is not None
        raise DialogEnded(
            "the dialog is over (8429)" if gone else "no such dialog (8426)",
            code=codes.SEND_REFUSED if gone else codes.HANDLE_NOT_FOUND,
        )
    draft = Draft(Room(partition), active)
    for operation in command.operations:
        _ask(draft, active, operation)
    return draft


def _begun(partition: Partition, known: Active, command: Command, begin: Begin) -> Active:
    owner = partition.owner
    check_service(begin.to_service)
    if begin.target_key:
        check_key(begin.target_key)
    side = owner.sides.get((begin.contract, True))
    if side is None:
        raise UnknownContract(f"service {owner.name!r} does not initiate contract {begin.contract!r} (8425)")
    lifetime = begin.lifetime
    if lifetime < -1:
        raise LocalError(
            f"a lifetime is more than zero, not {lifetime} microseconds (8411)", code=codes.LIFETIME_NOT_POSITIVE
        )
    if lifetime == 0:
        lives = side.contract.lives(owner.periods.lifetime)
        lifetime = -1 if lives is None else lives
    endpoint = Endpoint(
        command.conversation_id,
        initiator=True,
        contract=begin.contract,
        service=owner.name,
        peer=begin.to_service,
        key=command.key,
        peer_key=begin.target_key or command.key,
        expires_at=NEVER if lifetime < 0 else later(owner.now, lifetime),
    )
    active = Active(known.identity, command.key.encode(), known.lane)
    active.place(endpoint, side)
    return active


def _ask(draft: Draft, active: Active, operation: object) -> None:
    match operation:
        case Begin():
            draft.asks.append(Ask(Verb.BEGIN, active, True))
        case Send(message_type, content_type, body):
            declared = active.side.contract.outgoing(None, message_type, active.endpoint.initiator)
            if len(body) > draft.room.body_limit:
                limit = draft.room.body_limit
                raise BodyTooLarge(f"the body has {len(body)} bytes; a message may have {limit} (8459)")
            if content_type != (expected := codec_of(declared).content_type):
                raise InvalidBody(
                    f"the content type of {message_type} is {expected!r}, not {content_type!r:.200} (9615)"
                )
            if draft.room.delayed and draft.room.is_clogged(active):
                raise LocalError(
                    f"too much waits for {active.endpoint.peer}, whose queue takes nothing", code=codes.CLOGGED
                )
            draft.move(active, Event.SEND)
            draft.asks.append(Ask(Verb.SEND, active, message_run(message_type, content_type), body))
        case End():
            draft.move(active, Event.END)
            draft.asks.append(Ask(Verb.END, active))
        case EndWithError(code, description):
            check_error(code, description)
            draft.move(active, Event.END_WITH_ERROR)
            draft.asks.append(Ask(Verb.END_WITH_ERROR, active, code, sendable(description, DESCRIPTION_LIMIT)))
        case SetTimer(after):
            check_timer(draft.state_of(active))
            draft.asks.append(Ask(Verb.SET_TIMER, active, NEVER if after < 0 else later(draft.room.now, after)))
        case Cleanup():
            draft.move(active, Event.CLEANUP)
            draft.asks.append(Ask(Verb.CLEANUP, active))
        case Switch() | Settle():
            raise LocalError("what concerns a partition stands alone in its command", code=codes.HANDLE_IN_USE)
        case Tick() | Resolve() | Report():
            pass


# -- taking effect once -----------------------------------------------------------------------------------------


def _check_age(partition: Partition, item: Item, command: Command) -> None:
    life = partition.owner.periods.command_life
    oldest = max(item.log_time, partition.progress.row.queue_time) - life
    drawn = drawn_at(command.conversation_id) if isinstance(command.operations[0], Begin) else None
    if command.issued_at < oldest or (drawn is not None and drawn < oldest):
        raise LocalError(
            "the command is more than a day old, or its client's clock more than a day behind: whether it took effect is "
            "not known any more",
            code=codes.HANDLE_NOT_FOUND,
        )
    if max(command.issued_at, drawn or 0) > item.log_time + life:
        # Once its row is forgotten nothing would tell its repetition from it.
        raise LocalError(
            "the command is from more than a day ahead: its client's clock is", code=codes.HANDLE_NOT_FOUND
        )


def _remember(partition: Partition, command: Command, log_time: int) -> None:
    """Keep what makes a repetition harmless, for a day of log time."""
    for key in _keys(command):
        until = max(partition.progress.row.queue_time, log_time) + partition.owner.periods.command_life
        partition.outbox.write(key, until.to_bytes(8, "big") + _content(command))
        partition.schedule.commands.add(until, key)


def _check_repeated(partition: Partition, command: Command) -> None:
    for key in _keys(command):
        _check(partition, key, command)


def _check(partition: Partition, key: bytes, command: Command) -> None:
    row = partition.outbox.read(key)
    if row is None:
        return
    if row[8:] != _content(command):
        raise LocalError("a command with this id and another content took effect before", code=codes.HANDLE_IN_USE)
    raise _Repeated


def _keys(command: Command) -> list[bytes]:
    keys = []
    if isinstance(command.operations[0], Begin):
        keys.append(rows.COMMAND + _digest(b"begin", command.conversation_id, command.from_initiator))
    if command.idempotency_key:
        keys.append(
            rows.COMMAND
            + _digest(b"key", command.conversation_id, command.from_initiator, command.idempotency_key.encode())
        )
    return keys


def _digest(*parts: bytes | bool) -> bytes:
    digest = blake2b(digest_size=16)
    for part in parts:
        data = bytes([part]) if isinstance(part, bool) else part
        digest.update(len(data).to_bytes(4, "big") + data)
    return digest.digest() + b"\0"


def _content(command: Command) -> bytes:
    plain = Command(
        bytes(16), command.conversation_id, command.from_initiator, command.key, command.idempotency_key, "", 0,
        command.operations,
    )  # fmt: skip
    return blake2b(encode_command(plain), digest_size=8).digest()
