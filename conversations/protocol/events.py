"""Events: what workers and operators' tools report to the events topic, one class for each.

An event is a JSON object. ``event`` is its name, the fields of its class follow in their order. A worker's event says between the two
which ``service`` and ``partition`` reports, and ``at``, when (microseconds since 1970).

A later version may add events and fields: a reader skips a name that it does not know, and ignores a field that it does not know.
``docs/make_events.py`` writes ``docs/events.md`` and ``schemas/event.v1.json`` from the classes here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple, NewType, get_type_hints
from uuid import UUID

from conversations.protocol.letters import TEXT_LIMIT

ConversationId = NewType("ConversationId", str)
"""A conversation id as people write it: lower case, with hyphens."""


class Event:
    """Something that was reported."""

    __slots__ = ()
    NAME: ClassVar[str]
    NEEDED: ClassVar[frozenset[str]] = frozenset()
    """Fields without which a reader cannot use the event. Any other field that is missing is read as empty."""


class WorkerEvent(Event):
    """Reported by the owner of a partition."""

    __slots__ = ()


class ToolEvent(Event):
    """Reported by an operator's tool; its fields say all, the time too."""

    __slots__ = ()


class Origin(NamedTuple):
    """Which partition reports, and when."""

    service: str
    partition: int
    at: int
    """Microseconds since 1970."""


# -- records and state ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SetAside(WorkerEvent):
    """A record was set aside."""

    NAME = "SET_ASIDE"
    topic: str
    offset: int
    why: str


@dataclass(frozen=True, slots=True)
class PartitionSetAside(WorkerEvent):
    """A partition stands still until a human has looked at it."""

    NAME = "PARTITION_SET_ASIDE"
    why: str


@dataclass(frozen=True, slots=True)
class CopyDamaged(WorkerEvent):
    """A local copy of state was damaged, and built anew from the topic."""

    NAME = "COPY_DAMAGED"
    why: str


@dataclass(frozen=True, slots=True)
class ClockOff(WorkerEvent):
    """The machine's clock differs from the log's by this many seconds."""

    NAME = "CLOCK_OFF"
    seconds: float


# -- messages ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GaveUp(WorkerEvent):
    """A handler was given up on: ``then`` is what its policy says."""

    NAME = "GAVE_UP"
    conversation: ConversationId
    then: str
    code: int
    failure: str


@dataclass(frozen=True, slots=True)
class SkippedByPeer(WorkerEvent):
    """The peer goes on without messages of these numbers."""

    NAME = "SKIPPED_BY_PEER"
    conversation: ConversationId
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Undeliverable(WorkerEvent):
    """A dialog ended because a topic does not take its envelopes."""

    NAME = "UNDELIVERABLE"
    conversation: ConversationId
    code: int
    why: str
    envelopes: int


@dataclass(frozen=True, slots=True)
class Undelivered(WorkerEvent):
    """Answers were dropped, as nobody remembers the conversation."""

    NAME = "UNDELIVERED"
    conversation: ConversationId
    envelopes: int


@dataclass(frozen=True, slots=True)
class Unanswerable(WorkerEvent):
    """A refusal could not be told, as the service named as sender has no queue."""

    NAME = "UNANSWERABLE"
    service_named: str
    code: int


# -- queues --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QueueDisabled(WorkerEvent):
    """The queue of a partition is off; ``command`` asked for it, if one did."""

    NAME = "QUEUE_DISABLED"
    cause: str
    by: str
    reason: str
    command: str | None = None


@dataclass(frozen=True, slots=True)
class QueueEnabled(WorkerEvent):
    """The queue of a partition is on."""

    NAME = "QUEUE_ENABLED"
    by: str
    reason: str
    command: str


@dataclass(frozen=True, slots=True)
class QueuePaused(WorkerEvent):
    """A queue is not read while too much waits: bytes at work, and bytes that wait their turn."""

    NAME = "QUEUE_PAUSED"
    waiting_bytes: int
    parked_bytes: int


@dataclass(frozen=True, slots=True)
class QueueResumed(WorkerEvent):
    """The queue is read again."""

    NAME = "QUEUE_RESUMED"


@dataclass(frozen=True, slots=True)
class BrakeOn(WorkerEvent):
    """The brake is on for a peer: so many of its dialogs failed."""

    NAME = "BRAKE_ON"
    dialogs: int
    peer: str
    failure: str


@dataclass(frozen=True, slots=True)
class BrakeOff(WorkerEvent):
    """The brake is off for a peer."""

    NAME = "BRAKE_OFF"
    peer: str


# -- commands of operators -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Resolved(WorkerEvent):
    """A command decided about a failed message, or a handler without one."""

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
    """A command closed letters."""

    NAME = "SETTLED"
    command: str
    letters: tuple[str, ...]
    outcome: str
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class CommandDone(WorkerEvent):
    """A command took effect, now or before."""

    NAME = "COMMAND_DONE"
    command: str
    by: str


@dataclass(frozen=True, slots=True)
class CommandRefused(WorkerEvent):
    """A command had no effect."""

    NAME = "COMMAND_REFUSED"
    NEEDED = frozenset({"command", "why"})
    command: str
    code: int
    why: str


class Outcome(StrEnum):
    """What became of a failed message that an operator gave back."""

    HANDLED = "handled"
    FAILED = "failed"
    ENDED = "ended"
    """Its dialog was over before it had its turn."""
    DECIDED = "decided"
    """Somebody decided about it again."""


@dataclass(frozen=True, slots=True)
class Returned(WorkerEvent):
    """What became of a message that a command gave back."""

    NAME = "RETURNED"
    NEEDED = frozenset({"command", "outcome"})
    command: str
    outcome: str


# -- operators' tools ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Resubmitting(ToolEvent):
    """Letters of a dialog go on a new dialog: who repeats the command uses the same."""

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
class RedriveEvent(ToolEvent):
    """Something about a redrive."""

    NEEDED = frozenset({"redrive", "by"})
    redrive: str
    at: int
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class RedriveStop(RedriveEvent):
    """Somebody asks a redrive to stop."""

    NAME = "REDRIVE_STOP"


@dataclass(frozen=True, slots=True)
class RedriveCounts(RedriveEvent):
    """How far a redrive is: letters by outcome."""

    NEEDED = frozenset({"redrive", "by", "outcomes"})
    outcomes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class RedriveStarted(RedriveCounts):
    """A redrive starts, or is resumed."""

    NAME = "REDRIVE_STARTED"
    letters: int


@dataclass(frozen=True, slots=True)
class RedriveProgress(RedriveCounts):
    """How far a redrive is."""

    NAME = "REDRIVE_PROGRESS"


@dataclass(frozen=True, slots=True)
class RedriveEnded(RedriveCounts):
    """A redrive ended, and how."""

    NAME = "REDRIVE_ENDED"
    NEEDED = frozenset({"redrive", "by", "outcomes", "end"})
    end: str


EVENTS: dict[str, type[Event]] = {
    event.NAME: event
    for event in (
        SetAside, PartitionSetAside, CopyDamaged, ClockOff, GaveUp, SkippedByPeer, Undeliverable, Undelivered, Unanswerable,
        QueueDisabled, QueueEnabled, QueuePaused, QueueResumed, BrakeOn, BrakeOff, Resolved, Settled, CommandDone, CommandRefused,
        Returned, Resubmitting, RedriveStarted, RedriveProgress, RedriveStop, RedriveEnded,
    )
}  # fmt: skip
"""Every event by its name."""


# -- bytes ---------------------------------------------------------------------------------------------------------------


def encode_worker_event(origin: Origin, event: WorkerEvent) -> bytes:
    """Encode an event of a worker; long texts are cut."""
    facts = {name: it[:TEXT_LIMIT] if isinstance(it, str) else it for name, it in _facts(event).items()}
    return json.dumps({"event": event.NAME, **origin._asdict(), **facts}).encode()


def encode_tool_event(event: ToolEvent) -> bytes:
    """Encode an event of a tool."""
    return json.dumps({"event": event.NAME, **_facts(event)}).encode()


def decode_event(value: bytes | None) -> Event | None:
    """Read an event; None for one that this version does not know.

    Raises:
        ValueError: it is none, or a field is not what its name promises.
        RecursionError: it is nested too deeply.
    """
    said = json.loads(value or b"")
    if not isinstance(said, dict) or not isinstance(said.get("event"), str):
        raise ValueError("it is no JSON object that says which event it is")  # noqa: TRY004 - as what json raises
    known = EVENTS.get(said["event"])
    kinds = _SHARED if known is None else _KINDS_OF[known]
    needed = () if known is None else known.NEEDED
    for name, kind in kinds.items():
        if (name in said or name in needed) and not kind.fits(said.get(name)):
            raise ValueError(f"its {name} is {said.get(name)!r:.80}")
    if known is None:
        return None
    return known(**{name: kind.read(said[name]) if name in said else kind.empty for name, kind in kinds.items()})


class Kind(NamedTuple):
    """The type of a field."""

    fits: Callable[[Any], bool]
    schema: Mapping[str, Any]
    """The same in the words of JSON Schema."""
    empty: object
    """The value of a missing field."""
    read: Callable[[Any], object] = lambda value: value


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_number(value: object) -> bool:
    return type(value) is int


def _is_id(value: object) -> bool:
    try:
        return isinstance(value, str) and str(UUID(value)) == value
    except ValueError:
        return False


def _list_of(fits: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list) and all(map(fits, value))


_TEXT = Kind(_is_text, {"type": "string"}, "")
_COUNTS = Kind(
    lambda value: isinstance(value, dict) and all(map(_is_number, value.values())),
    {"type": "object", "additionalProperties": {"type": "integer"}}, {},
)  # fmt: skip
_KINDS: dict[object, Kind] = {
    str: _TEXT,
    str | None: _TEXT._replace(empty=None),
    int: Kind(_is_number, {"type": "integer"}, 0),
    float: Kind(lambda value: type(value) in (int, float), {"type": "number"}, 0.0),
    bool: Kind(lambda value: isinstance(value, bool), {"type": "boolean"}, empty=False),
    ConversationId: Kind(_is_id, {"type": "string", "format": "uuid"}, ""),
    tuple[int, ...]: Kind(_list_of(_is_number), {"type": "array", "items": {"type": "integer"}}, (), tuple),
    tuple[str, ...]: Kind(_list_of(_is_text), {"type": "array", "items": {"type": "string"}}, (), tuple),
    Mapping[str, int]: _COUNTS,
}
_SHARED = {"command": _TEXT, "redrive": _TEXT, "why": _TEXT, "outcomes": _COUNTS}
"""Fields that mean the same in any event, also in one that is not known."""


def kinds_of(event: type[Event]) -> dict[str, Kind]:
    """Return the fields of an event in their order on the wire, and what each may be."""
    hints = get_type_hints(event)
    return {field.name: _KINDS[hints[field.name]] for field in fields(event)}  # type: ignore[arg-type]  # all are dataclasses


_KINDS_OF = {event: kinds_of(event) for event in EVENTS.values()}


def _facts(event: Event) -> dict[str, Any]:
    found = ((name, getattr(event, name)) for name in _KINDS_OF[type(event)])
    return {name: value for name, value in found if value is not None}
