"""Drafts: the requests that one run of a handler has made so far, and the part of a partition that they are checked against.

The requests of a draft take effect only when the handler has returned. If the handler raises, the draft is thrown away, and
nothing has happened. (Service Broker's sample for poison messages uses a savepoint for the same purpose.) A wrong request raises an error
immediately.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from threading import Lock
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from conversations.errors import DialogEnded, HandlerOver, NewerState, RetryLater
from conversations.handlers import Side
from conversations.pool import PooledMessages
from conversations.protocol import admission
from conversations.protocol.codes import END_REFUSED
from conversations.protocol.command import TRIGGERS, Begin, EndWithError, Reuse, SetTimer, Verb
from conversations.protocol.contract import Contract
from conversations.protocol.endpoint import Endpoint
from conversations.protocol.envelope import Envelope
from conversations.protocol.publications import Publication, Publications
from conversations.protocol.send import Send
from conversations.protocol.states import TRANSITIONS, State, refuse
from conversations.unrelated_dialogs import AROUND, Apart, take_room


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

    number: int
    """Number of the partition."""
    body_limit: int
    delayed: dict[bytes, int]
    """Delayed bytes, by the identity of the endpoint; empty if no envelope is delayed."""

    def is_clogged(self, party: Party) -> bool:
        """Return True if the party cannot send now, because its destination accepts no records and the delayed bytes are at a limit."""

    def is_stopped(self, party: Party) -> bool:
        """Return True if the destination of a party takes nothing now. If not, its delayed envelopes leave with the next steps."""

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


CLOGGED = timedelta(seconds=64)
"""Pause before the next call of a handler that could not send, because too many bytes wait for the destination."""
_GATE: Final = Lock()
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

    def send(self, party: Party, body: object, name: Any) -> None:
        """Check and encode a message, and note it; see ``Dialog.send``. A ``name`` that is no text is refused like an unknown one."""
        self.check_open()
        if self.state_of(party) is not State.CONVERSING:
            self.move(party, Send)
        codec = party.side.outgoing(body, name)
        data, room = codec.encode(body), self.room
        if len(data) > room.body_limit:
            raise admission.body_too_large(len(data), room.body_limit)
        if room.delayed and room.is_clogged(party):
            raise RetryLater(CLOGGED, admission.clogged(party.endpoint.peer))
        if self.apart is not None:
            take_room(self.apart, party.identity, len(codec.run) + len(data))
        self.ask(party, Send(codec.name, codec.content_type, data, codec.run))

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
