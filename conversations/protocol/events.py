"""Events, which workers and operators' tools report to the events topic. Each event has a class.

An event is a JSON object. Its first field is ``event``, the name of the event. The fields of its class follow in their order. In a worker's
event, three other fields come first after the name: ``service`` and ``partition`` name the partition that reports the event, and ``at`` is
the time (microseconds since 1970).

A later version may add events and fields. So a reader must skip an event with an unknown name, and must ignore an unknown field.
``docs/make_events.py`` generates ``docs/events.md`` and ``schemas/event.v1.json`` from these classes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple, get_type_hints

from conversations.protocol.event_fields import KINDS, SHARED
from conversations.protocol.event_fields import ConversationId as ConversationId  # noqa: PLC0414 - also part of this module
from conversations.protocol.event_fields import Kind as Kind  # noqa: PLC0414
from conversations.protocol.letters import TEXT_LIMIT


class Event:
    """Base class of all events."""

    __slots__ = ()
    NAME: ClassVar[str]
    NEEDED: ClassVar[frozenset[str]] = frozenset()
    """Fields without which a reader cannot use the event. Any other field that is missing is read as empty."""


class WorkerEvent(Event):
    """An event that the owner of a partition reports."""

    __slots__ = ()


class ToolEvent(Event):
    """An event that an operator's tool reports. All of its data, including the time, is in the fields of its class."""

    __slots__ = ()


class Origin(NamedTuple):
    """The partition that reports an event, and the time."""

    service: str
    partition: int
    at: int
    """Microseconds since 1970."""


# -- records and state ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SetAside(WorkerEvent):
    """The record at ``offset`` of ``topic`` was set aside; ``why`` is the reason."""

    NAME = "SET_ASIDE"
    topic: str
    offset: int
    why: str


@dataclass(frozen=True, slots=True)
class MessageCorrupt(WorkerEvent):
    """The record at ``offset`` of ``topic`` was damaged between two clusters. It was discarded, and its sender transmits the genuine one again."""

    NAME = "MESSAGE_CORRUPT"
    topic: str
    offset: int
    why: str


@dataclass(frozen=True, slots=True)
class MessageNotAuthentic(WorkerEvent):
    """The record at ``offset`` of ``topic`` was discarded: ``peer``, the sender that it names, has not sealed it for this place.

    ``key`` is the id of the key that its seal names; empty if it has no seal, or a seal with an impossible id.
    """

    NAME = "MESSAGE_NOT_AUTHENTIC"
    topic: str
    offset: int
    peer: str
    key: str
    why: str


@dataclass(frozen=True, slots=True)
class PartitionSetAside(WorkerEvent):
    """The partition was set aside. Its owner stops working on it until a person acts."""

    NAME = "PARTITION_SET_ASIDE"
    why: str


@dataclass(frozen=True, slots=True)
class CopyDamaged(WorkerEvent):
    """The local copy of the partition's state was damaged, and was restored from the state topic."""

    NAME = "COPY_DAMAGED"
    why: str


@dataclass(frozen=True, slots=True)
class ClockOff(WorkerEvent):
    """The clock of the worker's machine is ahead of log time by ``seconds``; a negative number means that the clock is behind."""

    NAME = "CLOCK_OFF"
    seconds: float


# -- messages ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GaveUp(WorkerEvent):
    """A message or handler was given up on. ``then`` is the policy's decision; ``code`` is the error code if the dialog ends, else 0."""

    NAME = "GAVE_UP"
    conversation: ConversationId
    then: str
    code: int
    failure: str


@dataclass(frozen=True, slots=True)
class DialogBroken(WorkerEvent):
    """A dialog with ``peer`` broke with a system code, or was refused, and no ``on_error`` handler and no client of this service is told.

    ``by`` is the service that found the error; it is empty if that is not known any more. ``dialogs`` is the number of dialogs that broke
    alike since the last such event; ``conversation`` is the last of them.
    """

    NAME = "DIALOG_BROKEN"
    conversation: ConversationId
    code: int
    by: str
    peer: str
    why: str
    dialogs: int


@dataclass(frozen=True, slots=True)
class SkippedByPeer(WorkerEvent):
    """Messages of this service failed at the peer, and the peer skipped them. The dialog goes on. ``numbers`` has the messages' numbers."""

    NAME = "SKIPPED_BY_PEER"
    conversation: ConversationId
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Undeliverable(WorkerEvent):
    """A topic refuses the envelopes of a dialog, and the dialog breaks if it is not over. ``envelopes`` is the number of dead letters."""

    NAME = "UNDELIVERABLE"
    conversation: ConversationId
    code: int
    why: str
    envelopes: int


@dataclass(frozen=True, slots=True)
class Undelivered(WorkerEvent):
    """A dialog is over, and its peer has not accepted messages of this side. They are dead letters; ``envelopes`` is their number.

    ``code`` is the error that broke the dialog; 0 if there is none. ``why`` tells whether the peer has said what it has accepted.
    """

    NAME = "UNDELIVERED"
    conversation: ConversationId
    envelopes: int
    code: int
    why: str


@dataclass(frozen=True, slots=True)
class Renewed(WorkerEvent):
    """A broken dialog goes on: ``messages`` that its peer had not accepted are sent again on the dialog ``replaced_by``."""

    NAME = "RENEWED"
    conversation: ConversationId
    replaced_by: ConversationId
    generation: int
    code: int
    messages: int


@dataclass(frozen=True, slots=True)
class NotKept(WorkerEvent):
    """A dialog has ``unacknowledged_bytes``, which is a limit. Its messages from number ``sequence`` on are sent, but not kept by their sender."""

    NAME = "NOT_KEPT"
    conversation: ConversationId
    unacknowledged_bytes: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Unanswerable(WorkerEvent):
    """An answer with ``code`` could not be sent. A record has ``service_named`` as its sender, but this service has no queue."""

    NAME = "UNANSWERABLE"
    service_named: str
    code: int


# -- queues --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QueueDisabled(WorkerEvent):
    """The queue of the partition is off. If a command turned it off, ``command`` is its id.

    ``by`` is the operator if ``cause`` is "operator", the message type if it is "policy", and the number of rollbacks if it is "rollbacks".
    """

    NAME = "QUEUE_DISABLED"
    cause: str
    by: str
    reason: str
    command: str | None = None


@dataclass(frozen=True, slots=True)
class QueueEnabled(WorkerEvent):
    """The queue of the partition is on."""

    NAME = "QUEUE_ENABLED"
    by: str
    reason: str
    command: str


@dataclass(frozen=True, slots=True)
class QueuePaused(WorkerEvent):
    """The partition stopped reading its queue, because waiting rows, or rows parked for the queue or the brake, have too many bytes."""

    NAME = "QUEUE_PAUSED"
    waiting_bytes: int
    parked_bytes: int


@dataclass(frozen=True, slots=True)
class QueueResumed(WorkerEvent):
    """The partition reads its queue again."""

    NAME = "QUEUE_RESUMED"


@dataclass(frozen=True, slots=True)
class BrakeOn(WorkerEvent):
    """The brake is on for ``peer``. ``dialogs`` is the number of failed dialogs, also of other peers. ``failure`` is the last exception."""

    NAME = "BRAKE_ON"
    dialogs: int
    peer: str
    failure: str


@dataclass(frozen=True, slots=True)
class BrakeOff(WorkerEvent):
    """The brake is off for ``peer``."""

    NAME = "BRAKE_OFF"
    peer: str


# -- commands of operators -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Resolved(WorkerEvent):
    """A command decided about a failed message, or about a failed handler without a message (``number`` -1)."""

    NAME = "RESOLVED"
    command: str
    conversation: ConversationId
    from_initiator: bool
    handler: str
    number: int
    action: str
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class Settled(WorkerEvent):
    """A command closed letters; ``outcome`` tells what happened to them."""

    NAME = "SETTLED"
    command: str
    letters: tuple[str, ...]
    outcome: str
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class CommandDone(WorkerEvent):
    """A command has taken effect. It may have taken effect earlier, if it was sent more than once."""

    NAME = "COMMAND_DONE"
    command: str
    by: str


@dataclass(frozen=True, slots=True)
class CommandRefused(WorkerEvent):
    """A command was refused and had no effect; ``why`` is the reason."""

    NAME = "COMMAND_REFUSED"
    NEEDED = frozenset({"command", "why"})
    command: str
    code: int
    why: str


class Outcome(StrEnum):
    """The outcome of a failed message or handler that an operator gave back."""

    HANDLED = "handled"
    FAILED = "failed"
    ENDED = "ended"
    """The dialog ended before the message or handler had its turn."""
    DECIDED = "decided"
    """Another decision was made about the message or handler."""


@dataclass(frozen=True, slots=True)
class Returned(WorkerEvent):
    """The outcome of a message or handler that ``command`` gave back: handled, failed, ended (with its dialog), or decided (again)."""

    NAME = "RETURNED"
    NEEDED = frozenset({"command", "outcome"})
    command: str
    outcome: str


# -- operators' tools ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Resubmitting(ToolEvent):
    """The messages of ``letters`` are sent again on the new dialog ``dialog``. If the command is repeated, it uses the same new dialog."""

    NAME = "RESUBMITTING"
    NEEDED = frozenset({"at", "conversation", "dialog", "letters"})
    service: str
    at: int
    conversation: ConversationId
    dialog: ConversationId
    letters: tuple[str, ...]
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class DialogEnding(ToolEvent):
    """An operator asks the owner of one side of a dialog to end it. The answer is ``COMMAND_DONE`` or ``COMMAND_REFUSED`` for ``command``."""

    NAME = "DIALOG_ENDING"
    NEEDED = frozenset({"at", "conversation", "command"})
    service: str
    at: int
    conversation: ConversationId
    initiator: bool
    """True if this side began the dialog."""
    action: str
    """``end``, ``end with error``, ``cleanup`` or ``resend``."""
    code: int
    """Code of the error for the peer; 0 without an error."""
    by: str
    reason: str
    command: str


@dataclass(frozen=True, slots=True)
class TransactionAborting(ToolEvent):
    """An operator lets Kafka abort an open transaction, which hides the newest records of the queue of ``service``."""

    NAME = "TRANSACTION_ABORTING"
    NEEDED = frozenset({"at", "transactional_id"})
    service: str
    at: int
    transactional_id: str
    """The name that the program gives to its producer."""
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class GroupNoted(ToolEvent):
    """An operator noted something on a group of failed messages: those of a service with one exception and one type."""

    NAME = "GROUP_NOTED"
    NEEDED = frozenset({"at", "exception", "type", "mended", "by", "reason"})
    service: str
    at: int
    exception: str
    type: str
    mended: bool
    """True if the cause of the failures is mended."""
    by: str
    reason: str
    """The note."""


@dataclass(frozen=True, slots=True)
class RedriveEvent(ToolEvent):
    """An event about a redrive."""

    NEEDED = frozenset({"redrive", "by"})
    redrive: str
    at: int
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class RedriveStop(RedriveEvent):
    """An operator asks a redrive to stop."""

    NAME = "REDRIVE_STOP"


@dataclass(frozen=True, slots=True)
class RedriveCounts(RedriveEvent):
    """An event with the progress of a redrive: the number of letters for each outcome."""

    NEEDED = frozenset({"redrive", "by", "outcomes"})
    outcomes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class RedriveStarted(RedriveCounts):
    """A redrive of ``letters`` letters starts, or is resumed."""

    NAME = "REDRIVE_STARTED"
    letters: int


@dataclass(frozen=True, slots=True)
class RedriveProgress(RedriveCounts):
    """The progress of a redrive: the number of letters for each outcome."""

    NAME = "REDRIVE_PROGRESS"


@dataclass(frozen=True, slots=True)
class RedriveEnded(RedriveCounts):
    """A redrive ended; ``end`` tells how. If somebody stopped it, ``by`` and ``reason`` are theirs; else they are those of its start."""

    NAME = "REDRIVE_ENDED"
    NEEDED = frozenset({"redrive", "by", "outcomes", "end"})
    end: str


@dataclass(frozen=True, slots=True)
class ForwarderEvent(ToolEvent):
    """An event of a forwarder, which carries envelopes to the other cluster ``cluster``."""

    NEEDED = frozenset({"cluster", "at"})
    cluster: str
    at: int


@dataclass(frozen=True, slots=True)
class ForwardingBegan(ForwarderEvent):
    """A forwarder carries these partitions of the transmission topic from now on. So the other cluster answers."""

    NAME = "FORWARDING_BEGAN"
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ForwardingEnded(ForwarderEvent):
    """A forwarder has given these partitions up: it ends, another forwarder gets them, or a cluster is away. A killed forwarder reports nothing."""

    NAME = "FORWARDING_ENDED"
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ClusterAway(ForwarderEvent):
    """A forwarder runs, and cannot carry: ``why`` is what it was told by one of the clusters. It tries again by itself."""

    NAME = "CLUSTER_AWAY"
    why: str


@dataclass(frozen=True, slots=True)
class ClusterBack(ForwarderEvent):
    """A forwarder carries again after ``CLUSTER_AWAY``; ``since`` is the time from which it could not, in microseconds since 1970."""

    NAME = "CLUSTER_BACK"
    since: int


@dataclass(frozen=True, slots=True)
class NotForwarded(ForwarderEvent):
    """The other cluster has no service ``service``, or its queue refuses a record, so an envelope was not carried. Its sender transmits it again. Each forwarder reports each of the two once."""

    NAME = "NOT_FORWARDED"
    service: str


EVENTS: dict[str, type[Event]] = {
    event.NAME: event
    for event in (
        SetAside, MessageCorrupt, MessageNotAuthentic, PartitionSetAside, CopyDamaged, ClockOff, GaveUp, DialogBroken, SkippedByPeer, Undeliverable, Undelivered, Renewed, NotKept, Unanswerable,
        QueueDisabled, QueueEnabled, QueuePaused, QueueResumed, BrakeOn, BrakeOff, Resolved, Settled, CommandDone, CommandRefused,
        Returned, Resubmitting, DialogEnding, TransactionAborting, GroupNoted, RedriveStarted, RedriveProgress, RedriveStop, RedriveEnded,
        ForwardingBegan, ForwardingEnded, ClusterAway, ClusterBack, NotForwarded,
    )
}  # fmt: skip
"""The classes of all events, by the name of the event."""


# -- bytes ---------------------------------------------------------------------------------------------------------------


def encode_worker_event(origin: Origin, event: WorkerEvent) -> bytes:
    """Encode an event of a worker. Long texts are cut."""
    facts = {name: it[:TEXT_LIMIT] if isinstance(it, str) else it for name, it in _facts(event).items()}
    return json.dumps({"event": event.NAME, **origin._asdict(), **facts}).encode()


def encode_tool_event(event: ToolEvent) -> bytes:
    """Encode an event of a tool."""
    return json.dumps({"event": event.NAME, **_facts(event)}).encode()


def decode_event(value: bytes | None) -> Event | None:
    """Decode an event. Return None for an event that this version does not know.

    Raises:
        ValueError: the bytes are not an event, or a field has a value of the wrong type.
        RecursionError: the JSON is nested too deeply.
    """
    said = json.loads(value or b"")
    if not isinstance(said, dict) or not isinstance(said.get("event"), str):
        raise ValueError("it is not a JSON object with the name of an event")  # noqa: TRY004 - json raises ValueError, too
    known = EVENTS.get(said["event"])
    kinds = SHARED if known is None else _KINDS_OF[known]
    needed = () if known is None else known.NEEDED
    for name, kind in kinds.items():
        if (name in said or name in needed) and not kind.fits(said.get(name)):
            raise ValueError(f"its field {name} is {said.get(name)!r:.80}")
    if known is None:
        return None
    return known(**{name: kind.read(said[name]) if name in said else kind.empty for name, kind in kinds.items()})


def kinds_of(event: type[Event]) -> dict[str, Kind]:
    """Return the types of an event's fields, by name, in their order on the wire."""
    hints = get_type_hints(event)
    return {field.name: KINDS[hints[field.name]] for field in fields(event)}  # type: ignore[arg-type]  # all are dataclasses


_KINDS_OF = {event: kinds_of(event) for event in EVENTS.values()}


def _facts(event: Event) -> dict[str, Any]:
    found = ((name, getattr(event, name)) for name in _KINDS_OF[type(event)])
    return {name: value for name, value in found if value is not None}
