"""Pools: one long dialog for each key, which its owner begins, uses again and replaces."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from conversations.errors import DeclarationError, LocalError
from conversations.protocol.admission import check_key, check_service, check_to_group, micros, not_initiated
from conversations.protocol.command import Reuse, Send
from conversations.protocol.contract import Contract, as_contracts
from conversations.protocol.topics import check_name


class Pool:
    """One long dialog with another service for each key: begun with the first message for the key, used again, and replaced by age or count.

    A long dialog costs less than a dialog for each message, and the messages for a key arrive in order. It is replaced, so that a broken dialog
    concerns few messages, and so that the state of dialogs does not grow. The next dialog of a key transmits after the one before is closed: its
    peer has handled all its messages. So the messages for a key stay in order. Nobody names the dialogs: ``Dialog.pooled`` and
    ``Client.pooled`` name the pool and the key.

    On both sides, the dialogs of a key are in one conversation group, so the handlers find the same ``group.state`` after a replacement. Its key is
    ``POOL:KEY``. If the contract has ``group_named_by``, the group at the target has the key itself.

    Args:
        name: name of the pool. A service uses one pool of this name.
        to: name of the other service.
        contract: the contract of the dialogs. The service must initiate it.
        max_age: age at which a dialog is replaced. A dialog is also replaced when half of its lifetime is over.
        max_messages: number of messages after which a dialog is replaced; by default it is not limited.

    Raises:
        DeclarationError: an argument has a wrong type, or is not positive.
        LocalError: ``to`` is not a valid name (8412).
    """

    __slots__ = ("contract", "max_age", "max_messages", "name", "to")

    def __init__(
        self, name: str, *, to: str, contract: Contract, max_age: timedelta, max_messages: int | None = None
    ) -> None:
        self.name = check_name("pool", name)
        check_service(to)
        self.to = to
        self.contract = as_contracts("contract", [contract])[0]
        self.max_age = _positive(name, max_age)
        self.max_messages = 0 if max_messages is None else _count(name, max_messages)

    def __repr__(self) -> str:
        return f"Pool({self.name!r}, to={self.to!r})"

    def group(self, key: str) -> str:
        """Return the key of the conversation group that the dialogs of a key are in.

        Raises:
            LocalError: the key is no text, is empty, or is too long (8414).
        """
        check_key(key)
        group = f"{self.name}:{key}"
        check_key(group)
        return group

    def reuse(self, key: str) -> Reuse:
        """Return the operation with which a command sends for a key."""
        target_key = key if self.contract.shares_groups else ""
        return Reuse(self.to, self.contract.name, self.max_age, self.max_messages, target_key)


class PooledMessages:
    """The messages that a handler has sent for keys of pools."""

    __slots__ = ("of",)

    def __init__(self) -> None:
        self.of: dict[str, tuple[Reuse, list[Send]]] = {}
        """By the key of the group: how to reuse its dialog, and the messages in order."""

    def add(self, group: str, reuse: Reuse, send: Send) -> None:
        """Note a message."""
        self.of.setdefault(group, (reuse, []))[1].append(send)


def check_usable(pool: object, initiates: Callable[[Contract], bool], service: str, key: str) -> None:
    """Check that a service may send for a key of a pool.

    Raises:
        UnknownContract: the service does not initiate the contract of the pool (8425).
        LocalError: ``pool`` is no pool, the key is not valid (8414), or the contract does not let the service name the group at the
            target (8494).
    """
    if not isinstance(pool, Pool):
        raise LocalError(f"pooled takes a Pool, not {pool!r:.80}")
    if not initiates(pool.contract):
        raise not_initiated(
            service, pool.contract.name, f"it is the contract of pool {pool.name!r}: add it to initiates=[...]"
        )
    check_to_group(pool.contract, service, key if pool.contract.shares_groups else None)


def _count(name: str, number: object) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise DeclarationError(f"pool {name!r}: max_messages is a number from 1, or None, not {number!r:.80}")
    return number


def _positive(name: str, age: timedelta) -> int:
    try:
        micro = micros(age, "max_age")
    except LocalError as error:
        raise DeclarationError(f"pool {name!r}: {error}") from error
    if micro < 1:
        raise DeclarationError(f"pool {name!r}: max_age is a timedelta above 0, not {age!r:.80}")
    return micro
