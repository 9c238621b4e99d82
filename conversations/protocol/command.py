"""Commands: requests of clients, workers and operators to the owner of an endpoint.

Those of clients and workers are records of the commands topic. Those of operators are records of the decisions topic (``GOES_TO``).

The operations of one command take effect together. So a begin, its messages and an end are atomic, and the client needs no transaction
(design decision 0004).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import blake2b
from typing import Any, NamedTuple, TypeAlias

from conversations import schemas
from conversations.errors import UndecodableRecord
from conversations.protocol.command_fields import (
    OtherLayout,
    layout,
    read_fields,
    read_items,
    resolved,
    write_fields,
    write_items,
)
from conversations.protocol.command_parts import Parts, Staying, Window
from conversations.protocol.fragments import cut
from conversations.protocol.limits import COMMAND_BYTES, OPERATIONS, PIECE_BYTES
from conversations.protocol.registry import DEFAULT, HEAD_SIZE, Registry, Schema
from conversations.protocol.send import Send, SendFromPieces
from conversations.protocol.states import Trigger
from conversations.protocol.topics import COMMANDS, DECISIONS, key_in

__all__ = [
    "TRIGGERS",
    "Action",
    "Begin",
    "Cleanup",
    "Command",
    "End",
    "EndWithError",
    "Failed",
    "Operation",
    "Piece",
    "Report",
    "Resend",
    "Resolve",
    "Reuse",
    "Send",
    "SendFromPieces",
    "SetTimer",
    "Settle",
    "Source",
    "Switch",
    "Tick",
    "UndecodableRecord",
    "Verb",
    "aged",
    "decode_command",
    "decode_parts",
    "encode_command",
    "head_of",
    "pool_id",
    "records_of",
    "to_partition",
    "topic_for",
]

CURRENT = Schema(schemas.load("command", schemas.newest("command")), items=OPERATIONS)
"""The newest schema. This version encodes with it, and decodes older and newer records into its fields."""


@dataclass(slots=True)
class Begin:
    """Begin the dialog.

    ``lifetime`` is in microseconds; 0 is the contract's lifetime, -1 is unlimited. If ``target_key`` is empty, the two sides have
    the same key.
    """

    to_service: str
    contract: str
    lifetime: int = 0
    target_key: str = ""


@dataclass(slots=True)
class Reuse:
    """Send on the dialog of a pool for the command's key, or begin the next one. It is the first operation of its command.

    ``max_age`` is in microseconds. If ``max_messages`` is 0, their number is not limited. If ``target_key`` is empty, the two sides have the
    same key. The dialog of a pool is chosen by its owner, so the command has the id ``pool_id`` instead of a conversation id.
    """

    to_service: str
    contract: str
    max_age: int
    max_messages: int = 0
    target_key: str = ""


@dataclass(slots=True)
class End:
    """End the conversation."""


@dataclass(slots=True)
class EndWithError:
    """End the conversation with an application error, whose code is above 0."""

    code: int
    description: str


@dataclass(slots=True)
class Cleanup:
    """Close the endpoint without telling the peer."""


@dataclass(slots=True)
class Resend:
    """Ask the peer of a broken dialog what it has accepted, and send the rest again on a new dialog (design decision 0038)."""


@dataclass(slots=True)
class SetTimer:
    """Set a timer to ``after`` microseconds from the time at which the command is handled; a negative number cancels the timer.

    ``name`` is the name of the timer; the dialog timer has none. A timer with a name is an operation of its own in a record, because a reader
    of an older version would take a field that it does not know for nothing, and set the dialog timer.
    """

    after: int
    name: str = ""


@dataclass(slots=True)
class Tick:
    """Advance log time on a partition whose queue nobody writes to."""


class Action(StrEnum):
    """A decision about a failed message."""

    RETRY = "RETRY"
    EDIT = "EDIT"
    """Try the message again, with another body."""
    SKIP = "SKIP"
    END = "END"
    """End the dialog with an error."""


class Failed(StrEnum):
    """The kind of handler that failed."""

    MESSAGE = "MESSAGE"
    """The handler of a message, or of the peer's END."""
    TIMER = "TIMER"
    ERROR = "ERROR"
    SKIPPED = "SKIPPED"
    """The handler for messages that the peer skipped."""


@dataclass(slots=True)
class Resolve:
    """Decide about a failed message for which its dialog waits, or about a failed handler without a message (number -1).

    ``ticket`` is the ticket that the operator saw. If the ticket has changed since then, the decision is refused. 0 stands for any ticket.
    """

    handler: str
    number: int
    ticket: int
    action: str
    body: bytes = b""
    code: int = 0
    description: str = ""
    reason: str = ""
    timer: str = ""
    """Name of the timer whose handler failed; empty for the dialog timer, and for another handler."""


@dataclass(slots=True)
class Switch:
    """Turn the queue of the command's partition on or off.

    A command with this operation has no other operation, and is about no conversation.
    """

    on: bool
    reason: str = ""


class Source(NamedTuple):
    """The source of a letter: the topic and the offset of its record."""

    topic: str
    """``QUEUE``, ``COMMANDS`` or ``DECISIONS``."""
    offset: int


@dataclass(slots=True)
class Settle:
    """Close detached letters of the command's partition. A command with this operation has no other operation."""

    letters: tuple[Source, ...]
    outcome: str
    reason: str = ""


@dataclass(slots=True)
class Piece:
    """A piece of a command that is too large for one record. It is the only operation of a command with the same ids.

    ``index`` counts from 0 to ``count`` - 1. The contents of all pieces, joined, are the encoded command.
    """

    index: int
    count: int
    content: bytes


@dataclass(slots=True)
class Report:
    """Report an event after the command has taken effect. ``Report`` is the last operation of its command."""


Verb: TypeAlias = Begin | Send | End | EndWithError | Cleanup | SetTimer | Resend
"""Requests to a dialog.

A handler's draft, a client's block and a command contain the same kinds of requests. Only operators ask for ``Cleanup``, and only handlers and operators for ``Resend``.
"""
Operation: TypeAlias = Verb | Tick | Resolve | Switch | Settle | Report | Reuse | Piece

GOES_TO: dict[type[Operation], str] = {
    Begin: COMMANDS, Send: COMMANDS, Reuse: COMMANDS, End: COMMANDS, EndWithError: COMMANDS, SetTimer: COMMANDS, Tick: COMMANDS,
    Piece: COMMANDS, SendFromPieces: COMMANDS,
    Cleanup: DECISIONS, Resend: DECISIONS, Resolve: DECISIONS, Switch: DECISIONS, Settle: DECISIONS, Report: DECISIONS,
}  # fmt: skip
"""The topic for a command with each operation: ``COMMANDS`` is for clients and workers, ``DECISIONS`` is for operators.

A command with any operation for ``DECISIONS`` goes there as a whole. So an operator ends a dialog, or sends a message, by a command that also
has ``Report``: its event names the operator, so only who may decide may cause it.
"""

TRIGGERS: dict[type[Verb], Trigger] = {
    Send: Trigger.SEND, SendFromPieces: Trigger.SEND, End: Trigger.END, EndWithError: Trigger.END_WITH_ERROR,
    Cleanup: Trigger.CLEANUP,
}  # fmt: skip
"""The trigger of each verb that changes the state of its endpoint."""

_NAMESPACE = "conversations."
_OPERATIONS: dict[str, type[Operation]] = {
    _NAMESPACE + operation.__name__: operation
    for operation in (
        Begin,
        Send,
        End,
        EndWithError,
        Cleanup,
        SetTimer,
        Tick,
        Resolve,
        Switch,
        Settle,
        Report,
        Resend,
        Reuse,
        Piece,
    )
}
_SET_NAMED_TIMER = _NAMESPACE + "SetNamedTimer"
_OPERATIONS[_SET_NAMED_TIMER] = SetTimer


@dataclass(slots=True)
class Command:
    """Operations on one endpoint. Ids have 16 bytes, ``issued_at`` is in microseconds since 1970, and an empty text stands for no value."""

    command_id: bytes
    conversation_id: bytes
    from_initiator: bool
    key: str
    idempotency_key: str
    issued_by: str
    issued_at: int
    operations: tuple[Operation, ...]


def aged(verb: Verb, elapsed: int) -> Verb:
    """Shorten the duration of a request that was made ``elapsed`` microseconds ago, so that the duration ends at the intended time.

    If that time has passed, the duration ends as soon as the dialog's owner handles the request. Requests without a duration are returned
    unchanged.
    """
    match verb:
        case Begin(to_service, contract, lifetime, target_key) if lifetime > 0:
            return Begin(to_service, contract, max(lifetime - elapsed, 1), target_key)
        case SetTimer(after, name) if after >= 0:
            return SetTimer(max(after - elapsed, 0), name)
        case _:
            return verb


NO_CONVERSATION = bytes(16)
"""The conversation id in a command about a partition."""


def concerns_partition(command: Command) -> bool:
    """Return True if all operations of a command are about its partition. Such a command is about no conversation."""
    return all(isinstance(operation, Tick | Switch | Settle) for operation in command.operations)


def topic_for(command: Command) -> str:
    """Return the kind of topic that a command must come through: ``COMMANDS`` or ``DECISIONS`` (see ``GOES_TO``)."""
    return DECISIONS if any(GOES_TO[type(it)] == DECISIONS for it in command.operations) else COMMANDS


def pool_id(key: str) -> bytes:
    """Return the id that commands for a key of a pool have instead of a conversation id: a digest of the group's key, 16 bytes."""
    return blake2b(key.encode(), digest_size=16, person=b"pool").digest()


def to_partition(
    where: tuple[int, int], operation: Tick | Switch | Settle, by: str, command_id: bytes, now: int
) -> Command:
    """Make a command that is about a partition and no conversation; ``where`` is the partition's number and the partition count."""
    return Command(command_id, NO_CONVERSATION, True, key_in(*where), "", by, now, (operation,))


*_FIRST, _LAST = CURRENT.parsed["fields"]
_UNION = [resolved(it, CURRENT.names) for it in _LAST["type"]["items"]]
_HEAD = layout(_FIRST, CURRENT.names) or ()
_LAYOUTS = [layout(it["fields"], CURRENT.names) for it in _UNION]
_CLASSES: list[Callable[..., Operation]] = [_OPERATIONS[it["name"]] for it in _UNION]
_INDEX = {it["name"]: index for index, it in enumerate(_UNION)}
_SEND = _INDEX[_NAMESPACE + Send.__name__]


def encode_command(command: Command) -> bytes:
    """Encode a command.

    Raises:
        ValueError, TypeError, OverflowError: a field does not fit the schema.
    """
    if (value := _encode_plain(command)) is not None:
        return value
    fields = {name: getattr(command, name) for name in Command.__dataclass_fields__}
    fields["operations"] = [_operation_fields(operation) for operation in command.operations]
    return CURRENT.encode(fields)


def _encode_plain(command: Command) -> bytes | None:
    """Encode a command without fastavro. Return None if fastavro must encode it, or say why it cannot."""
    try:
        items = [(_INDEX[_name_of(it)], it) for it in command.operations]
        return CURRENT.head + write_fields(_HEAD, command) + write_items(_LAYOUTS, items)
    except (OtherLayout, KeyError, TypeError, ValueError, OverflowError):
        return None


def records_of(command: Command) -> list[bytes]:
    """Encode a command as the values of its records. There are several if it is too large for one record.

    Raises:
        ValueError, TypeError, OverflowError: a field does not fit the schema.
    """
    value = encode_command(command)
    if len(value) <= COMMAND_BYTES:
        return [value]
    contents = list(cut(value, PIECE_BYTES))
    pieces = (Piece(index, len(contents), content) for index, content in enumerate(contents))
    return [encode_command(replace(command, idempotency_key="", operations=(it,))) for it in pieces]


def decode_command(value: bytes, registry: Registry = DEFAULT) -> Command:
    """Decode a command of any schema version that ``registry`` knows.

    Raises:
        UndecodableRecord: the bytes are not a command, or the command has an operation that this version does not know.
    """
    if (command := _decode_current(value)) is not None:
        return command
    fields = registry.decode(value, CURRENT)
    operations = tuple(_operation(name, values) for name, values in fields.pop("operations"))
    return Command(operations=operations, **fields)


def _decode_current(value: bytes) -> Command | None:
    """Decode a command of the newest schema without fastavro. Return None if the registry must decode it, or say why it cannot."""
    if not value.startswith(CURRENT.head):
        return None
    try:
        fields, at = read_fields(_HEAD, value, HEAD_SIZE)
        operations = tuple(_CLASSES[index](*values) for index, values in read_items(_LAYOUTS, OPERATIONS, value, at))
    except (OtherLayout, IndexError, ValueError):
        return None
    return Command(*[*fields, operations])


def head_of(value: bytes) -> tuple[Command, int] | None:
    """Return a command of the newest schema without its operations, and the position of its operations.

    None if the beginning of the encoding has not the whole head, or this version would write it in another way.
    """
    if not value.startswith(CURRENT.head):
        return None
    try:
        fields, at = read_fields(_HEAD, value, HEAD_SIZE)
        head = Command(*[*fields, ()])
        is_ours = write_fields(_HEAD, head) == value[HEAD_SIZE:at]
    except (OtherLayout, IndexError, ValueError, UndecodableRecord):
        return None
    return (head, at) if is_ours else None


def decode_parts(parts: Parts, largest: int) -> Command | None:
    """Decode a command of the newest schema from its parts. Return None if it must be decoded as a whole.

    The body of a message stays in the parts if it has more than ``largest`` bytes (``SendFromPieces``).
    """
    window = Window(parts, lambda index, size: index == _SEND and size > largest)
    try:
        fields, items = window.record(CURRENT.head, _HEAD, _LAYOUTS, OPERATIONS)
    except (OtherLayout, ValueError):
        return None
    operations = tuple(_from_parts(fields[0], index, values) for index, values in items)
    return Command(*[*fields, operations])


def _from_parts(command_id: bytes, index: int, values: list[Any]) -> Operation:
    body = values[-1] if values else None
    if isinstance(body, Staying):
        message_type, content_type, _ = values
        return SendFromPieces(message_type, content_type, b"", b"", command_id, body.start, body.size)
    return _CLASSES[index](*values)


def _operation(name: str, values: dict[str, Any]) -> Operation:
    if name == _NAMESPACE + Settle.__name__:
        values["letters"] = tuple(Source(**it) for it in values["letters"])
    return _OPERATIONS[name](**values)


def _operation_fields(operation: Operation) -> tuple[str, dict[str, Any]]:
    if isinstance(operation, EndWithError | Resolve) and not -(1 << 31) <= operation.code < 1 << 31:
        raise OverflowError(f"{operation.code} does not fit in 32 bits")
    fields = {field: getattr(operation, field) for field in type(operation).__dataclass_fields__}
    if isinstance(operation, Settle):
        fields["letters"] = [it._asdict() for it in operation.letters]
    return _name_of(operation), fields


def _name_of(operation: Operation) -> str:
    """Return the name of the record that an operation is in the schema."""
    if isinstance(operation, SetTimer) and operation.name:
        return _SET_NAMED_TIMER
    return _NAMESPACE + type(operation).__name__
