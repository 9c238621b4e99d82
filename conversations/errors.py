"""Every exception of the package.

ConversationError             has a code of Service Broker's error table
 ├─ LocalError                you asked for something impossible; raised immediately, nothing changed; docs/codes.md has the codes
 │   ├─ DialogEnded           8429 (or 8427, 8458): the dialog's state does not allow the verb
 │   ├─ HandlerOver           the handler of the dialog object is over; it can make no more requests
 │   ├─ NotInContract         8431: the contract does not know the message type
 │   ├─ WrongDirection        8432, 8434: the other side sends this message type
 │   ├─ InvalidBody           9615, 8430: the body does not fit its message type
 │   ├─ BodyTooLarge          8459: the body, or the requests of one command, have too many bytes
 │   ├─ UnknownContract       8425: the service does not declare the contract
 │   ├─ UnknownService        8490: the catalog does not name the service with which a dialog would begin
 │   └─ NoWorkerHere          a request needs a worker of its service in this process
 ├─ PeerError                 the other side, or this library, ended the dialog with an error
 ├─ PublicationRefused        a topic refuses a record that a handler published; the handler had no effect
 ├─ NotAccepted               Kafka refused or did not confirm a client's write; running its block again with the same id is harmless
 └─ RequestTimeout            no reply in time; tells whether the peer has acknowledged the request
DeclarationError              a service's declaration is incomplete or contradicts itself or the catalog
StateUpgradeError             stored group state has another version, and it cannot be upgraded
 └─ NewerState                a newer release wrote it: the message waits for a worker of that release
LogError                      Kafka, its settings or the local state failed; trying again helps only with some subclasses
 ├─ KafkaUnreachable          no broker answered
 │   ├─ KafkaNotReady         a broker answered: the cluster is not ready
 │   ├─ StaleAnswer           the broker that answered does not know the newest records
 │   └─ LoginRefused          brokers refuse the login
 ├─ UnknownNamespace          the namespace has no catalog
 ├─ Fenced                    another member of the group owns a partition now
 ├─ Interrupted               the transaction was aborted for a passing reason
 ├─ InDoubt                   the outcome of a commit is unknown
 │   └─ CutOff                this connection does not get some of its records
 ├─ DestinationFailed         a topic refuses all records, or one record
 └─ InputLost                 an input cannot be read from its position any more
     └─ StateDamaged          a row of a partition's state cannot be decoded
        └─ CopyDamaged        only the local copy of a partition's state is damaged
TimeLimitExceeded            a handler ran longer than its time limit; a TimeoutError
ProcessDied                  every process that ran the handler died
Verdict                      a handler's decision about its message; a BaseException that is not an Exception
 ├─ RetryLater                 try the message again later; the run is no failed attempt
 └─ GiveUp                     do not try the message again
UndecodableRecord            the bytes in a topic are not a record of a known schema
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import NamedTuple

from conversations.protocol import codes
from conversations.protocol.code_table import class_of_error, of_error
from conversations.protocol.codes import ErrorClass, LocalCode


class ConversationError(Exception):
    """An error about a conversation. ``code`` is its number in the table of codes (``docs/codes.md``), 0 if it has no number."""

    code: int = 0

    def __init__(self, message: str = "", *, code: LocalCode | None = None) -> None:
        super().__init__(message or (self.__doc__ or "").split("\n", 1)[0])
        if code is not None:
            self.code = code.number


class LocalError(ConversationError):
    """The caller asked for something impossible; nothing was changed."""


class DialogEnded(LocalError):
    """The state of the dialog does not allow this verb."""

    code = codes.SEND_REFUSED.number


class HandlerOver(LocalError):
    """The handler of this dialog object has returned, failed, or passed its time limit. It can make no more requests."""


class NotInContract(LocalError):
    """The contract does not know this message type."""

    code = codes.TYPE_NOT_IN_CONTRACT.number


class WrongDirection(LocalError):
    """The contract lets only the other side send this message type."""

    code = codes.ONLY_TARGET_SENDS.number


class InvalidBody(LocalError):
    """The body does not fit its message type."""

    code = codes.INVALID_BODY.number


class BodyTooLarge(LocalError):
    """The body is larger than a message may be."""

    code = codes.BODY_TOO_LARGE.number


class UnknownContract(LocalError):
    """The service does not declare this contract."""

    code = codes.UNKNOWN_CONTRACT.number


class UnknownService(LocalError):
    """The catalog does not name the service with which a dialog would begin."""

    code = codes.NO_SUCH_SERVICE.number


class NoWorkerHere(LocalError):
    """A request waits for its reply in this process, so a worker of its service must run here."""


class PeerError(ConversationError):
    """The dialog ended with an error: positive codes are the peer application's, negative codes are this library's.

    Args:
        code: the number of the error, as it was on the wire.
        description: the text of the error.
    """

    def __init__(self, code: int, description: str) -> None:
        super().__init__(f"{code}: {description}")
        self.code = code
        self.description = description

    @property
    def name(self) -> str:
        """Name of the code in the table of codes (``docs/codes.md``); empty for an application's code, and for a code in no table."""
        row = of_error(self.code)
        return "" if row is None else row.name

    @property
    def error_class(self) -> ErrorClass:
        """What this side can do about the error. A system code that is in no table is unclassified."""
        return class_of_error(self.code)

    @property
    def can_resend(self) -> bool:
        """True if what the peer has not accepted may be sent again on a new dialog: ``dialog.resend()`` (seed 000)."""
        return self.error_class is ErrorClass.RECOVERABLE


class PublicationRefused(ConversationError):
    """A topic refuses a record that the handler published. So the handler has failed: none of its requests has an effect.

    ``code`` is 8459 if the record is larger than its topic accepts, else 9615. The handler does not get this exception, because it has
    returned already. A ``PoisonPolicy`` may name it, and the dead letter of the message names it.
    """

    def __init__(self, topic: str, why: str, *, too_large: bool) -> None:
        code = codes.BODY_TOO_LARGE if too_large else codes.INVALID_BODY
        super().__init__(f"{topic} does not take a record that the handler published: {why} ({code.number})", code=code)
        self.topic = topic


class NotAccepted(ConversationError):
    """Kafka refused the write or did not confirm it in time.

    A write that was not confirmed in time may still take effect. It is harmless to run the same block again with the same id: a block
    that begins a dialog with ``id=`` (from ``new_id()``), any other block with the same ``key=``.
    """


class RequestTimeout(ConversationError):
    """No reply arrived in time."""

    def __init__(self, dialog_id: str, acknowledged: bool, to: str = "the peer", status: str = "") -> None:
        had = (
            "it has the request, and may still handle it"
            if acknowledged
            else "it has not acknowledged the request: is a worker of it running? It may still handle the request"
        )
        super().__init__(f"no reply from {to} on dialog {dialog_id} in time; {status or had}")
        self.dialog_id = dialog_id
        self.acknowledged = acknowledged
        """True if the peer has the message."""


class DeclarationError(Exception):
    """A declaration is incomplete or contradicts itself, the code or the catalog. The message tells how to correct it.

    ``code`` is its number in the table of codes (``docs/codes.md``), 0 if it has no number.
    """

    code: int = 0

    def __init__(self, message: str, *, code: LocalCode | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code.number


class StateUpgradeError(Exception):
    """Stored group state has another version than the code, and cannot be upgraded to the version of the code."""


class NewerState(StateUpgradeError):
    """A newer release wrote the stored group state. The handler is called again later, perhaps by a worker of that release."""


class LogError(Exception):
    """Kafka, its settings or the local state failed. Trying again helps only with some subclasses."""


class KafkaUnreachable(LogError):
    """No broker answered; the message names the bootstrap address."""

    def __init__(self, bootstrap: str, why: str) -> None:
        super().__init__(f"Kafka cannot be reached at {bootstrap}: {why}. Is it running, and is the address right?")
        self.bootstrap, self.why = bootstrap, why


class KafkaNotReady(KafkaUnreachable):
    """A broker answered that the cluster is not ready, for example because leaders change. Ask again until the cluster is ready."""

    def __init__(self, bootstrap: str, why: str, question: str = "Are enough of its brokers up?") -> None:
        LogError.__init__(self, f"Kafka at {bootstrap} answers, and is not ready: {why}. {question}")
        self.bootstrap = bootstrap


class StaleAnswer(KafkaUnreachable):
    """The broker that answered was cut off from the other brokers, so it lacks the newest records. Ask again over new connections."""

    def __init__(self, why: str) -> None:
        LogError.__init__(self, why)
        self.bootstrap = ""


class LoginRefused(KafkaUnreachable):
    """Brokers refuse the login; the message has their answer."""

    def __init__(self, bootstrap: str, why: str) -> None:
        LogError.__init__(
            self,
            f"Kafka at {bootstrap} refuses the login: {why}. Are sasl.username, sasl.password and sasl.mechanisms right?",
        )
        self.bootstrap = bootstrap


class UnknownNamespace(LogError):
    """The namespace has no catalog: its name is wrong, or no service was applied yet."""


class Fenced(LogError):
    """Another member owns at least one of the partitions; the transaction was aborted."""


class Interrupted(LogError):
    """The transaction was aborted for a passing reason. It may be tried again."""


class InDoubt(LogError):
    """It is unknown whether the transaction took effect, so memory must be rebuilt from the topics."""


class CutOff(InDoubt):
    """This connection did not get some of its records and may miss more. A new connection is needed."""


class RefusedRecord(NamedTuple):
    """One record that its topic will never accept."""

    topic: str
    why: str
    too_large: bool


class DestinationFailed(LogError):
    """Some topics accept no records now, or some topics refuse single records. The transaction was aborted.

    Args:
        topics: topics that accept no records now, and the reason for each topic.
        forbidden: names of the topics to which this process has no right to write. ``topics`` has these topics, too.
        records: records that their topics will never accept, by index in the list of records to append.
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
    """An input of a partition cannot be read from the position of the partition any more."""

    def __init__(self, partition: int, why: str) -> None:
        super().__init__(f"partition {partition}: {why}")
        self.partition = partition
        self.why = why


class StateDamaged(InputLost):
    """A row of a partition's state cannot be decoded. Nothing may be written to the partition until a person acts."""

    of_a_copy = False
    """True if only a local copy is damaged. The copy can be restored from its topic."""


class CopyDamaged(StateDamaged):
    """A local copy of a partition's state differs from the rows that were written. It is thrown away and restored from its topic."""

    of_a_copy = True


class TimeLimitExceeded(TimeoutError):
    """A handler ran longer than its time limit."""


class ProcessDied(RuntimeError):
    """Every process that ran the handler of a message died. So the message is given up on."""


class Verdict(BaseException):
    """A handler's decision about its message. The handler's requests have no effect. ``except Exception`` does not catch this class."""


class RetryLater(Verdict):
    """Raised by a handler that cannot handle its message now. Message and dialog wait, and the handler runs again later.

    The run does not count as a failed attempt.

    Args:
        after: how long to wait.
        reason: text for the log, and for operators who look at the dialog. The peer does not get this text.

    Raises:
        TypeError: ``after`` is not a timedelta.
        ValueError: ``after`` is negative.
    """

    def __init__(self, after: timedelta, reason: str = "") -> None:
        if not isinstance(after, timedelta):
            raise TypeError(f"RetryLater takes a timedelta, not {after!r:.80}: for example timedelta(seconds=5)")
        if after < timedelta(0):
            raise ValueError(f"RetryLater takes a positive duration, not {after}")
        super().__init__(reason or f"again after {after}")
        self.after = after


class GiveUp(Verdict):
    """Raised by a handler to give up on its message. No attempt follows, and the policy's ``then`` is carried out.

    The reason is in the log and in the dead letter. The peer does not get the reason.
    """

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)


class UndecodableRecord(ValueError):
    """The bytes in a topic are not a record of a schema that this process knows. The message has the reason."""
