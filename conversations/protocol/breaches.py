"""Codes for a breach of the contract: a message type that this side must not receive, or a body that does not fit its type."""

from __future__ import annotations

from conversations.protocol import codes
from conversations.protocol.codes import SystemCode
from conversations.protocol.contract import Contract


def of_type(contract: Contract, message_type: str, *, initiator: bool) -> SystemCode:
    """Return the code for a message type that this side must not receive: only this side may send it, or the contract does not have it."""
    if message_type in contract.types:
        return codes.SENT_BY_INITIATOR if initiator else codes.SENT_BY_TARGET
    return codes.NOT_IN_CONTRACT


def of_body(contract: Contract, message_type: str, *, initiator: bool) -> SystemCode:
    """Return the code for a body that does not fit its type, which must be in the contract.

    As in Service Broker, a type without a body has its own code. The other codes show which side found the error.
    """
    if contract.types[message_type].body is None:
        return codes.NOT_EMPTY
    return codes.INVALID if initiator else codes.INVALID_AT_TARGET
