"""The objects that a handler gets: the dialog, its group, and facts about the message.

They note the requests of the handler in its draft. A wrong request raises an error immediately.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Generic

from typing_extensions import TypeVar

from conversations.draft import Draft, NewDialog, Party
from conversations.errors import DialogEnded, LocalError
from conversations.message_info import MessageInfo
from conversations.pending_messages import PendingMessage
from conversations.pool import Pool, check_usable
from conversations.pool_sender import PoolSender
from conversations.protocol import admission
from conversations.protocol.command import Begin, End, EndWithError, Resend, SetTimer
from conversations.protocol.contract import Contract
from conversations.protocol.endpoint import NEVER
from conversations.protocol.envelope import Envelope
from conversations.protocol.identifiers import Handle, uuid_text
from conversations.protocol.limits import DESCRIPTION_LIMIT, RECORD_BODY, sendable
from conversations.protocol.publications import Headers, Text, publication
from conversations.protocol.states import OPEN_STATES, State, check_timer
from conversations.protocol.times import later, moment

S = TypeVar("S", default=dict[str, Any])


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
    def log_fields(self) -> dict[str, object]:
        """The fields of a log line about this dialog: ``log.info("...", extra=dialog.log_fields)``. There is nothing of the body.

        Log lines of the handler itself get them from ``conversations.logs.ConversationFilter``.
        """
        envelope, draft = self._envelope, self._draft
        found: dict[str, object] = {
            "conversation": self.id, "service": self._party.endpoint.service, "partition": draft.room.number, "attempt": self.attempt,
        }  # fmt: skip
        if envelope is not None:
            found |= {"message_type": envelope.message_type, "message_number": envelope.seq}
        return found

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
        self._draft.send(self._party, body, type)

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
        return PoolSender(draft, draft.room.side_of(pool.contract), pool, key, min(draft.room.body_limit, RECORD_BODY))

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
