"""What becomes of a message whose handler fails: policies as data, and one pure decision made from them.

The default is Service Broker's sample "Handling Poison Messages": tried again at once, and the fourth failure ends the dialog
with error 500.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import NamedTuple

from conversations.errors import DeclarationError
from conversations.protocol.codes import POISON, POISON_DESCRIPTION
from conversations.protocol.contract import Contract, MessageType, as_message_type
from conversations.protocol.limits import DESCRIPTION_LIMIT

AT_ONCE = timedelta(0)
LARGEST_CODE = (1 << 31) - 1
ATTEMPTS_LIMIT = 1_000
"""Entries of a schedule at most."""

Failing = type[BaseException] | tuple[type[BaseException], ...]


class Then(Enum):
    """What giving up on a message does, besides keeping its bytes as a dead letter."""

    END_DIALOG = "end-dialog"
    """The dialog ends with an error, and the peer is told."""


class Verdict(BaseException):
    """What a handler says of its message; its effects are undone. No ``Exception``: ``except Exception`` lets it pass."""


class GiveUp(Verdict):
    """Raised by a handler: do not try this message again, do what its policy says of giving up."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)


@dataclass(frozen=True, kw_only=True)
class PoisonPolicy:
    """What to do when a handler fails; of a service's policies the first that matches is applied, at each failure anew.

    Raises:
        DeclarationError: a wait between two attempts, a code that is not positive, or texts that are too long.
    """

    message: type | str | MessageType | None = None
    """Only messages of this type; None: any, and the handlers of timers, ends and errors too."""
    exception: Failing | None = None
    """Only failures of these classes, also as a member of an exception group; None: any."""
    contract: Contract | str | None = None
    """Only in dialogs under this contract; None: any."""
    delays: Sequence[timedelta] = (AT_ONCE,) * 3
    """How long to wait before each further attempt, so one entry for each; none: the first failure is the last."""
    then: Then = Then.END_DIALOG
    code: int = POISON
    """Positive: the error a dialog ends with."""
    description: str = POISON_DESCRIPTION

    def __post_init__(self) -> None:
        """Refuse what could not be carried out, where it is written down."""
        if any(delay != AT_ONCE for delay in self.delays):
            raise DeclarationError(
                "a poison policy: every delay must be timedelta(0), attempts follow each other at once"
            )
        if len(self.delays) > ATTEMPTS_LIMIT:
            raise DeclarationError(f"a poison policy: at most {ATTEMPTS_LIMIT} delays")
        if not 0 < self.code <= LARGEST_CODE:
            raise DeclarationError(f"a poison policy: the code is from 1 to {LARGEST_CODE}, not {self.code}")
        if not 0 < len(self.description) <= DESCRIPTION_LIMIT:
            raise DeclarationError(f"a poison policy: the description has 1 to {DESCRIPTION_LIMIT} characters")

    @classmethod
    def service_broker(cls) -> PoisonPolicy:
        """Return the policy of Service Broker's sample: at once, the fourth failure ends the dialog with error 500."""
        return cls(delays=(AT_ONCE,) * 3, then=Then.END_DIALOG, code=POISON, description=POISON_DESCRIPTION)

    @property
    def message_name(self) -> str | None:
        """The message type's name on the wire."""
        if self.message is None or isinstance(self.message, str):
            return self.message
        return as_message_type(self.message).name

    @property
    def contract_name(self) -> str | None:
        """The contract's name on the wire."""
        return self.contract.name if isinstance(self.contract, Contract) else self.contract

    def covers(self, other: PoisonPolicy) -> bool:
        """Say whether nothing is left for ``other`` behind this one."""
        mine, theirs = _classes(self.exception), _classes(other.exception)
        return (
            self.message_name in (None, other.message_name)
            and self.contract_name in (None, other.contract_name)
            and (self.exception is None or (other.exception is not None and all(issubclass(it, mine) for it in theirs)))
        )


class Subject(NamedTuple):
    """Whose handler failed."""

    contract: str
    message: str | None
    """The message type's name; None: a timer, an end or an error."""


class Retry(NamedTuple):
    """Run the handler again."""

    after: timedelta


class GivingUp(NamedTuple):
    """Run it no more."""

    then: Then
    code: int
    description: str


def decide(
    failure: BaseException, attempts: int, policies: Sequence[PoisonPolicy], subject: Subject
) -> Retry | GivingUp:
    """Decide what follows a failure; the same for the same arguments, whichever worker asks and whatever it did before.

    Args:
        failure: what the handler raised.
        attempts: how often it has failed, this time included.
        policies: the service's; the last matches everything.
        subject: whose handler it was.
    """
    leaves = list(_leaves(failure))
    policy = next(policy for policy in policies if _matches(policy, leaves, subject))
    if attempts <= len(policy.delays) and not any(isinstance(leaf, GiveUp) for leaf in leaves):
        return Retry(policy.delays[attempts - 1])
    return GivingUp(policy.then, policy.code, policy.description)


def _matches(policy: PoisonPolicy, leaves: Sequence[BaseException], subject: Subject) -> bool:
    if policy.message is not None and policy.message_name != subject.message:
        return False
    if policy.contract is not None and policy.contract_name != subject.contract:
        return False
    return policy.exception is None or any(isinstance(leaf, policy.exception) for leaf in leaves)


def _leaves(failure: BaseException) -> Iterator[BaseException]:
    """Yield an exception, or the group and all its members: a task group wraps what its tasks raise."""
    yield failure
    if isinstance(failure, BaseExceptionGroup):
        for member in failure.exceptions:
            yield from _leaves(member)


def _classes(failing: Failing | None) -> tuple[type[BaseException], ...]:
    return failing if isinstance(failing, tuple) else () if failing is None else (failing,)
