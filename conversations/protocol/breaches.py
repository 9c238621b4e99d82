"""Which code a breach of the contract has: a message that this side does not receive, or a body that does not fit its type."""

from __future__ import annotations

from conversations.protocol import codes
from conversations.protocol.codes import Code
from conversations.protocol.contract import Contract


def of_type(contract: Contract, message_type: str, *, initiator: bool) -> Code:
    """Say which code a message has that this side does not receive: one of the other direction, or of no direction."""
    if message_type in contract.types:
        return codes.SENT_BY_INITIATOR if initiator else codes.SENT_BY_TARGET
    return codes.NOT_IN_CONTRACT


def of_body(*, initiator: bool) -> Code:
    """Return the code of a body that does not fit its type; as in Service Broker it tells the side that found it."""
    return codes.INVALID if initiator else codes.INVALID_AT_TARGET
