"""Error codes: Service Broker's own numbers. On the wire system codes are negative, application codes positive."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Class(Enum):
    """What a sender may do about a system error."""

    RECOVERABLE = 1
    """The dialog is lost, not its messages: they may be sent again on a new one."""
    BREACH = 2
    """The two sides disagree on the contract: sending again would fail again."""
    ALTERED = 3
    """A service or contract was dropped or altered: the outcome is undefined."""


class Code(NamedTuple):
    """One system error."""

    number: int
    """As it travels: negative."""
    kind: Class
    description: str


def _code(number: int, kind: Class, description: str) -> Code:
    return Code(-number, kind, description)


LIFETIME = _code(8489, Class.RECOVERABLE, "The dialog has exceeded its lifetime.")
NOT_CONVERSING = _code(8462, Class.RECOVERABLE, "The remote endpoint does not exchange messages any more, or is gone.")
RESTORED_HERE = _code(9719, Class.RECOVERABLE, "The state of this service was restored from a backup.")
RESTORED_THERE = _code(9720, Class.RECOVERABLE, "The state of the remote service was restored from a backup.")
KEY_LOST = _code(28052, Class.RECOVERABLE, "The session key of the dialog is lost.")
NOT_PERMITTED = _code(8494, Class.BREACH, "The sender may not access the service.")
NO_SERVICE = _code(8490, Class.BREACH, "The remote service does not exist.")
NO_CONTRACT = _code(8425, Class.BREACH, "The service contract is not found.")
CONTRACT_NOT_ACCEPTED = _code(8408, Class.BREACH, "The target service does not support the contract.")
NO_MESSAGE_TYPE = _code(8428, Class.BREACH, "The message type is not found.")
NOT_IN_CONTRACT = _code(8498, Class.BREACH, "The message type is not part of the receiver's contract.")
NOT_EMPTY = _code(8430, Class.BREACH, "The message body failed the configured validation.")
SENT_BY_TARGET = _code(8457, Class.BREACH, "The initiator sent a message type that only the target may send.")
SENT_BY_INITIATOR = _code(8437, Class.BREACH, "The target sent a message type that only the initiator may send.")
INVALID = _code(9616, Class.BREACH, "The message failed validation.")
INVALID_AT_TARGET = _code(9615, Class.BREACH, "The message failed validation at the target service.")
TOO_LARGE = _code(8459, Class.BREACH, "The message is larger than its destination takes.")
SERVICE_DROPPED = _code(8470, Class.ALTERED, "The remote service was dropped.")
CONTRACT_DROPPED = _code(8487, Class.ALTERED, "The remote service contract was dropped.")
SERVICE_ALTERED = _code(8469, Class.ALTERED, "The remote service was altered.")
ALTERED_HERE = _code(8468, Class.ALTERED, "This service was altered.")

CODES = {
    code.number: code
    for code in (
        LIFETIME,
        NOT_CONVERSING,
        RESTORED_HERE,
        RESTORED_THERE,
        KEY_LOST,
        NOT_PERMITTED,
        NO_SERVICE,
        NO_CONTRACT,
        CONTRACT_NOT_ACCEPTED,
        NO_MESSAGE_TYPE,
        NOT_IN_CONTRACT,
        NOT_EMPTY,
        SENT_BY_TARGET,
        SENT_BY_INITIATOR,
        INVALID,
        INVALID_AT_TARGET,
        TOO_LARGE,
        SERVICE_DROPPED,
        CONTRACT_DROPPED,
        SERVICE_ALTERED,
        ALTERED_HERE,
    )
}

POISON = 500
"""Application code of a dialog that a poison message ended."""
POISON_DESCRIPTION = "Unable to process message."
