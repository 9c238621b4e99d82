"""The whole table of error codes: the codes that this library raises, and the codes of Service Broker that nothing here raises.

Each row of the second kind says what will bring the code, or why it never comes. A peer of a later version may send such a system code, so
these rows have a class, too.
"""

from __future__ import annotations

from collections.abc import Iterable

from conversations.protocol import codes
from conversations.protocol.codes import Code, ErrorClass, LocalCode, Party, SystemCode

_BREACH, _RECOVERABLE, _ALTERED = ErrorClass.BREACH, ErrorClass.RECOVERABLE, ErrorClass.ALTERED
_UNCLASSIFIED = ErrorClass.UNCLASSIFIED


def _system(
    number: int, name: str, error_class: ErrorClass, who: tuple[Party, Party], text: str, absent: str
) -> SystemCode:
    detected_by, told = who
    return SystemCode(number, name, error_class, detected_by, told, text, _TO_DO[error_class], absent)


def _local(number: int, name: str, text: str, absent: str) -> LocalCode:
    return LocalCode(number, name, ErrorClass.REFUSED, Party.NOBODY, Party.NOBODY, text, _NOTHING, absent)


_NOTHING = "Nothing: no version of this library raises it."
_TO_DO = {
    _RECOVERABLE: "Begin a new dialog, and send again what the peer has not answered.",
    _BREACH: "Do not send again. Compare the declarations of both services.",
    _ALTERED: "Ask the operators of the peer whether the service is still there, before anything is sent again.",
    _UNCLASSIFIED: "Do not send again. End the dialog.",
}
_TO_SENDER = (Party.RECEIVER, Party.SENDER)
_TO_INITIATOR = (Party.TARGET, Party.INITIATOR)
_TO_PEERS = (Party.EACH, Party.BOTH)
_CLUSTERS = "when dialogs cross clusters: "
_DROPPED = (
    "when `conversations apply` can drop or alter what open dialogs use. Today it refuses nothing and breaks nothing"
)
_NO_ARGUMENT = "never: Python refuses a call without the argument"
_NO_MOVE = "never: the group of a dialog is its record key, so a dialog cannot move to another group"
_NO_RECEIVE = "never: there is no RECEIVE statement; a worker calls handlers"
_NO_ACTIVATION = "never: a handler is declared in Python, and `conversations run` starts it"

ABSENT: tuple[Code, ...] = (
    _system(-8425, "CONTRACT_NOT_FOUND", _BREACH, _TO_INITIATOR, "The service contract is not found.",
        "never: a contract is no object of its own, only a part of a service. A service without it does not accept it (-8408)"),
    _system(-8428, "TYPE_NOT_FOUND", _BREACH, _TO_SENDER, "The message type is not found.",
        "never: a message type is no object of its own, only a part of a contract. It is not in the contract (-8498)"),
    _system(-8468, "SERVICE_ALTERED", _ALTERED, (Party.EACH, Party.ITSELF), "The underlying service has been altered.", _DROPPED),
    _system(-8469, "REMOTE_SERVICE_ALTERED", _ALTERED, _TO_PEERS, "The remote service has been altered.", _DROPPED),
    _system(-8470, "REMOTE_SERVICE_DROPPED", _ALTERED, _TO_PEERS, "The remote service has been dropped.", _DROPPED),
    _system(-8472, "HEADER_INVALID", _UNCLASSIFIED, _TO_SENDER, "The remote service has sent a message with invalid header fields.",
        "never: such a record is set aside without an answer, because its fields cannot be trusted (the event SET_ASIDE)"),
    _system(-8475, "ENDPOINT_DROPPED", _UNCLASSIFIED, _TO_SENDER, "The conversation endpoint has been dropped.",
        "never: an endpoint that is gone is told with -8462"),
    _system(-8487, "REMOTE_CONTRACT_DROPPED", _ALTERED, _TO_PEERS, "The remote service contract has been dropped.", _DROPPED),
    _system(-8490, "REMOTE_SERVICE_MISSING", _BREACH, _TO_INITIATOR, "The remote service does not exist.",
        "never: a service that another cluster does not have waits, because it may be applied later. Without a route, the caller gets 8490"),
    _system(-8495, "ACKNOWLEDGED_BY_ANOTHER", _UNCLASSIFIED, (Party.INITIATOR, Party.TARGET), "The conversation has already been acknowledged by another instance of this service.",
        _CLUSTERS + "then two copies of a service may answer one dialog. In one cluster, Kafka fences every owner of a partition but one"),
    _system(-8499, "ENCODING_DIFFERS", _BREACH, _TO_SENDER, "The encoding of the message body does not match.",
        "never: the message type decides how a body is decoded. A body in another encoding fails with -9615 or -9616"),
    _system(-9719, "RESTORED", _RECOVERABLE, (Party.EACH, Party.ITSELF), "The database of this endpoint was attached or restored.",
        "when topics can be restored from a backup. Today a partition whose topics were re-created is set aside (PARTITION_SET_ASIDE)"),
    _system(-9720, "REMOTE_RESTORED", _RECOVERABLE, _TO_PEERS, "The database of the remote endpoint was attached or restored.",
        "when topics can be restored from a backup"),
    _system(-28052, "SESSION_KEY_LOST", _RECOVERABLE, (Party.EACH, Party.ITSELF), "The session key of the dialog is lost.",
        "never: what is not acknowledged is sealed anew with the present key, so a new key on both sides is enough. Anybody can name a key that nobody has (MESSAGE_NOT_AUTHENTIC)"),
    _system(-28058, "NOT_UPGRADED", _UNCLASSIFIED, (Party.EACH, Party.ITSELF), "The conversation could not be upgraded to a new version of the database.",
        "never: a newer worker reads the rows of older ones. State that it cannot read stops the partition, and breaks no dialog"),
    _local(8406, "LIFETIME_MISSING", "The lifetime is NULL.", "never: None means the lifetime of the contract"),
    _local(8413, "BROKER_INSTANCE_INVALID", "The syntax of the broker instance is invalid.", _CLUSTERS + "then a dialog may name one"),
    _local(8417, "CONTRACT_MISSING", "The contract name is NULL.", _NO_ARGUMENT),
    _local(8418, "HANDLE_MISSING", "The conversation handle is missing.", _NO_ARGUMENT),
    _local(8420, "GROUP_MISSING", "The conversation group is missing.", _NO_ARGUMENT),
    _local(8421, "SERVICE_MISSING", "The service name is missing.", _NO_ARGUMENT),
    _local(8423, "SERVICE_NOT_FOUND", "The service is not found.", "never: a handler has its service. A client of a service without topics gets NotAccepted"),
    _local(8424, "CODE_MISSING", "The error code and the description are missing.", _NO_ARGUMENT),
    _local(8428, "UNKNOWN_TYPE", "The message type is not found.", "never: a message type is a part of a contract, so the number is 8431"),
    _local(8433, "BODY_MISSING", "The message body is NULL.", "never: None is the body of a message type without a body. Elsewhere it does not fit (9615)"),
    _local(8436, "GROUP_NOT_FOUND", "The conversation group is not found.", _NO_MOVE),
    _local(8438, "MOVE_REFUSED", "The state of the endpoint does not allow MOVE CONVERSATION.", _NO_MOVE),
    _local(8439, "DESTINATION_GROUP_INVALID", "The destination group is invalid.", _NO_MOVE),
    _local(8442, "NO_BROKER", "There is no Service Broker in the database.", "never as a number: KafkaUnreachable says why no broker answers"),
    _local(8447, "RECEIVE_MIXED", "RECEIVE assigns a variable and returns data.", _NO_RECEIVE),
    _local(8450, "RECEIVE_ASSIGNS", "RECEIVE assigns in a projection with INTO.", _NO_RECEIVE),
    _local(9610, "GROUP_OF_ANOTHER", "The group belongs to another service.", "never: every service has groups of its own"),
    _local(9613, "ACTIVATION_INVALID", "The queue cannot be activated with these parameters.", _NO_ACTIVATION),
    _local(9614, "ACTIVATION_WITHOUT_CONTEXT", "The queue cannot be activated: its execution context is missing.", _NO_ACTIVATION),
    _local(9617, "QUEUE_OFF", "The service queue is disabled.", _NO_RECEIVE + ". No handler is called while the queue is off"),
    _local(9618, "QUEUE_OFF_AND_RETAINED", "The queue is disabled and has RETENTION.", "never: queues keep no handled messages; the archive does"),
    _local(9620, "PROCEDURE_INVALID", "The activated procedure is invalid.", _NO_ACTIVATION),
    _local(9648, "NO_READERS", "MAX_QUEUE_READERS is zero.", _NO_ACTIVATION),
    _local(9653, "PROCEDURE_SIGNATURE", "The signature of the activated procedure is invalid.", _NO_ACTIVATION + ". A wrong signature is a DeclarationError"),
    _local(9717, "ACTIVATION_AND_NOTIFICATION", "The queue has an activated procedure and an event notification.", _NO_ACTIVATION),
    _local(9718, "NOTIFICATION_AND_ACTIVATION", "The queue has an event notification and an activated procedure.", _NO_ACTIVATION),
    _local(28006, "END_NOT_PERMITTED", "The user may not END the conversation.", "never as a number: Kafka's rights decide who may write commands"),
)  # fmt: skip
"""Service Broker's codes without a cause in this library, by its lists of system errors and of errors of statements."""

TABLE: tuple[Code, ...] = tuple(sorted((*codes.ROWS, *ABSENT), key=lambda row: (abs(row.number), row.number)))
"""Every row. Where a system code and a local code have the same number, the system code comes first."""

_SYSTEM = {row.number: row for row in TABLE if isinstance(row, SystemCode)}


def of_error(number: int) -> Code | None:
    """Return the row of the code of a dialog's error, or None. Positive codes are the applications', and have no row."""
    return _SYSTEM.get(number)


def class_of_error(number: int) -> ErrorClass:
    """Return the class of the code of a dialog's error. Codes that are in no table are unclassified."""
    if number > 0:
        return ErrorClass.APPLICATION
    row = of_error(number)
    return _UNCLASSIFIED if row is None else row.error_class


def rows_of(number: int) -> list[Code]:
    """Return the rows with a number. For a negative number, only the system code; for a positive number, also the local code."""
    return [row for row in TABLE if row.number == number or (number > 0 and row.number == -number)]


def nearest(number: int) -> Iterable[Code]:
    """Return the rows whose numbers are nearest to a number that is in no row: the next smaller one and the next larger one."""
    wanted = abs(number)
    smaller = [row for row in TABLE if abs(row.number) < wanted]
    larger = [row for row in TABLE if abs(row.number) > wanted]
    return [*smaller[-1:], *larger[:1]]
