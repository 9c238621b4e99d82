"""Policies for a message whose handler fails, and the pure function that decides what follows a failure.

The default policy runs a failed handler again at once, three times. After the fourth failure, the dialog waits until an operator
decides, so nothing is lost or skipped. ``PoisonPolicy.service_broker()`` is the policy of Service Broker's sample "Handling Poison
Messages": the fourth failure ends the dialog with error 500.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Any, NamedTuple

from conversations.errors import DeclarationError, GiveUp, LocalError, NewerState, RetryLater
from conversations.protocol.admission import check_error
from conversations.protocol.codes import POISON
from conversations.protocol.contract import Contract, MessageType, as_message_type
from conversations.protocol.limits import DESCRIPTION_LIMIT, sendable

AT_ONCE = timedelta(0)
NEWER_STATE = timedelta(seconds=5)
"""First wait of a message whose state a newer release wrote. It is tried again without end, because a worker of that release can handle it."""
LONGEST = timedelta(days=365)
"""Longest delay between two attempts."""
DELAYS_LIMIT = 1_000
"""Maximum number of delays of a policy."""

Failing = type[BaseException] | tuple[type[BaseException], ...]


class Then(Enum):
    """What happens when a policy's delays are used up.

    The bytes of the message are kept in each case. ``DISABLE_QUEUE`` keeps them in the state of the partition. The other members
    keep them in a dead letter.
    """

    END_DIALOG = "end-dialog"
    """The dialog ends with an error, and the peer gets this error. If the dialog is over already, no error is sent."""
    SKIP = "skip"
    """The dialog continues with the next message. An event tells the peer's operators which message was skipped."""
    HOLD = "hold"
    """The dialog waits behind the message until an operator decides, or until its lifetime ends."""
    DISABLE_QUEUE = "disable-queue"
    """The queue is turned off in the partition of the message. All messages there wait in order until an operator turns the queue on."""


@dataclass(frozen=True, kw_only=True)
class PoisonPolicy:
    """A rule for the failures of handlers. At each failure, the first matching policy of the service is applied.

    All failures of a message count, even if different policies matched them. A handler also fails if its effects cannot be committed. For
    example, state that is too large causes a ``ValueError``.

    Raises:
        DeclarationError: a delay, the exception classes, ``then``, or the error of the dialog is not valid.
    """

    message: type | str | MessageType | None = None
    """Matches only messages of this type. None matches all messages, and the handlers of timers, ends and errors."""
    exception: Failing | None = None
    """Matches only failures of these classes, also inside an exception group; None matches all. ``GiveUp`` may be one of the classes."""
    contract: Contract | str | None = None
    """Matches only dialogs under this contract; None matches all."""
    delays: Sequence[timedelta] = (AT_ONCE,) * 3
    """The wait before each further attempt. Without delays, the message is given up on at its first failure."""
    jitter: timedelta = AT_ONCE
    """Maximum random time that is added to each delay.

    With jitter, messages that failed at the same time are not all tried again at the same time.
    """
    then: Then = Then.HOLD
    code: int = POISON.number
    """Only for ``END_DIALOG``: positive code of the error with which the dialog ends."""
    description: str = POISON.text
    """Only for ``END_DIALOG``: text of the error with which the dialog ends."""

    def __post_init__(self) -> None:
        """Refuse a policy that cannot be carried out."""
        delays: object = self.delays
        if not isinstance(delays, Sequence) or isinstance(delays, str):
            raise DeclarationError(
                f"a poison policy: delays is a list of timedeltas: delays=[timedelta(seconds=5)], not {self.delays!r:.80}"
            )
        object.__setattr__(self, "delays", tuple(self.delays))  # a copy, because the caller's list may change
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
        if self.then is not Then.END_DIALOG and (self.code, self.description) != (POISON.number, POISON.text):
            raise DeclarationError(
                "a poison policy: code and description are allowed only where then is Then.END_DIALOG"
            )

    def _check_classes(self) -> None:
        classes = _classes(self.exception)
        if not classes or not all(isinstance(it, type) and issubclass(it, BaseException) for it in classes):
            raise DeclarationError(
                f"a poison policy: exception is a class of exceptions or a tuple of such, not {self.exception!r}"
            )
        if any(issubclass(it, RetryLater) for it in classes):
            raise DeclarationError(
                "a poison policy: RetryLater is no failure, and it has a wait of its own; leave it out of exception"
            )

    @classmethod
    def service_broker(cls) -> PoisonPolicy:
        """Return the policy of Service Broker's sample: three more attempts at once, then the dialog ends with error 500."""
        return cls(delays=(AT_ONCE,) * 3, then=Then.END_DIALOG, code=POISON.number, description=POISON.text)

    @property
    def message_name(self) -> str | None:
        """Name of the policy's message type; None if it matches all messages."""
        if self.message is None or isinstance(self.message, str):
            return self.message
        return as_message_type(self.message).name

    @property
    def contract_name(self) -> str | None:
        """Name of the policy's contract; None if it matches all contracts."""
        return self.contract.name if isinstance(self.contract, Contract) else self.contract

    def concerns(self, subject: Subject) -> bool:
        """Return True if the policy's message type and contract match the handler ``subject``. The exception is not compared here."""
        return self.message_name in (None, subject.message) and self.contract_name in (None, subject.contract)


def waits(policies: Sequence[PoisonPolicy]) -> list[timedelta]:
    """Return the delays of all policies in ascending order. Zero is left out, and equal delays are returned only once."""
    return sorted({delay for policy in policies for delay in policy.delays if delay})


class Subject(NamedTuple):
    """The handler that failed, by contract and message type."""

    contract: str
    message: str | None
    """Name of the message type; None for the handler of a timer, an end or an error."""


class Retry(NamedTuple):
    """The decision to run the handler again."""

    after: timedelta
    jitter: timedelta = AT_ONCE
    """Maximum random time that is added to the wait."""
    counts: bool = True
    """True if the failure counts as a failed attempt; False after ``RetryLater`` and ``NewerState``."""


class End(NamedTuple):
    """The decision to give up on the message."""

    then: Then
    code: int
    description: str


def decide(failure: BaseException, attempts: int, policies: Sequence[PoisonPolicy], subject: Subject) -> Retry | End:
    """Decide what follows a failure. The result depends on the arguments alone.

    Args:
        failure: the exception that the handler raised.
        attempts: number of failures of the message, including this failure.
        policies: the policies of the service; the last one matches everything.
        subject: the handler that failed.
    """
    found = list(members(failure))
    policy = _policy(found, policies, subject)
    if (wait := postponed(failure)) is not None:
        return Retry(wait, counts=False)
    if attempts <= len(policy.delays) and not any(isinstance(member, GiveUp) for member in found):
        return Retry(policy.delays[attempts - 1], policy.jitter)
    return End(policy.then, policy.code, policy.description)


def postponed(failure: BaseException) -> timedelta | None:
    """Return the wait of a message whose failure does not count: after ``RetryLater`` or ``NewerState``. None after other failures.

    If the handler also gave up (``GiveUp``), the result is None.
    """
    found = list(members(failure))
    asked = [member.after for member in found if isinstance(member, RetryLater)]
    asked += [NEWER_STATE for member in found if isinstance(member, NewerState)]
    return None if any(isinstance(member, GiveUp) for member in found) else max(asked, default=None)


def last(failure: BaseException, policies: Sequence[PoisonPolicy], subject: Subject) -> End:
    """Return the decision to give up on a message. Called if no attempt may follow the failure, even if delays are left."""
    policy = _policy(list(members(failure)), policies, subject)
    return End(policy.then, policy.code, policy.description)


def hidden_by(policy: PoisonPolicy, earlier: Sequence[PoisonPolicy], subjects: Iterable[Subject]) -> set[int] | None:
    """Find out why a policy is never applied.

    Args:
        policy: the policy to check.
        earlier: the policies before it.
        subjects: the handlers that may fail.

    Returns:
        None if the policy can be applied. Otherwise the numbers, from 1, of the earlier policies that are applied instead.
        Together, these earlier policies match everything that the policy matches. The set is empty if the policy matches no handler.
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
    """Yield an exception and, if it is an exception group, all its members. Task groups raise exception groups."""
    left = [failure]
    while left:  # no recursion, because deeply nested groups would overflow the stack
        member = left.pop()
        yield member
        if isinstance(member, BaseExceptionGroup):
            left += reversed(member.exceptions)


def _classes(failing: object) -> tuple[Any, ...]:
    return failing if isinstance(failing, tuple) else (BaseException,) if failing is None else (failing,)
