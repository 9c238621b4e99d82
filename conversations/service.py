"""Services: the contracts that a service accepts and initiates, and its handlers. Declaring a service does no I/O."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Generic, Protocol, TypeVar, Unpack, cast, get_origin, overload

from typing_extensions import TypeVar as DefaultTypeVar

from conversations.accepted_peers import Further, accepted_peers
from conversations.bodies import codec_of, shapes_of
from conversations.body_upgrades import BodyUpgrades
from conversations.body_upgrades import Upgrade as BodyUpgrade
from conversations.declared_handlers import declared_handler
from conversations.dialog import Dialog
from conversations.errors import DeclarationError, PeerError
from conversations.feeds import F, Feed, Start, add_feed, declared_feed
from conversations.group_state import StateCodec, Upgrade
from conversations.handlers import Handler, Side
from conversations.poison import PoisonPolicy, Subject, hidden_by, waits
from conversations.protocol.codes import CONTRACT_TWICE
from conversations.protocol.contract import (
    DEFAULT_LIFETIME,
    Contract,
    MessageType,
    as_contracts,
    as_message_type,
    listed,
)
from conversations.protocol.declarations import ServiceDeclaration
from conversations.protocol.topics import check_name, check_plain, delay_name
from conversations.queue_disabled import QueueDisabled
from conversations.tracing import Traceable

M = TypeVar("M")
M_contra = TypeVar("M_contra", contravariant=True)
S = DefaultTypeVar("S", default=dict[str, Any])

DEFAULT_TIME_LIMIT = timedelta(seconds=60)


class OnMessage(Protocol[M, S]):
    """A decorator that registers a handler ``(body, dialog)``."""

    @overload
    def __call__(self, handler: Callable[[M, Dialog[S]], None], /) -> Callable[[M, Dialog[S]], None]: ...
    @overload
    def __call__(self, handler: Callable[[M, Dialog[S]], Awaitable[None]], /) -> Callable[[M, Dialog[S]], Awaitable[None]]: ...  # fmt: skip


class OnDialog(Protocol[S]):
    """A decorator that registers a handler ``(dialog)``."""

    @overload
    def __call__(self, handler: Callable[[Dialog[S]], None], /) -> Callable[[Dialog[S]], None]: ...
    @overload
    def __call__(
        self, handler: Callable[[Dialog[S]], Awaitable[None]], /
    ) -> Callable[[Dialog[S]], Awaitable[None]]: ...


class Service(Traceable, Generic[S]):
    """A named party: the contracts that it accepts and initiates, the class of its group state, and its handlers.

    Args:
        name: name of the service. The names of its topics contain it.
        accepts: contracts under which other services may begin dialogs with this one.
        initiates: contracts under which this service begins dialogs.
        state: class of ``group.state``: a Pydantic model, or another class that Pydantic can validate; by default a dict.
        state_version: version of the state's class, from 1. Increase it if stored state must be upgraded; see ``upgrade_state``.
        poison: policies for messages whose handler fails. The first policy that matches is applied. The last policy is always
            ``PoisonPolicy()``: three more attempts without a delay, then the dialog waits until an operator decides.
        ignores: message types (class or name) that the service may receive, but does not handle. They need no handler.
        publishes: names of the plain Kafka topics to which handlers may publish records (``Dialog.publish``). Their owners create them.
        accepts_from: names of the services that may begin dialogs with this one; by default every service may. The first message of another
            service is refused (-8494), and ``on_error`` of its sender is called. Whoever may write to the queue could claim any name.

    Raises:
        DeclarationError: two different contracts have one name, a name is not valid, or an argument has a wrong type. Or a policy is for
            a message type that the service never receives, or for a contract that the service does not declare.
    """

    @overload
    def __init__(
        self: Service[dict[str, Any]],
        name: str,
        *,
        accepts: Sequence[Contract] = (),
        initiates: Sequence[Contract] = (),
        poison: Sequence[PoisonPolicy] = (),
        ignores: Sequence[type | str] = (),
        publishes: Sequence[str] = (),
        **further: Unpack[Further],
    ) -> None: ...
    @overload
    def __init__(
        self,
        name: str,
        *,
        state: type[S],
        state_version: int = 1,
        accepts: Sequence[Contract] = (),
        initiates: Sequence[Contract] = (),
        poison: Sequence[PoisonPolicy] = (),
        ignores: Sequence[type | str] = (),
        publishes: Sequence[str] = (),
        **further: Unpack[Further],
    ) -> None: ...
    def __init__(
        self,
        name: str,
        *,
        state: type[Any] | None = None,
        state_version: int = 1,
        accepts: Sequence[Contract] = (),
        initiates: Sequence[Contract] = (),
        poison: Sequence[PoisonPolicy] = (),
        ignores: Sequence[type | str] = (),
        publishes: Sequence[str] = (),
        **further: Unpack[Further],
    ) -> None:
        self.name = check_name("service", name)
        self.accepts = _by_name(name, as_contracts("accepts", accepts))
        self.initiates = _by_name(name, as_contracts("initiates", initiates))
        self.accepts_from = accepted_peers(name, self.accepts, further)
        ignored = listed("ignores", ignores, "message types")
        self.ignores = frozenset(t if isinstance(t, str) else as_message_type(t).name for t in ignored)
        self.publishes = frozenset(map(check_plain, listed("publishes", publishes, "names of topics")))
        self.state = StateCodec(name, *_state_of(name, state, state_version))
        self.upgrades = BodyUpgrades(name)
        self.poison = (*listed("poison", poison, "policies"), PoisonPolicy())
        for policy in self.poison:
            if not isinstance(policy, PoisonPolicy):
                raise DeclarationError(f"poison takes objects of class PoisonPolicy, not {policy!r:.80}")
        self._check_policy_names()
        self.feeds: dict[str, Feed] = {}
        """Functions whose records begin dialogs, by topic; see ``from_topic``."""
        self.temporary = False
        """True if the next run may have other contracts. Then a dialog under an unknown contract breaks, and does not stop the worker."""
        self.queue_disabled: Callable[[QueueDisabled], object] | None = None
        """Called after the queue of a partition was turned off; see ``on_queue_disabled``."""
        self._messages: dict[tuple[str | None, str], Handler] = {}
        self._events: dict[tuple[str, str | None], Handler] = {}

    def __repr__(self) -> str:
        return f"Service({self.name!r})"

    # -- registering --------------------------------------------------------------------------------

    @overload
    def on(
        self, message: type[M], /, *, contract: Contract | None = None, time_limit: timedelta = ...
    ) -> OnMessage[M, S]: ...
    @overload
    def on(
        self, message: str | MessageType, /, *, contract: Contract | None = None, time_limit: timedelta = ...
    ) -> OnMessage[Any, S]: ...
    def on(
        self,
        message: type | str | MessageType,
        /,
        *,
        contract: Contract | None = None,
        time_limit: timedelta = DEFAULT_TIME_LIMIT,
    ) -> Any:
        """Register the handler of a message type. The handler takes ``(body, dialog)``, and is ``def`` or ``async def``.

        Args:
            message: the body's class, or the name of the message type.
            contract: the handler is only for dialogs under this contract. By default it is for all contracts.
            time_limit: maximum time of a run. A longer run counts as failed, and its requests are refused.

        Raises:
            DeclarationError: the type already has a handler, the service never receives this type, or an argument has a
                wrong type.
        """
        if _is_handler(message):
            raise DeclarationError(
                f"@on takes the message type: @service.on(Ask), not @service.on over {message!r:.80}"
            )
        name = message if isinstance(message, str) else as_message_type(message).name
        if contract is not None:
            as_contracts("contract", [contract])

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            key = (contract.name if contract else None, name)
            if key in self._messages:
                raise DeclarationError(
                    f"service {self.name!r} has a handler for {name!r} already: {self._messages[key].name}"
                )
            self._check_receivable(name, contract)
            self._messages[key] = declared_handler(function, ("body", "dialog"), time_limit)
            return function

        return register

    def on_end(self, *contracts: Contract, time_limit: timedelta = DEFAULT_TIME_LIMIT) -> OnDialog[S]:
        """Register a handler ``(dialog)``, called when the peer has ended its side. Afterwards this side ends too."""
        return self._on_event("end", contracts, ("dialog",), time_limit)

    def on_timer(self, *contracts: Contract, time_limit: timedelta = DEFAULT_TIME_LIMIT) -> OnDialog[S]:
        """Register a handler ``(dialog)``, called when a timer of the dialog fires. ``dialog.timer`` is the name of the timer."""
        return self._on_event("timer", contracts, ("dialog",), time_limit)

    def on_error(self, *contracts: Contract, time_limit: timedelta = DEFAULT_TIME_LIMIT) -> OnMessage[PeerError, S]:
        """Register a handler ``(error, dialog)``, called when the dialog ended with an error. Afterwards this side ends too.

        ``error.error_class`` tells what can be done about the error, and ``docs/codes.md`` lists all codes. Without a handler, a system error is
        a warning in the log, and the event ``DIALOG_BROKEN``.
        """
        return self._on_event("error", contracts, ("error", "dialog"), time_limit)

    def on_skipped(
        self, *contracts: Contract, time_limit: timedelta = DEFAULT_TIME_LIMIT
    ) -> OnMessage[tuple[int, ...], S]:
        """Register a handler ``(numbers, dialog)``, called when the peer gave up on messages of this side and went on without them.

        ``numbers`` are the numbers of these messages: ``MessageInfo.sequence`` at the peer. They count this side's messages from 0. Without a
        handler, the event ``SKIPPED_BY_PEER`` is the only trace. If this side is over before the handler has run, the handler is not called.
        """
        return self._on_event("skipped", contracts, ("numbers", "dialog"), time_limit)

    def _on_event(
        self, event: str, contracts: Sequence[Contract], takes: tuple[str, ...], time_limit: timedelta
    ) -> Callable[[Any], Any]:
        for contract in contracts:
            if _is_handler(contract):
                raise DeclarationError(f"@on_{event} needs its brackets: @service.on_{event}()")
        names: list[str | None] = [contract.name for contract in as_contracts(f"on_{event}", contracts)]

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            handler = declared_handler(function, takes, time_limit)
            for name in names or [None]:
                if (event, name) in self._events:
                    raise DeclarationError(
                        f"service {self.name!r} has an on_{event} for {name or 'all contracts'} already"
                    )
                self._events[event, name] = handler
            return function

        return register

    def from_topic(self, topic: str, /, *, to: str, contract: Contract, start: Start) -> Callable[[F], F]:
        """Register the function that turns each record of a plain Kafka topic into the first messages of a new dialog.

        The function takes the record (``PlainRecord``), and has no effects. It returns the body of a message, a ``NewDialog``, or None for a
        record that begins no dialog. If it raises an exception, the record becomes a dead letter. The workers share the partitions of the topic.

        Args:
            topic: name of the topic. Its owner creates it.
            to: name of the service with which the dialogs begin. If the catalog does not name it, the messages wait.
            contract: contract of the dialogs, which the service initiates.
            start: where the very first worker begins to read: ``"earliest"`` for all records that the topic has, ``"latest"`` for those that
                come later. After that, each worker continues where the last one ended.

        Raises:
            DeclarationError: the topic has a function already, or an argument is not valid.
        """

        def register(function: F) -> F:
            feed = declared_feed(self.name, self.initiates, (topic, to, contract, start), function)
            add_feed(self.name, self.feeds, topic, feed)
            return function

        return register

    def on_queue_disabled(self, hook: Callable[[QueueDisabled], None]) -> Callable[[QueueDisabled], None]:
        """Register a function that alerts an operator.

        The worker calls the function after a partition's queue was turned off. The function must return quickly.

        Raises:
            DeclarationError: the service already has such a function.
        """
        if self.queue_disabled is not None:
            raise DeclarationError(f"service {self.name!r} has an on_queue_disabled already")
        self.queue_disabled = hook
        return hook

    def upgrade_state(self, version: int) -> Callable[[Upgrade], Upgrade]:
        """Register the function that turns stored state of ``version`` (decoded JSON) into state of ``version + 1``."""
        return self.state.upgrade(version)

    def upgrade(self, message: type | MessageType, version: int) -> Callable[[BodyUpgrade], BodyUpgrade]:
        """Register the function that turns a body of ``version`` (decoded JSON) into a body of ``version + 1``.

        The service gets bodies of older versions from peers of an older release, and from messages that were sent before the release. The
        function must be fast and must not wait, because the whole worker waits for it.

        Args:
            message: the class of the body, whose present version ``@message_type(version=...)`` sets.
            version: the older version.

        Raises:
            DeclarationError: the class has no such older version, or the version has an upgrade already.
        """
        return self.upgrades.register(message, version)

    def declaration(self) -> ServiceDeclaration:
        """Return the declaration of this service for the catalog."""
        retries = [delay_name(delay) for delay in waits(self.poison)]
        types = {t.name: t for c in (*self.accepts.values(), *self.initiates.values()) for t in c.types.values()}
        return ServiceDeclaration(
            self.name, _plain(self.accepts), _plain(self.initiates), retries,
            shapes_of(types.values()), self.state.version, self.state.schema(), self.longest_lifetime(),
            sorted(self.publishes), sorted(self.feeds), sorted(self.accepts_from or ()),
        )  # fmt: skip

    def longest_lifetime(self) -> timedelta:
        """Return the longest limited lifetime that a contract sets; zero if no contract sets a limited lifetime."""
        named = {contract.lifetime for contract in (*self.accepts.values(), *self.initiates.values())}
        return max((each for each in named if each is not None and each is not DEFAULT_LIFETIME), default=timedelta(0))

    # -- checking -----------------------------------------------------------------------------------

    def check(self) -> dict[tuple[str, bool], Side]:
        """Check that each message type that may arrive has a handler or is ignored, and that each policy can be applied.

        Returns:
            The codecs and handlers of each side. The key is a pair: the contract's name, and True for the initiator's side, else False.

        Raises:
            DeclarationError: a handler is missing, or a policy is never applied. The message tells how to correct it.
        """
        gaps: list[str] = []
        sides = {}
        for initiator, contracts in ((False, self.accepts), (True, self.initiates)):
            for contract in contracts.values():
                sides[contract.name, initiator] = self._side(contract, initiator, gaps)
        self.state.check()
        self.upgrades.check(
            received for side in sides.values() for received in side.contract.sendable(not side.initiator).values()
        )
        if gaps:
            raise DeclarationError(
                f"service {self.name!r} cannot handle all that it may receive:\n"
                + "\n".join(f"  {gap}" for gap in gaps)
                + "\nRegister a handler with @service.on(...) or name the type in ignores=[...]."
            )
        self._check_policies(sides.values())
        return sides

    def _side(self, contract: Contract, initiator: bool, gaps: list[str]) -> Side:
        side = Side(contract, initiator, self.upgrades)
        for sent in contract.sendable(initiator).values():
            codec = codec_of(sent)
            if isinstance(sent.body, type):
                side.senders[sent.body] = codec
        raw = [sent for sent in contract.sendable(initiator).values() if sent.body == "bytes"]
        if len(raw) == 1:
            side.senders[bytes] = codec_of(raw[0])
        for name, received in contract.sendable(not initiator).items():
            handler = self._messages.get((contract.name, name)) or self._messages.get((None, name))
            if handler is None and name not in self.ignores:
                gaps.append(f"{name} (contract {contract.name}, sent by the {'target' if initiator else 'initiator'})")
            side.receivers[name] = (codec_of(received), handler)
        side.on_end = self._event("end", contract)
        side.on_error = self._event("error", contract)
        side.on_timer = self._event("timer", contract)
        side.on_skipped = self._event("skipped", contract)
        return side

    def _check_policy_names(self) -> None:
        declared = {**self.accepts, **self.initiates}
        for number, policy in enumerate(self.poison[:-1], 1):
            where = f"service {self.name!r}, poison policy {number}"
            if policy.contract_name is not None and policy.contract_name not in declared:
                raise DeclarationError(
                    f"{where}: the service neither accepts nor initiates contract {policy.contract_name!r}. "
                    f"It has: {', '.join(sorted(declared)) or 'none'}."
                )
            if policy.message_name is not None:
                contract = None if policy.contract_name is None else declared[policy.contract_name]
                try:
                    self._check_receivable(policy.message_name, contract)
                except DeclarationError as error:
                    under = "" if contract is None else f", under contract {contract.name!r}"
                    raise DeclarationError(f"{where}{under}: {error}") from error

    def _check_policies(self, sides: Iterable[Side]) -> None:
        # ``Subject("", None)`` stands for future handlers. Without it, a service that has no handler yet could not have a
        # policy for all messages and contracts, because no handler would match the policy.
        subjects = {Subject("", None), *(subject for side in sides for subject in _subjects(side))}
        for number, policy in enumerate(self.poison[:-1], 1):
            hidden = hidden_by(policy, self.poison[: number - 1], subjects)
            if hidden is not None:
                why = _behind(hidden) if hidden else _without_handler(policy)
                raise DeclarationError(f"service {self.name!r}, poison policy {number} is never applied: {why}")

    def _event(self, event: str, contract: Contract) -> Handler | None:
        return self._events.get((event, contract.name)) or self._events.get((event, None))

    def _check_receivable(self, name: str, contract: Contract | None) -> None:
        receivable = {
            received
            for initiator, contracts in ((False, self.accepts), (True, self.initiates))
            for declared in contracts.values()
            if contract is None or declared.name == contract.name
            for received in declared.sendable(not initiator)
        }
        if name not in receivable:
            raise DeclarationError(
                f"service {self.name!r} never receives {name!r}: no contract it accepts or initiates lets the other side "
                f"send it. It may receive: {', '.join(sorted(receivable)) or 'nothing'}."
            )


def as_services(function: str, given: Sequence[object]) -> list[Service[Any]]:
    """Check the arguments of a function that takes services one by one, and return them.

    Raises:
        DeclarationError: an argument is no service, or two services have one name; the message shows what to write.
    """
    found: list[Service[Any]] = []
    for service in given:
        if isinstance(service, list | tuple):
            raise DeclarationError(
                f"{function} takes services one by one: {function}(orders, billing), or {function}(*services)"
            )
        if not isinstance(service, Service):
            raise DeclarationError(f"{function} takes objects of class Service, not {service!r:.80}")
        if service.name in {it.name for it in found}:
            raise DeclarationError(
                f"{function} got two services with the name {service.name!r}: give each its own name"
            )
        found.append(service)
    return found


def _state_of(service: str, state: object, version: object) -> tuple[type | None, int]:
    if state is not None and not isinstance(state, type) and get_origin(state) is None:
        name = type(state).__name__
        raise DeclarationError(
            f"service {service!r}: state takes the class: state={name}, not an object of class {name}"
        )
    if not isinstance(version, int) or isinstance(version, bool):
        raise DeclarationError(f"service {service!r}: state_version is a number, not {version!r:.80}")
    return cast("type | None", state), version


def _is_handler(given: object) -> bool:
    """Return True if a decorator without its brackets got the handler itself."""
    return callable(given) and not isinstance(given, type)


def _subjects(side: Side) -> set[Subject]:
    """Return the handlers of one side of a contract, as subjects of policies."""
    messages = {name for name, (_, handler) in side.receivers.items() if handler is not None}
    events = {None} if side.on_end or side.on_error or side.on_timer or side.on_skipped else set()
    return {Subject(side.contract.name, name) for name in messages | events}


def _behind(numbers: set[int]) -> str:
    names = " and ".join(map(str, sorted(numbers)))
    they_match = f"policies {names} match" if len(numbers) > 1 else f"policy {names} matches"
    return f"{they_match} before it; put it in front, or leave it out"


def _without_handler(policy: PoisonPolicy) -> str:
    under = "" if policy.contract_name is None else f" under contract {policy.contract_name!r}"
    ignored = f"{policy.message_name!r} has no handler{under}, because it is in ignores=[...]"
    why = ignored if policy.message_name is not None else f"there is no handler{under}"
    return f"{why}; register one with @service.on(...), or remove the policy"


def _by_name(service: str, contracts: Sequence[Contract]) -> Mapping[str, Contract]:
    named: dict[str, Contract] = {}
    for contract in contracts:
        if named.setdefault(contract.name, contract) is not contract:
            raise DeclarationError(
                f"service {service!r} names two different contracts {contract.name!r} (8404)", code=CONTRACT_TWICE
            )
    return named


def _plain(contracts: Mapping[str, Contract]) -> dict[str, dict[str, list[str]]]:
    return {
        name: {
            "initiator": [t for t in contract.by_initiator if t not in contract.by_target],
            "target": [t for t in contract.by_target if t not in contract.by_initiator],
            "any": [t for t in contract.by_initiator if t in contract.by_target],
        }
        | ({"group_named_by": sorted(contract.group_named_by)} if contract.shares_groups else {})
        for name, contract in contracts.items()
    }
