"""The objects that a handler gets: the dialog, its group, and facts about the message. A draft keeps the handler's requests.

The requests of a draft take effect only when the handler has returned. If the handler raises, the draft is thrown away, and
nothing has happened. (Service Broker's sample for poison messages uses a savepoint for the same purpose.) A wrong request raises an error
immediately.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from threading import Lock
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias

from typing_extensions import TypeVar

from conversations.errors import DialogEnded, HandlerOver, LocalError, NewerState, RetryLater
from conversations.handlers import Side
from conversations.message_info import MessageInfo
from conversations.pending_messages import PendingMessage
from conversations.pool import Pool, PooledMessages, check_usable
from conversations.pool_sender import PoolSender
from conversations.protocol import admission
from conversations.protocol.codes import END_REFUSED
from conversations.protocol.command import TRIGGERS, Begin, End, EndWithError, Resend, Reuse, Send, SetTimer, Verb
from conversations.protocol.contract import Contract
from conversations.protocol.endpoint import NEVER, Endpoint
from conversations.protocol.envelope import Envelope
from conversations.protocol.identifiers import Handle, uuid_text
from conversations.protocol.limits import DESCRIPTION_LIMIT, sendable
from conversations.protocol.publications import Headers, Publication, Publications, Text, publication
from conversations.protocol.states import OPEN_STATES, TRANSITIONS, State, check_timer, refuse
from conversations.protocol.times import later, moment
from conversations.unrelated_dialogs import AROUND, Apart, take_room

CLOGGED = timedelta(seconds=64)
"""Pause before the next call of a handler that could not send, because too many bytes wait for the destination."""
S = TypeVar("S", default=dict[str, Any])


class Party(Protocol):
    """An endpoint in the memory of the worker that owns its partition."""

    identity: bytes

    @property
    def endpoint(self) -> Endpoint:
        """The protocol's state of the endpoint. It must not change before the draft is applied."""

    @property
    def side(self) -> Side:
        """The handlers of the service on this side of the contract."""


Ask: TypeAlias = tuple[Party, Verb, int]
"""One request of a handler: endpoint, verb, and the time of the request. If the verb has a duration, the duration begins at this time.

It is a plain tuple, because each send makes one, and a tuple is fast to make.
"""


class NewDialog(NamedTuple):
    """The request of a handler to begin a dialog."""

    to: str
    contract: Contract
    expires_at: int
    """End of the lifetime in microseconds; ``NEVER`` if it is unlimited."""
    related: bool
    """True if the dialog begins in the group of the handler's dialog."""
    to_group: str | None
    """Key of the group at the target, if the contract lets this service name it."""


class Room(Protocol):
    """The part of a partition that a draft uses."""

    body_limit: int
    delayed: dict[bytes, int]
    """Delayed bytes, by the identity of the endpoint; empty if no envelope is delayed."""

    def is_clogged(self, party: Party) -> bool:
        """Return True if the party cannot send now, because its destination accepts no records and the delayed bytes are at a limit."""

    @property
    def now(self) -> int:
        """Time of the step in microseconds since the epoch."""

    @property
    def lifetime(self) -> int:
        """Lifetime in microseconds of dialogs whose contract sets no lifetime."""

    def new_party(self, opener: Party, begin: NewDialog) -> Party:
        """Make the initiator's endpoint of a new dialog. The partition knows the endpoint only after the draft is applied."""

    def members(self, party: Party) -> list[Party]:
        """Return the endpoints of the party's group that are not closed. The endpoint that opened the group comes first."""

    def opener(self, party: Party) -> Party:
        """Return the endpoint that opened the group."""

    def load_state(self, party: Party) -> Any:
        """Decode the state of the party's group into a new object."""

    def new_state(self) -> Any:
        """Return the state of a new group."""

    def initiates(self, contract: Contract) -> bool:
        """Return True if the service declares that it begins dialogs under this contract."""

    def is_unknown(self, service: str) -> bool:
        """Return True if the catalog does not name a service; False while the catalog cannot be read."""

    def pending(self, party: Party) -> Sequence[Envelope]:
        """Return the messages of the party that its peer has not acknowledged, in order."""

    def side_of(self, contract: Contract) -> Side:
        """Return the handlers of the service on the initiator's side of a contract."""

    def check_publishable(self, topic: str) -> None:
        """Check that the service publishes to a plain topic, and that the topic takes records now.

        Raises:
            LocalError: the service does not declare the topic.
            RetryLater: the topic takes no records now.
        """


_GATE = Lock()
"""Lock for noting a request, and for closing a draft.

So a request of another thread is either noted before the draft is closed, or refused.
"""


class Draft:
    """The requests of one run of a handler, in order, and the new state of the group."""

    __slots__ = (
        "_over",
        "_state",
        "_states",
        "apart",
        "asks",
        "deletes_state",
        "has_state",
        "newer_state",
        "party",
        "pooled",
        "publications",
        "room",
        "timer",
    )

    def __init__(self, room: Room, party: Party) -> None:
        self.room = room
        self.party = party
        self.asks: list[Ask] = []
        self.has_state = self.deletes_state = self._over = False
        self._state: Any = None
        self._states: dict[bytes, State] | None = None
        self.apart: Apart | None = None
        self.timer: str | None = None
        """Name of the timer whose handler runs, empty for the dialog timer; None in another handler."""
        self.publications: Publications | None = None
        """Records for plain topics; None if there are none."""
        self.pooled: PooledMessages | None = None
        """Messages for keys of pools; None if there are none."""
        self.newer_state: NewerState | None = None
        """The error that the handler got if a newer release wrote the state."""

    def close(self) -> None:
        """Refuse each later request, because the handler's run is over."""
        with _GATE:
            self._over = True

    def check_open(self) -> None:
        """Check that the handler's run is not over.

        Raises:
            HandlerOver: the run is over, so the request would be lost.
        """
        if self._over:
            raise HandlerOver(
                "the handler of this dialog object is over: it returned, failed, or passed its time limit. Requests made "
                "now would be lost. Make them before the handler returns, and let it wait for its threads and tasks that "
                "use the dialog. For later requests use dialog.set_timer(), or Client.dialog() with dialog.handle"
            )

    def ask(self, party: Party, verb: Verb, at: int = 0) -> None:
        """Note one request. If the request has a duration, the duration begins at the time ``at``.

        An ``EndWithError`` drops the messages that were noted before on its dialog.

        Raises:
            HandlerOver: the handler's run is over.
        """
        with _GATE:
            self.check_open()
            if isinstance(verb, EndWithError):
                self.asks = [it for it in self.asks if it[0] is not party or not isinstance(it[1], Send)]
            self.asks.append((party, verb, at))

    def begin(self, party: Party, verb: Begin, at: int, *, related: bool) -> None:
        """Note the request to begin a dialog.

        If ``related`` is True, the dialog begins in the group of the handler's dialog, else in a new group.

        Threads of a handler may begin dialogs at the same time. So the request and the kind of group are noted under one lock.

        Raises:
            HandlerOver: the handler's run is over.
        """
        with _GATE:
            self.check_open()
            if not related:
                self.apart = self.apart or {}
                self.apart[party.identity] = AROUND
            self.asks.append((party, verb, at))

    def publish(self, record: Publication) -> None:
        """Note a record for a plain topic.

        Raises:
            LocalError: the handler publishes too many records.
            BodyTooLarge: the handler publishes too many bytes (8459).
            HandlerOver: the handler's run is over.
        """
        with _GATE:
            self.check_open()
            if self.publications is None:
                self.publications = Publications()
            self.publications.add(record)

    def note_pooled(self, group: str, reuse: Reuse, send: Send) -> None:
        """Note a message for a key of a pool.

        Raises:
            HandlerOver: the handler's run is over.
        """
        with _GATE:
            self.check_open()
            if self.pooled is None:
                self.pooled = PooledMessages()
            self.pooled.add(group, reuse, send)

    def state_of(self, party: Party) -> State:
        """Return the state that the endpoint will have when the requests so far are applied."""
        state = party.endpoint.state
        return state if self._states is None else self._states.get(party.identity, state)

    def move(self, party: Party, verb: type[Verb]) -> None:
        """Check a verb against the endpoint's state in this draft, and remember the new state.

        Raises:
            DialogEnded: the state does not allow the verb.
            HandlerOver: the handler's run is over.
        """
        self.check_open()
        state, trigger = self.state_of(party), TRIGGERS[verb]
        refuse(state, trigger)
        target = TRANSITIONS[state, trigger]
        if target is not state:
            self.leave(party, target)

    def leave(self, party: Party, state: State) -> None:
        """Remember the state that the endpoint will have after a request that the caller has checked."""
        if self._states is None:
            self._states = {}
        self._states[party.identity] = state

    def begin_timer(self, name: str) -> None:
        """Note the name of the timer whose handler runs."""
        self.timer = name

    def check_timer_count(self, party: Party, name: str) -> None:
        """Check that a timer of this name can be set, in addition to those that are set after the requests so far.

        Raises:
            LocalError: there would be too many timers.
        """
        if not name:
            return
        names = set(party.endpoint.timers())
        if self.timer is not None and party is self.party:
            names.discard(self.timer)  # it has fired, and is over unless the handler sets it anew
        for other, verb, _ in self.asks:
            if other is party and isinstance(verb, SetTimer):
                (names.discard if verb.after < 0 else names.add)(verb.name)
        admission.check_timer_count(names | {name})

    def check_resend(self, party: Party) -> None:
        """Check that what the peer has not accepted can be sent again, and remember that this dialog is over then.

        Raises:
            DialogEnded: it cannot be sent again (8427).
        """
        if self.state_of(party) is not State.ERROR or not party.endpoint.can_renew:
            raise DialogEnded(
                "nothing can be sent again: the dialog must be broken by an error that allows it, have messages of its initiator that are not "
                "acknowledged, and not be the last of three that replaced each other (8427). In on_error, ask error.can_resend and dialog.pending",
                code=END_REFUSED,
            )
        self.leave(party, State.SETTLING)

    @property
    def state(self) -> Any:
        """State of the group; decoded on first use."""
        self.check_open()
        if not self.has_state:
            try:
                self._state = self.room.load_state(self.party)
            except NewerState as error:
                self.newer_state = error  # the handler may catch it, and the message must wait all the same
                raise
            self.has_state = True
        return self._state

    @state.setter
    def state(self, value: Any) -> None:
        self.check_open()
        self._state = value
        self.has_state, self.deletes_state = True, False

    def delete_state(self) -> None:
        """Note the request to delete the state. From now on, ``state`` is the state of a new group; changes of it have no effect."""
        self.check_open()
        self._state = self.room.new_state()
        self.has_state = self.deletes_state = True

    @property
    def outcome(self) -> Any:
        """New state of the group. It can be read even after the run is over."""
        return self._state


class Dialog(Generic[S]):
    """One dialog, for use in a handler: the handler's own dialog, another dialog of its group, or a dialog that the handler began."""

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
    def handle(self) -> str:
        """The text that names this side of the dialog for ``Client.dialog`` and ``Reader.dialog``, in every process of this service.

        Keep it to send later, outside a handler. On the peer's side the dialog has another handle.
        """
        endpoint = self._party.endpoint
        return Handle(endpoint.conversation, endpoint.key, endpoint.initiator).text

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
        """The conversation group. No other handler of the group runs now, so this handler may change its state."""
        return Group(self._draft, self._party)

    @property
    def message(self) -> MessageInfo:
        """Facts about the message being handled."""
        return MessageInfo(self._draft.party.endpoint, self._envelope, self.attempt, self._edited)

    @property
    def now(self) -> datetime:
        """Log time at which this step began. Use it instead of the machine's clock, which may be wrong."""
        return moment(self._draft.room.now)

    def send(self, body: object, /, *, type: str | None = None) -> None:  # noqa: A002 - `type` is the word of this domain
        """Send a message to the peer, after this handler has returned.

        Args:
            body: the body. The message type decides its kind: a model, a mapping for an Avro schema, bytes, or None.
            type: name of the message type. Needed if several message types have the body's class.

        Raises:
            DialogEnded: the dialog is over (8429).
            HandlerOver: the handler of this dialog object is over. All other verbs raise this error, too.
            NotInContract: the contract does not know the message type (8431).
            WrongDirection: only the other side may send the message type (8432, 8434).
            InvalidBody: the body is not valid (9615).
            BodyTooLarge: the body is larger than a message may be (8459).
            RetryLater: too many bytes wait for the destination. Do not catch this exception: the worker calls the handler again later.
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

    def publish(self, topic: str, key: Text | None, value: Text | None, *, headers: Headers | None = None) -> None:
        """Append a record to a plain Kafka topic, in the transaction of this handler's other effects. Other programs read the topic.

        If the handler raises, nothing is appended. Each handled message has its records exactly once for readers of committed records
        (``isolation.level=read_committed``). Records of one conversation group with the same key are in order. The end of the dialog
        does not drop them. If the topic refuses a record when it is appended, the handler has failed (``PublicationRefused``).

        Args:
            topic: name of the topic, which ``Service(..., publishes=[...])`` declares.
            key: the key, which chooses the partition as Kafka's Java client does (murmur2). With None, the client chooses any partition.
            value: the value. None is a tombstone, which deletes the key in a compacted topic.
            headers: headers, as a mapping or as pairs. Texts are encoded in UTF-8, also as key and value.

        Raises:
            LocalError: the service does not declare the topic, an argument has a wrong type (9615), or the handler publishes more than 10,000
                records.
            BodyTooLarge: the record has more than 1,000,000 bytes, or the records of this handler have more than 16,000,000 (8459).
            HandlerOver: the handler of this dialog object is over.
            RetryLater: the topic is missing, or the worker may not write to it. Do not catch this exception: the worker calls the handler
                again later.
        """
        draft = self._draft
        draft.check_open()
        record = publication(topic, key, value, headers)
        draft.room.check_publishable(topic)
        draft.publish(record)

    def pooled(self, pool: Pool, key: str) -> PoolSender:
        """Return a sender for a key of a pool: ``dialog.pooled(DEVICES, key="audit").send(Push(text="seen"))``.

        The messages go on the one long dialog of the key, after those that were sent for the key before, whoever sent them. The dialog of
        this handler is not concerned.

        Args:
            pool: the pool; the service initiates its contract.
            key: any text; each key has a dialog of its own.

        Raises:
            UnknownContract: the service does not initiate the contract of the pool (8425).
            LocalError: ``pool`` is no ``Pool``, or the key is no text, is empty, or is too long (8414).
            UnknownService: the catalog does not name the service of the pool (8490).
            HandlerOver: the handler of this dialog object is over.
        """
        draft = self._draft
        draft.check_open()
        check_usable(pool, draft.room.initiates, self._party.endpoint.service, key)
        if draft.room.is_unknown(pool.to):
            raise admission.unknown_service(pool.to)
        return PoolSender(draft, draft.room.side_of(pool.contract), pool, key, draft.room.body_limit)

    @property
    def pending(self) -> Sequence[PendingMessage]:
        """The messages of this side that the peer has not acknowledged, in order, without those of this handler.

        Use it in ``on_error``: if the handler does not call ``resend``, those that the peer has not accepted become dead letters of this
        service (``undeliverable``). Only the initiator's side keeps its messages, unless its contract has ``resend="off"``. Messages that
        wait for their destination are pending on both sides.
        """
        self._draft.check_open()
        return [PendingMessage(envelope, self._party.side) for envelope in self._draft.room.pending(self._party)]

    def resend(self) -> None:
        """Send what the peer has not accepted again, in order, on a new dialog. Use it in ``on_error``.

        The peer is asked first what it has accepted, so nothing is sent twice. This dialog is over with this call, and the new dialog begins
        when the peer has answered. If the peer does not answer for ten minutes (the setting ``periods.fence_for``), or has given up on accepted
        messages, the messages become dead letters of this service.

        Raises:
            DialogEnded: the dialog is not broken (8427), or its error does not allow it (``PeerError.can_resend``), or nothing is pending, or it
                is the last of three dialogs that replaced each other.
        """
        self._draft.check_open()
        self._draft.check_resend(self._party)
        self._draft.ask(self._party, Resend())

    def end(self) -> None:
        """End this side, and cancel its timers. The peer learns of the end after all messages that this side sent before.

        Raises:
            DialogEnded: this side is over already (8427).
        """
        self._draft.move(self._party, End)
        self._draft.ask(self._party, End())

    def end_with_error(self, code: int, description: str) -> None:
        """End this side with an error, which the peer gets. Messages that this handler has sent on the dialog are dropped.

        Raises:
            DialogEnded: this side is over already (8427).
            LocalError: the code is not positive (8419), or the description is missing (8422).
        """
        admission.check_error(code, description)
        self._draft.move(self._party, EndWithError)
        self._draft.ask(self._party, EndWithError(code, sendable(description, DESCRIPTION_LIMIT)))

    @property
    def timer(self) -> str:
        """Name of the timer that fired, in an ``on_timer`` handler; empty for the timer without a name.

        Raises:
            LocalError: another handler runs.
        """
        if self._draft.timer is None:
            raise LocalError("no timer has fired: only a handler of @service.on_timer(...) has dialog.timer")
        return self._draft.timer

    def set_timer(self, after: timedelta, *, name: str = "") -> None:
        """Set a timer: the ``on_timer`` handler is called after this time. A second call with the same name replaces the time.

        This side of the dialog has one timer for each name, and its end cancels all of them. In the handler, ``dialog.timer`` is the name.

        Args:
            after: the time from now.
            name: name of the timer: at most 64 letters, digits, underscores and hyphens. The timer without a name is the dialog timer.

        Raises:
            DialogEnded: the dialog is over (8458).
            LocalError: the timer is not due before the end of the dialog's lifetime (8410), or the time is negative, or not a timedelta. Or the
                name is not valid, or 16 timers with other names are set. Or the service has no ``on_timer`` handler for the contract.
        """
        self._draft.check_open()
        check_timer(self._draft.state_of(self._party))
        admission.check_timer_name(name)
        if self._party.side.on_timer is None:
            raise admission.no_timer_handler(self._party.endpoint.service, self.contract)
        now = self._draft.room.now
        at = later(now, admission.micros(after, "a timer"))
        admission.check_timer_time(at, self._party.endpoint.expires_at)
        self._draft.check_timer_count(self._party, name)
        self._draft.ask(self._party, SetTimer(at - now, name), now)

    def cancel_timer(self, *, name: str = "") -> None:
        """Cancel the timer of this name, if it is set.

        Raises:
            LocalError: no timer can have this name.
        """
        self._draft.check_open()
        admission.check_timer_name(name)
        if self._draft.state_of(self._party) is not State.CLOSED:
            self._draft.ask(self._party, SetTimer(-1, name))


class Group(Generic[S]):
    """A conversation group: dialogs of one service with shared state. One handler at a time runs for all of them."""

    __slots__ = ("_draft", "_party")

    def __init__(self, draft: Draft, party: Party) -> None:
        self._draft = draft
        self._party = party

    @property
    def key(self) -> str:
        """Key of the group; by default the id of the conversation that opened the group."""
        return self._party.endpoint.key

    @property
    def state(self) -> S:
        """State of the group. The value that the state has when the handler returns is committed with the handler's other effects."""
        state: S = self._draft.state
        return state

    @state.setter
    def state(self, value: S) -> None:
        self._draft.state = value

    def delete_state(self) -> None:
        """Delete the state of the group with the other effects of this handler. The next handler of the group gets new state.

        The state of a group that initiators name (``to_group``) stays until it is deleted. Other state is deleted with the group: ten
        minutes after its last dialog is over (the setting ``periods.grace``).
        """
        self._draft.delete_state()

    @property
    def opened_by(self) -> Dialog[S]:
        """The dialog that opened the group. In a group that initiators name, it is the oldest dialog that is not over."""
        return Dialog(self._draft, self._draft.room.opener(self._party))

    def dialogs(self, contract: Contract | None = None) -> Sequence[Dialog[S]]:
        """Return the group's dialogs that are not over.

        The dialog that opened the group comes first. New dialogs of this handler come last.
        """
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
        self,
        to: str,
        contract: Contract,
        *,
        lifetime: timedelta | None = None,
        related: bool = True,
        to_group: str | None = None,
        wait_for_service: bool = False,
    ) -> Dialog[S]:
        """Begin a dialog with another service.

        Args:
            to: name of the service.
            contract: one of the contracts that this service initiates.
            lifetime: lifetime of this dialog, instead of the contract's lifetime. If the contract sets a lifetime, it is the longest.
            related: if False, the dialog begins in a new group, which another worker may own.
            to_group: key of the conversation group at the target. Needed if the contract has ``group_named_by``, else forbidden.
            wait_for_service: if True, the messages of the dialog wait until the catalog names the service.

        Raises:
            UnknownService: the catalog does not name the service (8490), and ``wait_for_service`` is False.
            UnknownContract: the service does not declare that it initiates this contract (8425).
            LocalError: the lifetime is not positive or longer than the contract's (8411), ``to`` is not a valid name (8412), ``contract`` is not a ``Contract`` (8425),
                ``to_group`` does not fit the contract (8494), or the group is full (50007).
        """
        self._draft.check_open()
        room = self._draft.room
        admission.check_service(to)
        admission.check_contract(contract)
        if not room.initiates(contract):
            raise admission.not_initiated(self._party.endpoint.service, contract.name, "add it to initiates=[...]")
        if not wait_for_service and room.is_unknown(to):
            raise admission.unknown_service(to)
        admission.check_to_group(contract, self._party.endpoint.service, to_group)
        now = room.now
        until = admission.expiry(now, lifetime, contract, room.lifetime)
        party = room.new_party(self._party, NewDialog(to, contract, until, related, to_group))
        verb = Begin(to, contract.name, -1 if until >= NEVER else until - now, to_group or "")
        self._draft.begin(party, verb, now, related=related)
        return Dialog(self._draft, party)

    def end_with_error(self, code: int, description: str) -> None:
        """End every dialog of the group with an error. Dialogs that are over stay as they are.

        Raises:
            LocalError: the code is not positive (8419), or the description is missing (8422).
        """
        self._draft.check_open()
        admission.check_error(code, description)
        for dialog in self.dialogs():
            try:
                dialog.end_with_error(code, description)
            except DialogEnded:
                continue  # this side has ended already, and its END is not acknowledged yet
