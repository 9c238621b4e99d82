"""All error codes, in one table. Their numbers are Service Broker's.

A system code tells a peer that a dialog broke. It is negative on the wire. A local code tells a caller that an operation was refused and
changed nothing. It is positive. Applications may use any positive codes.

A peer of another version may send a system code that is not in this table. The handler gets such a code unchanged.
"""

from __future__ import annotations

from typing import NamedTuple


class Code(NamedTuple):
    """One system error."""

    number: int
    """The number on the wire: negative."""
    description: str


# System codes.
CONTRACT_NOT_ACCEPTED = Code(-8408, "The target service does not support the contract.")
SENT_BY_INITIATOR = Code(-8437, "The target sent a message type that only the initiator may send.")
SENT_BY_TARGET = Code(-8457, "The initiator sent a message type that only the target may send.")
TOO_LARGE = Code(-8459, "The message is larger than its destination accepts.")
NOT_CONVERSING = Code(-8462, "The remote endpoint does not exchange messages any more, or is gone.")
LIFETIME = Code(-8489, "The dialog has exceeded its lifetime.")
NOT_PERMITTED = Code(-8494, "The sender may not access the service.")
NOT_IN_CONTRACT = Code(-8498, "The message type is not part of the receiver's contract.")
INVALID_AT_TARGET = Code(-9615, "The message failed validation at the target service.")
INVALID = Code(-9616, "The message failed validation.")

# Local codes.
TYPE_TWICE = 8403
"""A contract names a message type twice."""
LIFETIME_NOT_POSITIVE = 8411
"""A lifetime is zero or negative."""
HANDLE_IN_USE = 8413
"""The id belongs to an existing dialog, or to an earlier command with other content. Or a command's operations cannot be combined."""
CODE_NOT_POSITIVE = 8419
"""An application's error code is not positive."""
NO_DESCRIPTION = 8422
"""An error has no description."""
UNKNOWN_CONTRACT = 8425
"""The service does not declare the contract."""
HANDLE_NOT_FOUND = 8426
"""No dialog, letter or waiting message has this name. Or a command is too old, or is dated too far ahead."""
END_REFUSED = 8427
"""The state of the dialog does not allow this side to end it. Usually the dialog has ended already."""
SEND_REFUSED = 8429
"""The state of the dialog does not allow this side to send. Usually the dialog is over."""
TYPE_NOT_IN_CONTRACT = 8431
"""The contract does not have the message type."""
ONLY_TARGET_SENDS = 8432
"""The initiator tried to send a message type of the target."""
ONLY_INITIATOR_SENDS = 8434
"""The target tried to send a message type of the initiator."""
TIMER_REFUSED = 8458
"""The state of the dialog does not allow a timer. Usually the dialog is over."""
BODY_TOO_LARGE = 8459
"""A body, or a whole command, is larger than its limit."""
CLOGGED = 8462
"""Too many bytes wait for a destination.

Service Broker has no number for a full transmission queue, so CLOGGED has the number of NOT_CONVERSING.
"""
NO_SUCH_SERVICE = 8490
"""No service can have this name, or the catalog does not name the service."""
INITIATOR_SENDS_NOTHING = 8492
"""A contract does not allow its initiator to send anything."""
NAMES_NO_GROUP = 8494
"""The contract does not let the service name the group at the target. Or the contract requires a name, and there is none."""
INVALID_BODY = 9615
"""The body does not fit its message type."""

POISON = 500
"""Error code for a dialog that a policy ends because its message was given up on; a policy may name another code."""
POISON_DESCRIPTION = "Unable to process message."
