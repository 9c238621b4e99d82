"""Message types, and contracts: a contract names the message types that each side of a dialog may send. Declaring them does no I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Any, Literal, TypeVar

from conversations.errors import DeclarationError, NotInContract, WrongDirection
from conversations.protocol import codes
from conversations.protocol.topics import check_name

M = TypeVar("M")

DEFAULT_LIFETIME = timedelta(days=1)
"""A value that stands for the setting ``periods.lifetime``. The default of this setting is a day."""
NEWEST = 1_000
"""Largest version of a message type's body."""
ANY_SERVICE = "*"
"""Stands for all services in ``Contract.group_named_by``."""
SHOWN = 80
"""Maximum number of characters of an argument in an error text."""
_NAME_ATTRIBUTE, _VERSION_ATTRIBUTE = "__message_type_name__", "__message_type_version__"


def message_type(name: str | None = None, *, version: int = 1) -> Callable[[type[M]], type[M]]:
    """Return a decorator that sets the name and the version of the message type of a body class.

    Args:
        name: name of the message type; None is the name of the class.
        version: version of the body. Increase it if bodies of the old version must be upgraded; see ``Service.upgrade``.

    Raises:
        DeclarationError: the name cannot be part of a topic's name, or the version is no number of at least 1.
    """
    if name is not None:
        check_name("message type", name)
    _check_version(name or "a message type", version)

    def mark(body: type[M]) -> type[M]:
        if name is not None:
            setattr(body, _NAME_ATTRIBUTE, name)
        setattr(body, _VERSION_ATTRIBUTE, version)
        return body

    return mark


def _check_version(what: str, version: object) -> None:
    if not isinstance(version, int) or isinstance(version, bool) or not 1 <= version <= NEWEST:
        raise DeclarationError(f"{what}: the version is a number from 1 to {NEWEST}, not {version!r:.80}")


class Resend(StrEnum):
    """What an initiator does with messages that the target has not accepted when their dialog breaks."""

    AUTOMATIC = "automatic"
    """If the error allows it, a new dialog carries on with exactly these messages. ``on_error`` is called only if there is no new dialog."""
    BY_HAND = "by-hand"
    """``on_error`` finds them in ``dialog.pending``, and may call ``dialog.resend()``. Otherwise they become dead letters of the initiator."""
    OFF = "off"
    """The initiator keeps nothing. The target keeps the bytes of messages that it does not accept any more, as dead letters."""


END_OF_STREAM = "conversations.EndOfStream"
"""Name of the message type with which the initiator's worker asks the target to end its side, because a pool replaces the dialog.

It belongs to no contract, and has no body and no handler.
"""


class MessageType:
    """A named kind of message. Its body is a Pydantic class, an Avro schema, ``"bytes"``, or None for no body.

    Only a body of a Pydantic class may have a version other than 1.
    """

    __slots__ = ("body", "name", "version")

    def __init__(
        self, name: str, body: type | Literal["bytes"] | Mapping[str, Any] | None, *, version: int = 1
    ) -> None:
        self.name = check_name("message type", name)
        if name == END_OF_STREAM:
            raise DeclarationError(f"the message type {name!r} belongs to pools: use another name")
        _check_version(f"message type {name!r}", version)
        if version > 1 and not isinstance(body, type):
            raise DeclarationError(f"message type {name!r}: only a body of a class has versions; use another name")
        self.body = body
        self.version = version

    def __repr__(self) -> str:
        return f"MessageType({self.name!r})"


Declared = type | MessageType


def as_message_type(declared: Declared) -> MessageType:
    """Return the message type of a body class, or the message type itself.

    Raises:
        DeclarationError: ``declared`` is neither a body class nor a message type; the message shows what to write.
    """
    if isinstance(declared, MessageType):
        return declared
    if isinstance(declared, str):
        raise DeclarationError(
            f"a message type is named by the class of its body, not by the text {declared!r:.80}; "
            f'a type without a class is MessageType({"NAME" if declared == "bytes" else repr(declared)[:80]}, "bytes")'
        )
    if not isinstance(declared, type):
        raise DeclarationError(f"a message type is named by the class of its body, not by {declared!r:.80}")
    # ``vars`` is used, not ``getattr``, because a subclass must not inherit the name and the version of its parent's message type.
    own = vars(declared)
    return MessageType(own.get(_NAME_ATTRIBUTE, declared.__name__), declared, version=own.get(_VERSION_ATTRIBUTE, 1))


def as_message_types(argument: str, given: object) -> list[MessageType]:
    """Return the message types of an argument that takes a list of them.

    Raises:
        DeclarationError: the argument is no list, or an element is neither a body class nor a message type. The message shows what to
            write.
    """
    declared: list[Any] = [given] if isinstance(given, str) else listed(argument, given, "message types")
    return [as_message_type(each) for each in declared]


def as_contracts(argument: str, given: object) -> list[Contract]:
    """Return the contracts of an argument that takes a list of them.

    Raises:
        DeclarationError: the argument is no list, or an element is no contract; the message shows what to write.
    """
    contracts: list[Any] = [given] if isinstance(given, str | type) else listed(argument, given, "contracts")
    for contract in contracts:
        if not isinstance(contract, Contract):
            raise DeclarationError(f"{argument} takes objects of class Contract, not {contract!r:.80}")
    return contracts


def listed(argument: str, given: object, what: str) -> list[Any]:
    """Return the elements of an argument that takes a list.

    Raises:
        DeclarationError: the argument is a single element without brackets; the message shows what to write.
    """
    if isinstance(given, str | bytes | type) or not isinstance(given, Iterable):
        shown = given.__name__ if isinstance(given, type) else repr(given)
        short = shown if len(shown) <= SHOWN else f"{type(given).__name__}(...)"
        raise DeclarationError(f"{argument} takes a list of {what}: {argument}=[{short}], with brackets")
    return list(given)


class Contract:
    """The message types that may be sent in a dialog, and the side that may send each of them.

    Args:
        name: the contract's name on the wire.
        sent_by_initiator: types that only the side that begins the dialog may send.
        sent_by_target: types that only the other side may send.
        sent_by_any: types that both sides may send.
        lifetime: lifetime of dialogs whose initiator does not set one; None is unlimited. A service that accepts dialogs under this contract
            also ends them when this time has passed since it accepted them, even if the initiator has chosen a longer lifetime. A contract that
            sets no lifetime (the default is ``periods.lifetime``, a day) or None leaves the lifetime to the initiator.
        group_named_by: services that may begin dialogs under this contract, and name the conversation group at the target (``to_group``);
            ``ANY_SERVICE`` lets all services do so. All dialogs that name a group share its lane and its state, whoever began them. By
            default, no service names the group: each dialog has a group of its own at the target.
        resend: what happens to messages that the target has not accepted when their dialog breaks; see ``Resend``. The initiator keeps
            messages until they are acknowledged, unless ``resend`` is "off", which saves the write.

    Raises:
        DeclarationError: a type is named twice (8403), the initiator may send nothing (8492), the lifetime is not positive (8411), the
            name cannot be part of a topic's name, or an argument has a wrong type.
    """

    def __init__(
        self,
        name: str,
        *,
        sent_by_initiator: Sequence[Declared] = (),
        sent_by_target: Sequence[Declared] = (),
        sent_by_any: Sequence[Declared] = (),
        lifetime: timedelta | None = DEFAULT_LIFETIME,
        group_named_by: Sequence[str] = (),
        resend: Resend | Literal["automatic", "by-hand", "off"] = Resend.BY_HAND,
    ) -> None:
        self.name = check_name("contract", name)
        if not isinstance(lifetime, timedelta | None):
            raise DeclarationError(f"contract {name!r}: the lifetime is a timedelta or None, not {lifetime!r:.80}")
        if lifetime is not None and lifetime <= timedelta(0):
            raise DeclarationError(
                f"contract {name!r}: the lifetime must be more than zero (8411)", code=codes.LIFETIME_OUT_OF_RANGE
            )
        self.lifetime = lifetime
        if resend not in tuple(Resend):
            raise DeclarationError(f"contract {name!r}: resend is one of {', '.join(Resend)}, not {resend!r:.80}")
        self.resend = Resend(resend)
        self.group_named_by = frozenset(_service_names(name, group_named_by))
        by_initiator, by_target, by_any = (
            as_message_types(argument, given)
            for argument, given in (
                ("sent_by_initiator", sent_by_initiator),
                ("sent_by_target", sent_by_target),
                ("sent_by_any", sent_by_any),
            )
        )
        self.by_initiator = {t.name: t for t in (*by_initiator, *by_any)}
        self.by_target = {t.name: t for t in (*by_target, *by_any)}
        self.types = {t.name: t for t in (*by_initiator, *by_target, *by_any)}
        if len(self.types) < len(by_initiator) + len(by_target) + len(by_any):
            raise DeclarationError(f"contract {name!r} names a message type twice (8403)", code=codes.TYPE_TWICE)
        if not self.by_initiator:
            raise DeclarationError(
                f"contract {name!r}: the initiator must be allowed to send something (8492)",
                code=codes.INITIATOR_SENDS_NOTHING,
            )
        self._by_class = {
            from_initiator: {t.body: t for t in types.values() if isinstance(t.body, type)}
            for from_initiator, types in ((True, self.by_initiator), (False, self.by_target))
        }

    def __repr__(self) -> str:
        return f"Contract({self.name!r})"

    @property
    def shares_groups(self) -> bool:
        """True if the initiator of a dialog names the conversation group at the target."""
        return bool(self.group_named_by)

    def may_name_group(self, service: str) -> bool:
        """Return True if a service may name the conversation group at the target."""
        return service in self.group_named_by or ANY_SERVICE in self.group_named_by

    def lives(self, default: int) -> int | None:
        """Return the lifetime, in microseconds, of a dialog whose initiator sets no lifetime; None is unlimited.

        Args:
            default: the lifetime if the contract sets no lifetime either.
        """
        if self.lifetime is DEFAULT_LIFETIME:
            return default
        return None if self.lifetime is None else self.lifetime // timedelta(microseconds=1)

    @property
    def longest(self) -> int | None:
        """Longest lifetime, in microseconds, of the dialogs that a service accepts under this contract.

        None if the contract sets no lifetime, or is unlimited: then the initiator decides alone.
        """
        if self.lifetime is None or self.lifetime is DEFAULT_LIFETIME:
            return None
        return self.lifetime // timedelta(microseconds=1)

    def sendable(self, from_initiator: bool) -> Mapping[str, MessageType]:
        """Return the message types that one side may send, by name."""
        return self.by_initiator if from_initiator else self.by_target

    def outgoing(self, body: object, name: str | None, from_initiator: bool) -> MessageType:
        """Return the message type of a body to send. Without a ``name``, the class of the body decides.

        Raises:
            NotInContract: no type of the contract has this name, or the body does not fit exactly one type (8431).
            WrongDirection: only the other side may send this type. The code is 8432 if the other side is the target, else 8434.
        """
        if name is None:
            found = self._by_class[from_initiator].get(type(body))
            if found is not None:
                return found
            return self._without_class(body, from_initiator)
        found = self.sendable(from_initiator).get(name)
        if found is None:
            raise self._refusal(name, from_initiator)
        return found

    def _without_class(self, body: object, from_initiator: bool) -> MessageType:
        if type(body) in self._by_class[not from_initiator]:
            raise self._refusal(self._by_class[not from_initiator][type(body)].name, from_initiator)
        fitting = [t for t in self.sendable(from_initiator).values() if _fits(t, body)]
        if len(fitting) == 1:
            return fitting[0]
        allowed = ", ".join(self.sendable(from_initiator))
        what = f"{len(fitting)} message types fit" if fitting else "no message type fits"
        raise NotInContract(
            f"{what} a body of class {type(body).__name__} in contract {self.name!r}; "
            f"this side may send: {allowed or 'nothing'}" + ("; name one with type=" if fitting else "")
        )

    def _refusal(self, name: str, from_initiator: bool) -> NotInContract | WrongDirection:
        if name not in self.types:
            known = ", ".join(self.types)
            return NotInContract(f"contract {self.name!r} has no message type {name!r}; it has: {known}")
        side, code = (
            ("target", codes.ONLY_TARGET_SENDS) if from_initiator else ("initiator", codes.ONLY_INITIATOR_SENDS)
        )
        return WrongDirection(f"message type {name!r} is SENT BY {side.upper()} in contract {self.name!r}", code=code)


def _service_names(contract: str, given: Sequence[str]) -> list[str]:
    names = listed("group_named_by", given, "names of services")
    for name in names:
        if name != ANY_SERVICE:
            check_name(f"contract {contract!r}: a service in group_named_by", name)
    return names


def _fits(declared: MessageType, body: object) -> bool:
    match declared.body:
        case "bytes":
            return isinstance(body, bytes)
        case None:
            return body is None
        case Mapping():
            return isinstance(body, Mapping)
        case _:
            return False
