"""Fate of a message whose handler fails: policies as data, and one pure decision made from them.

The default tries again at once, three times, and holds the dialog at the fourth failure until an operator decides: nothing is
lost, and nothing is skipped. ``PoisonPolicy.service_broker()`` is Service Broker's sample "Handling Poison Messages", whose fourth
failure ends the dialog with error 500.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Any, NamedTuple

from conversations.errors import DeclarationError, GiveUp, LocalError, RetryLater
from conversations.protocol.admission import check_error
from conversations.protocol.codes import POISON, POISON_DESCRIPTION
from conversations.protocol.contract import Contract, MessageType, as_message_type
from conversations.protocol.limits import DESCRIPTION_LIMIT, sendable

AT_ONCE = timedelta(0)
LONGEST = timedelta(days=365)
"""A wait between two attempts at most."""
DELAYS_LIMIT = 1_000
"""Entries of a schedule at most."""

Failing = type[BaseException] | tuple[type[BaseException], ...]


class Then(Enum):
    """What giving up on a message does, besides keeping its bytes as a dead letter."""

    END_DIALOG = "end-dialog"
    """The dialog ends with an error, and the peer is told, unless the dialog is over already."""
    SKIP = "skip"
    """The dialog goes on with the next message; the peer's operators are told which message was skipped."""
    HOLD = "hold"
    """The dialog waits behind the message until an operator decides, or its lifetime ends."""
    DISABLE_QUEUE = "disable-queue"
    """The queue of its partition goes off: everything waits, in order, until an operator turns it on again."""


@dataclass(frozen=True, kw_only=True)
class PoisonPolicy:
    """What to do when a handler fails; of a service's policies the first that matches is applied, at each failure anew.

    All failures of a message count, whichever policy matched them. Effects that cannot be committed are failures too: state
    that is too large is a ``ValueError``.

    Raises:
        DeclarationError: a delay that is none, no class of failures, or an error that no dialog could end with.
    """

    message: type | str | MessageType | None = None
    """Only messages of this type; None: any, and the handlers of timers, ends and errors too."""
    exception: Failing | None = None
    """Only failures of these classes, also as a member of an exception group; None: any. ``GiveUp`` is one, too."""
    contract: Contract | str | None = None
    """Only in dialogs under this contract; None: any."""
    delays: Sequence[timedelta] = (AT_ONCE,) * 3
    """How long to wait before each further attempt, so one entry for each; none: the first failure is the last."""
    jitter: timedelta = AT_ONCE
    """Most that is added to each wait, by chance, so that what failed together is not tried again together."""
    then: Then = Then.HOLD
    code: int = POISON
    """Of ``END_DIALOG``: the error the dialog ends with, positive."""
    description: str = POISON_DESCRIPTION

    def __post_init__(self) -> None:
        """Refuse, at the declaration, a policy that could not be carried out."""
        object.__setattr__(self, "delays", tuple(self.delays))  # not the caller's list, which may change
        given: tuple[object, ...] = (*self.delays, self.jitter)
        for delay in given:
            if not isinstance(delay, timedelta) or not AT_ONCE <= delay <= LONGEST:
                raise DeclarationError(
                    f"a poison policy: every delay, and the jitter, is a timedelta from 0 to {LONGEST.days} days, not {delay!r}"
                )
        if len(self.delays) > DELAYS_LIMIT:
            raise DeclarationError(f"a poison policy: at most {DELAYS_LIMIT} delays")
        if not isinstance(self.then, Then):
            raise DeclarationError(f"a poison policy: then is a member of Then, not {self.then!r}")
        self._check_classes()
        try:
            check_error(self.code, self.description)
        except LocalError as error:
            raise DeclarationError(f"a poison policy: {error}") from error
        if sendable(self.description, DESCRIPTION_LIMIT) != self.description:
            raise DeclarationError(
                f"a poison policy: the description is a text of at most {DESCRIPTION_LIMIT} characters"
            )
        if self.then is not Then.END_DIALOG and (self.code, self.description) != (POISON, POISON_DESCRIPTION):
            raise DeclarationError("a poison policy: an error is told where then is Then.END_DIALOG only")

    def _check_classes(self) -> None:
        classes = _classes(self.exception)
        if not classes or not all(isinstance(it, type) and issubclass(it, BaseException) for it in classes):
            raise DeclarationError(
                f"a poison policy: exception is a class of exceptions or a tuple of such, not {self.exception!r}"
            )
        if any(issubclass(it, RetryLater) for it in classes):
            raise DeclarationError(
                "a poison policy: RetryLater is no failure, it waits as long as it says itself; leave it out of exception"
            )

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

    def concerns(self, subject: Subject) -> bool:
        """Say whether it is about this one's handler; of which failures is another question."""
        return self.message_name in (None, subject.message) and self.contract_name in (None, subject.contract)


def waits(policies: Sequence[PoisonPolicy]) -> list[timedelta]:
    """Return every delay of some policies that is not zero, shortest first."""
    return sorted({delay for policy in policies for delay in policy.delays if delay})


class Subject(NamedTuple):
    """Whose handler failed."""

    contract: str
    message: str | None
    """The message type's name; None: a timer, an end or an error."""


class Retry(NamedTuple):
    """Run the handler again."""

    after: timedelta
    jitter: timedelta = AT_ONCE
    """Most that may be added to the wait."""
    counts: bool = True
    """The attempt failed; False: the handler only asked to be called later."""


class End(NamedTuple):
    """Run it no more."""

    then: Then
    code: int
    description: str


def decide(failure: BaseException, attempts: int, policies: Sequence[PoisonPolicy], subject: Subject) -> Retry | End:
    """Decide what follows a failure. Each worker decides the same from the same arguments.

    Args:
        failure: the exception that the handler raised.
        attempts: how often it has failed, this time included.
        policies: the service's; the last matches everything.
        subject: whose handler it was.
    """
    found = list(members(failure))
    policy = _policy(found, policies, subject)
    if not any(isinstance(member, GiveUp) for member in found):
        postponed = [member.after for member in found if isinstance(member, RetryLater)]
        if postponed:
            return Retry(max(postponed), counts=False)
        if attempts <= len(policy.delays):
            return Retry(policy.delays[attempts - 1], policy.jitter)
    return End(policy.then, policy.code, policy.description)


def last(failure: BaseException, policies: Sequence[PoisonPolicy], subject: Subject) -> End:
    """Decide what follows a failure after the last attempt."""
    policy = _policy(list(members(failure)), policies, subject)
    return End(policy.then, policy.code, policy.description)


def hidden_by(policy: PoisonPolicy, earlier: Sequence[PoisonPolicy], subjects: Iterable[Subject]) -> set[int] | None:
    """Say why a policy is never applied; None: it is, to something.

    Args:
        policy: the one in question.
        earlier: those that are asked before it.
        subjects: whose handlers may fail.

    Returns:
        The numbers, from 1, of those that match whatever it could match; none when it is about no handler at all.
    """
    numbers: set[int] = set()
    for subject in filter(policy.concerns, subjects):
        for failing in _classes(policy.exception):
            before = (
                number
                for number, it in enumerate(earlier, 1)
                if it.concerns(subject) and issubclass(failing, _classes(it.exception))
            )
            first = next(before, None)
            if first is None:
                return None
            numbers.add(first)
    return numbers


def _policy(found: Sequence[BaseException], policies: Sequence[PoisonPolicy], subject: Subject) -> PoisonPolicy:
    return next(policy for policy in policies if _matches(policy, found, subject))


def _matches(policy: PoisonPolicy, found: Sequence[BaseException], subject: Subject) -> bool:
    return policy.concerns(subject) and any(isinstance(member, _classes(policy.exception)) for member in found)


def members(failure: BaseException) -> Iterator[BaseException]:
    """Yield an exception, and the members of an exception group: a task group wraps the exceptions of its tasks."""
    left = [failure]
    while left:  # not by recursion: groups may be nested deeper than the stack
        member = left.pop()
        yield member
        if isinstance(member, BaseExceptionGroup):
            left += reversed(member.exceptions)


def _classes(failing: object) -> tuple[Any, ...]:
    return failing if isinstance(failing, tuple) else (BaseException,) if failing is None else (failing,)
