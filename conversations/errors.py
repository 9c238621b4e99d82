"""Every exception of the package.

ConversationError             has a code of Service Broker's error table
 ├─ LocalError                you asked for something impossible; raised at once, nothing changed
 │   ├─ DialogEnded           8429 (or 8427, 8458): the dialog's state does not allow the verb
 │   ├─ NotInContract         8431: the contract does not know the message type
 │   ├─ WrongDirection        8432, 8434: the other side sends this message type
 │   ├─ InvalidBody           9615: the body is not what its message type says
 │   ├─ BodyTooLarge          8459
 │   ├─ UnknownContract       8425: the service does not declare the contract
 │   └─ NoWorkerHere          a request needs a worker of its service in this process
 ├─ PeerError                 the other side, or the broker on its behalf, ended the dialog with an error
 ├─ NotAccepted               Kafka did not confirm a client's write; the same block again is harmless
 └─ RequestTimeout            no reply in time; says whether the peer had the request
DeclarationError              a service's declaration is incomplete or contradicts itself or the catalog
StateUpgradeError             stored group state is of another version and no upgrade function fits
LogError                      Kafka failed for good
 ├─ KafkaUnreachable          no broker answered
 │   ├─ KafkaNotReady         one answered: not just now
 │   ├─ StaleAnswer           one answered that does not know the newest records
 │   └─ LoginRefused          brokers answer, and do not accept user and password
 ├─ Fenced                    another member owns a partition now
 ├─ Interrupted               aborted for a passing reason
 ├─ InDoubt                   the outcome of a commit is unknown
 │   └─ CutOff                there are records that this connection does not get
 ├─ DestinationFailed         a topic refuses records, all or one
 └─ InputLost                 an input position can no longer be read
     └─ StateDamaged          a row of a partition's state cannot be understood
        └─ CopyDamaged        only the local copy of it is damaged
TimeLimitExceeded            a handler ran longer than it may; a TimeoutError
ProcessDied                  every process died that ran the handler
Verdict                      what a handler says of its message, and no Exception
 ├─ RetryLater                 not now, and this was no failed attempt
 └─ GiveUp                     do not try it again
UndecodableRecord            bytes of a topic are not a record of a schema we know
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import NamedTuple


class ConversationError(Exception):
    """Something about a conversation went wrong; ``code`` is Service Broker's number for it."""

    code: int = 0

    def __init__(self, message: str = "", *, code: int | None = None) -> None:
        super().__init__(message or (self.__doc__ or "").split("\n", 1)[0])
        if code is not None:
            self.code = code


class LocalError(ConversationError):
    """The caller asked for something impossible; nothing was changed."""


class DialogEnded(LocalError):
    """The state of the dialog does not allow this verb."""

    code = 8429


class HandlerOver(LocalError):
    """The handler this dialog was given to has returned, failed, or passed its time limit: nothing can be asked for any more."""


class NotInContract(LocalError):
    """The contract does not know this message type."""

    code = 8431


class WrongDirection(LocalError):
    """The contract lets only the other side send this message type."""

    code = 8432


class InvalidBody(LocalError):
    """The body does not fit its message type."""

    code = 9615


class BodyTooLarge(LocalError):
    """The body is larger than a message may be."""

    code = 8459


class UnknownContract(LocalError):
    """The service does not declare this contract."""

    code = 8425


class NoWorkerHere(LocalError):
    """A request waits for its reply in this process, so a worker of its service must run here."""


class PeerError(ConversationError):
    """The other side ended the dialog with an error: positive codes are its own, negative ones the broker's."""

    def __init__(self, code: int, description: str) -> None:
        super().__init__(f"{code}: {description}", code=code)
        self.description = description


class NotAccepted(ConversationError):
    """Kafka did not confirm the write in time; running the same block again with the same id is harmless."""


class RequestTimeout(ConversationError):
    """No reply arrived in time."""

    def __init__(self, dialog_id: str, acknowledged: bool, to: str = "the peer") -> None:
        had = (
            "it has the request, and may still handle it"
            if acknowledged
            else "it has not acknowledged the request: is there such a service, and is it running? It may still handle it"
        )
        super().__init__(f"no reply from {to} on dialog {dialog_id} in time; {had}")
        self.dialog_id = dialog_id
        self.acknowledged = acknowledged


class DeclarationError(Exception):
    """A declaration is incomplete or contradicts itself, the code or the catalog; the message names the fix."""


class StateUpgradeError(Exception):
    """Stored group state is of another version than the code and no upgrade function leads to it."""


class LogError(Exception):
    """Kafka failed in a way that this process cannot mend by trying again."""


class KafkaUnreachable(LogError):
    """No broker answered; the message names the bootstrap address."""

    def __init__(self, bootstrap: str, why: str) -> None:
        super().__init__(f"Kafka cannot be reached at {bootstrap}: {why}. Is it running, and is the address right?")
        self.bootstrap, self.why = bootstrap, why


class KafkaNotReady(KafkaUnreachable):
    """A broker answered that the cluster cannot do it just now, as while leaders change: ask again, however long."""

    def __init__(self, bootstrap: str, why: str, question: str = "Are enough of its brokers up?") -> None:
        LogError.__init__(self, f"Kafka at {bootstrap} answers, and is not ready: {why}. {question}")
        self.bootstrap = bootstrap


class StaleAnswer(KafkaUnreachable):
    """A broker answered that does not know the newest records: it was cut off. Ask again, over new connections."""

    def __init__(self, why: str) -> None:
        LogError.__init__(self, why)
        self.bootstrap = ""


class LoginRefused(KafkaUnreachable):
    """Brokers do not accept the login; the message has their answer."""

    def __init__(self, bootstrap: str, why: str) -> None:
        LogError.__init__(
            self,
            f"Kafka at {bootstrap} refuses the login: {why}. Are sasl.username, sasl.password and sasl.mechanisms right?",
        )
        self.bootstrap = bootstrap


class Fenced(LogError):
    """Another member owns at least one of the partitions; the transaction was aborted."""


class Interrupted(LogError):
    """The transaction was aborted for a passing reason and may be tried again."""


class InDoubt(LogError):
    """Nobody knows whether the transaction took effect: memory must be rebuilt from the topics."""


class CutOff(InDoubt):
    """Some records do not reach this connection, and it may miss more: another connection must be made."""


class RefusedRecord(NamedTuple):
    """One record that its topic will never take."""

    topic: str
    why: str
    too_large: bool


class DestinationFailed(LogError):
    """Some topics refuse records, or one record is refused by its topic; the transaction was aborted.

    Args:
        topics: that take nothing now, and why.
        forbidden: the topics among them that this process may not write to.
        records: that are refused whatever else is committed, by their place in what was to be appended.
    """

    def __init__(
        self,
        topics: Mapping[str, str],
        *,
        forbidden: Iterable[str] = (),
        records: Mapping[int, RefusedRecord] | None = None,
    ) -> None:
        self.topics = dict(topics)
        self.forbidden = frozenset(forbidden)
        self.records = dict(records or {})
        of_records = [f"{found.topic}: {found.why}" for found in self.records.values()]
        super().__init__("; ".join([*(f"{topic}: {why}" for topic, why in topics.items()), *of_records]))


class InputLost(LogError):
    """An input of a partition cannot be read on from where it stopped."""

    def __init__(self, partition: int, why: str) -> None:
        super().__init__(f"partition {partition}: {why}")
        self.partition = partition
        self.why = why


class StateDamaged(InputLost):
    """A row of a partition's state cannot be understood: a human must look before anything is written to it."""

    of_a_copy = False
    """Whether only a local copy is damaged, which can be made anew."""


class CopyDamaged(StateDamaged):
    """A local copy of a partition's state is not as it was written: it is thrown away, and the topic copied again."""

    of_a_copy = True


class TimeLimitExceeded(TimeoutError):
    """A handler ran longer than its time limit."""


class ProcessDied(RuntimeError):
    """The failure of a message when every process that ran its handler died."""


class Verdict(BaseException):
    """A handler's decision about its message; its effects are undone. No ``Exception``: ``except Exception`` lets it pass."""


class RetryLater(Verdict):
    """Raised by a handler: not now. Its message waits, its dialog with it, and is tried again; this is no failed attempt.

    Args:
        after: how long to wait.
        reason: goes to the log and to operators who look at the dialog, not to the peer.

    Raises:
        TypeError: ``after`` is not a timedelta.
        ValueError: it is negative.
    """

    def __init__(self, after: timedelta, reason: str = "") -> None:
        if not isinstance(after, timedelta):
            raise TypeError(f"RetryLater takes a timedelta, not {after!r}")
        if after < timedelta(0):
            raise ValueError(f"RetryLater takes a positive duration, not {after}")
        super().__init__(reason or f"again after {after}")
        self.after = after


class GiveUp(Verdict):
    """Raised by a handler: do not try this message again, and carry out the end of its policy.

    The reason goes to the log and the dead letter, not to the peer.
    """

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)


class UndecodableRecord(ValueError):
    """Bytes of a topic are not a record of a schema this process knows; the message says why."""
