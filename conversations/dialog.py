"""The objects that a handler holds: the dialog, its group, facts about the message. A draft keeps all its requests.

Nothing leaves a draft before the handler has returned: when it raises, the draft is thrown away, which undoes the
message (the savepoint of Service Broker's poison-message procedure). Wrong requests raise at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Any, Generic, Protocol, TypeAlias

from typing_extensions import TypeVar

from conversations.apart import Apart, set_apart, take_room
from conversations.errors import DialogEnded, HandlerOver, LocalError, RetryLater
from conversations.handlers import Side
from conversations.protocol import admission
from conversations.protocol.command import TRIGGERS, Begin, End, EndWithError, Send, SetTimer, Verb
from conversations.protocol.contract import Contract
from conversations.protocol.endpoint import NEVER, Endpoint
from conversations.protocol.envelope import Envelope
from conversations.protocol.identifiers import uuid_text
from conversations.protocol.limits import DESCRIPTION_LIMIT, sendable
from conversations.protocol.states import OPEN_STATES, TRANSITIONS, State, check_timer, refuse
from conversations.protocol.times import later, moment

CLOGGED = timedelta(seconds=64)
"""After which a handler is called again whose message found no room before its destination."""
S = TypeVar("S", default=dict[str, Any])


class Party(Protocol):
    """An endpoint as the owner of its partition holds it."""

    identity: bytes

    @property
    def endpoint(self) -> Endpoint:
        """The machine; not to be moved before the draft is applied."""

    @property
    def side(self) -> Side:
        """The handlers of the service on this side of the contract."""


Ask: TypeAlias = tuple[Party, Verb, int]
"""One request of a handler: of which endpoint, what, and when, which only durations count from. A plain tuple, as each send makes one."""


class Room(Protocol):
    """The partition, as a draft needs it."""

    body_limit: int
    delayed: dict[bytes, int]
    """Not empty when something waits for a destination that takes none."""

    def is_clogged(self, party: Party) -> bool:
        """Say whether so much waits for the party's destination that no more is taken until that takes some."""

    @property
    def now(self) -> int:
        """Time of the step, microseconds since the epoch."""

    @property
    def lifetime(self) -> int:
        """Of dialogs whose contract names none, microseconds."""

    def new_party(self, opener: Party, to: str, contract: Contract, expires_at: int, related: bool) -> Party:
        """Make the initiator endpoint of a new dialog; it is not known to anybody before the draft is applied."""

    def members(self, party: Party) -> list[Party]:
        """Endpoints of the party's group that are not closed, the one that opened the group first."""

    def opener(self, party: Party) -> Party:
        """The endpoint that opened the group."""

    def load_state(self, party: Party) -> Any:
        """Decode the state of the party's group afresh."""

    def initiates(self, contract: Contract) -> bool:
        """Say whether the service declares that it begins dialogs under this contract."""


_GATE = Lock()
"""Between a request and the end of its handler: the request is part of the draft, or it raises."""


class Draft:
    """The requests of one run of a handler, in order, and the new state of the group."""

    __slots__ = ("_over", "_state", "_states", "apart", "asks", "has_state", "party", "room")

    def __init__(self, room: Room, party: Party) -> None:
        self.room = room
        self.party = party
        self.asks: list[Ask] = []
        self.has_state = self._over = False
        self._state: Any = None
        self._states: dict[bytes, State] | None = None
        self.apart: Apart | None = None

    def close(self) -> None:
        """The handler's run is over: each later request raises."""
        with _GATE:
            self._over = True

    def check_open(self) -> None:
        """Raise when the handler's run is over.

        Raises:
            HandlerOver: nothing that is asked for would take effect.
        """
        if self._over:
            raise HandlerOver(
                "the handler this dialog was given to is over: it returned, failed, or passed its time limit, and what is "
                "asked for now would be lost. Ask before the handler returns, and wait in it for the threads and tasks "
                "that use its dialog; for later use dialog.set_timer(), or dialog.id with Client.dialog() where this "
                "service began the dialog"
            )

    def ask(self, party: Party, verb: Verb, at: int = 0) -> None:
        """Note one request, made ``at`` this time if it has a duration; an error drops the messages of its dialog that were noted before.

        Raises:
            HandlerOver: the handler's run is over.
        """
        with _GATE:
            self.check_open()
            if isinstance(verb, EndWithError):
                self.asks = [it for it in self.asks if it[0] is not party or not isinstance(it[1], Send)]
            self.asks.append((party, verb, at))

    def state_of(self, party: Party) -> State:
        """Return the state the endpoint will have once the draft is applied."""
        state = party.endpoint.state
        return state if self._states is None else self._states.get(party.identity, state)

    def move(self, party: Party, verb: type[Verb]) -> None:
        """Check a verb against the state so far, and remember the new state.

        Raises:
            DialogEnded: the state does not allow it.
            HandlerOver: the handler's run is over.
        """
        self.check_open()
        state, trigger = self.state_of(party), TRIGGERS[verb]
        refuse(state, trigger)
        target = TRANSITIONS[state, trigger]
        if target is not state:
            if self._states is None:
                self._states = {}
            self._states[party.identity] = target

    @property
    def state(self) -> Any:
        """The group's state; decoded on first use."""
        self.check_open()
        if not self.has_state:
            self._state = self.room.load_state(self.party)
            self.has_state = True
        return self._state

    @state.setter
    def state(self, value: Any) -> None:
        self.check_open()
        self._state = value
        self.has_state = True

    @property
    def outcome(self) -> Any:
        """The new state of the group, also once the run is over."""
        return self._state


class MessageInfo:
    """Facts about the message being handled."""

    __slots__ = ("_draft", "_edited", "_envelope", "attempt")

    def __init__(self, draft: Draft, envelope: Envelope | None, attempt: int, edited: str) -> None:
        self._draft = draft
        self._envelope = envelope
        self._edited = edited
        self.attempt = attempt
        """1 for the first run of the handler, one more after each failure."""

    @property
    def _received(self) -> Envelope:
        if self._envelope is None:
            raise LocalError("no message is being handled: this is a timer, or an error found on this side")
        return self._envelope

    @property
    def id(self) -> str:
        """The same for every delivery of this message: an idempotency key for effects outside Kafka.

        A message that an operator has edited is another one: its id is the old one and the command that edited it.
        """
        endpoint = self._draft.party.endpoint
        side = "t" if endpoint.initiator else "i"
        name = f"{uuid_text(endpoint.conversation)}:{side}:{self._received.seq}"
        return f"{name}:{self._edited}" if self._edited else name

    @property
    def type(self) -> str:
        """Name of the message type."""
        return self._received.message_type

    @property
    def sequence(self) -> int:
        """Number of the message in its direction, from 0."""
        return self._received.seq

    @property
    def sent_at(self) -> datetime:
        """When its sender's owner transmitted it."""
        return moment(self._received.sent_at)

    @property
    def expires_at(self) -> datetime:
        """End of the dialog's lifetime; the end of time when it is unlimited."""
        expires_at = self._draft.party.endpoint.expires_at
        return datetime.max.replace(tzinfo=UTC) if expires_at >= NEVER else moment(expires_at)

    @property
    def from_service(self) -> str:
        """The peer service."""
        return self._draft.party.endpoint.peer


class Dialog(Generic[S]):
    """One dialog, as the handler of a message on one of its group's dialogs sees it."""

    __slots__ = ("_draft", "_edited", "_envelope", "_party", "attempt")

    def __init__(
        self, draft: Draft, party: Party, envelope: Envelope | None = None, attempt: int = 1, edited: str = ""
    ) -> None:
        self._draft = draft
        self._party = party
        self._envelope = envelope
        self.attempt = attempt
        self._edited = edited

    def __repr__(self) -> str:
        return f"Dialog({self.id}, {self.contract}, with {self.peer})"

    @property
    def id(self) -> str:
        """Conversation id, the same on both sides."""
        return uuid_text(self._party.endpoint.conversation)

    @property
    def contract(self) -> str:
        """Name of the contract."""
        return self._party.endpoint.contract

    @property
    def peer(self) -> str:
        """Name of the other service."""
        return self._party.endpoint.peer

    @property
    def is_initiator(self) -> bool:
        """True on the side that began the dialog."""
        return self._party.endpoint.initiator

    @property
    def is_open(self) -> bool:
        """True while this side can send."""
        return self._draft.state_of(self._party) in OPEN_STATES

    @property
    def group(self) -> Group[S]:
        """The conversation group: the lock this handler holds, and the state under it."""
        return Group(self._draft, self._party)

    @property
    def message(self) -> MessageInfo:
        """Facts about the message being handled."""
        return MessageInfo(self._draft, self._envelope, self.attempt, self._edited)

    def now(self) -> datetime:
        """Return the time this step began; use it instead of the machine's clock where retries must agree."""
        return moment(self._draft.room.now)

    def send(self, body: object, /, *, type: str | None = None) -> None:  # noqa: A002 - the field's own word
        """Send a message to the peer once this handler has returned.

        Args:
            body: as the message type demands: a model, a mapping for an Avro schema, bytes, or None.
            type: name of the message type, where the body's class does not tell.

        Raises:
            DialogEnded: the dialog is over (8429).
            HandlerOver: the handler this dialog was given to is over; so with every other verb.
            NotInContract, WrongDirection: the contract does not let this side send it (8431, 8432, 8434).
            InvalidBody: the body is not valid (9615); BodyTooLarge: it is larger than a message may be (8459).
        """
        draft, party = self._draft, self._party
        draft.check_open()
        if draft.state_of(party) is not State.CONVERSING:
            draft.move(party, Send)
        codec = party.side.outgoing(body, type)
        data = codec.encode(body)
        if len(data) > draft.room.body_limit:
            raise admission.body_too_large(len(data), draft.room.body_limit)
        if draft.room.delayed and draft.room.is_clogged(party):
            raise RetryLater(CLOGGED, admission.clogged(party.endpoint.peer))
        take_room(draft.apart, party.identity, len(codec.run) + len(data))
        draft.ask(party, Send(codec.name, codec.content_type, data))

    def end(self) -> None:
        """End this side: the peer is told after everything sent before; cancels the timer.

        Raises:
            DialogEnded: it is over already (8427).
        """
        self._draft.move(self._party, End)
        self._draft.ask(self._party, End())

    def end_with_error(self, code: int, description: str) -> None:
        """End this side with an error: what this handler meant to send on the dialog is dropped, the peer is told.

        Raises:
            DialogEnded: it is over already (8427).
            LocalError: the code is not positive, or there is no description (8419, 8422).
        """
        admission.check_error(code, description)
        self._draft.move(self._party, EndWithError)
        self._draft.ask(self._party, EndWithError(code, sendable(description, DESCRIPTION_LIMIT)))

    def set_timer(self, after: timedelta) -> None:
        """Call ``on_timer`` after this time; a dialog has one timer, setting it again moves it.

        Raises:
            DialogEnded: the dialog is over (8458).
            LocalError: the time is negative, or not a timedelta.
        """
        self._draft.check_open()
        check_timer(self._draft.state_of(self._party))
        now = self._draft.room.now
        self._draft.ask(self._party, SetTimer(later(now, admission.micros(after, "a timer")) - now), now)

    def cancel_timer(self) -> None:
        """Cancel the timer; harmless without one."""
        self._draft.check_open()
        if self._draft.state_of(self._party) is not State.CLOSED:
            self._draft.ask(self._party, SetTimer(-1))


class Group(Generic[S]):
    """A conversation group: dialogs of one service handled one at a time, with shared state."""

    __slots__ = ("_draft", "_party")

    def __init__(self, draft: Draft, party: Party) -> None:
        self._draft = draft
        self._party = party

    @property
    def key(self) -> str:
        """Key of the group; by default the id of the conversation that opened it."""
        return self._party.endpoint.key

    @property
    def state(self) -> S:
        """State of the group; its value at the return of the handler is committed with everything else."""
        state: S = self._draft.state
        return state

    @state.setter
    def state(self, value: S) -> None:
        self._draft.state = value

    @property
    def opened_by(self) -> Dialog[S]:
        """The dialog that opened the group."""
        return Dialog(self._draft, self._draft.room.opener(self._party))

    def dialogs(self, contract: Contract | None = None) -> Sequence[Dialog[S]]:
        """Return the group's dialogs that are not over, the one that opened it first, those begun just now last."""
        draft = self._draft
        apart = draft.apart or {}
        begun = [it for it, verb, _ in draft.asks if isinstance(verb, Begin) and it.identity not in apart]
        return [
            Dialog(draft, party)
            for party in (*draft.room.members(self._party), *begun)
            if draft.state_of(party) is not State.CLOSED
            and (contract is None or party.endpoint.contract == contract.name)
        ]

    def begin_dialog(
        self, to: str, contract: Contract, *, lifetime: timedelta | None = None, related: bool = True
    ) -> Dialog[S]:
        """Begin a dialog with another service.

        Args:
            to: name of the service.
            contract: one of the contracts this service initiates.
            lifetime: instead of the contract's.
            related: False begins it in a group of its own, which may be owned by another worker.

        Raises:
            UnknownContract: the service does not declare that it initiates this contract (8425).
            LocalError: the lifetime is not positive (8411), no service can have this name (8490), the group is full.
        """
        self._draft.check_open()
        room = self._draft.room
        admission.check_service(to)
        if not room.initiates(contract):
            raise admission.not_initiated(self._party.endpoint.service, contract.name, "add it to initiates=[...]")
        now = room.now
        until = admission.expiry(now, lifetime, contract, room.lifetime)
        party = room.new_party(self._party, to, contract, until, related)
        verb = Begin(to, contract.name, -1 if until >= NEVER else until - now)
        self._draft.ask(party, verb, now)
        self._draft.apart = set_apart(self._draft.apart, party.identity, related)
        return Dialog(self._draft, party)

    def end_with_error(self, code: int, description: str) -> None:
        """End every dialog of the group that is not over with an error.

        Raises:
            LocalError: as ``Dialog.end_with_error``.
        """
        self._draft.check_open()
        admission.check_error(code, description)
        for dialog in self.dialogs():
            try:
                dialog.end_with_error(code, description)
            except DialogEnded:
                continue  # ended here, its END not acknowledged yet
