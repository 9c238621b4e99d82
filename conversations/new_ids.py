"""New conversation ids of clients (UUIDv7), and the check of ids that a caller supplies."""

from __future__ import annotations

import secrets
import time
from uuid import UUID

from conversations.errors import LocalError, NoWorkerHere
from conversations.hosts import Host
from conversations.protocol import codes
from conversations.protocol.identifiers import RANDOM_BITS, uuid7

_DRAWS = 10_000


def draw() -> UUID:
    """Draw a new id."""
    return uuid7(time.time_ns() // 1_000, secrets.randbits(RANDOM_BITS))


def draw_for(host: Host) -> str:
    """Draw an id in a partition of this process's worker, so that the replies arrive here.

    Raises:
        NoWorkerHere: the worker owns no partition now.
    """
    for _ in range(_DRAWS):
        drawn = str(draw())
        if host.owns(drawn.encode()):
            return drawn
    raise NoWorkerHere(
        "the worker in this process owns no partition now; it may be starting, or losing all of them to others"
    )


def checked(text: str) -> UUID:
    """Return the id that a caller supplies.

    Raises:
        LocalError: the text is no UUIDv7 (8426).
    """
    try:
        found = UUID(text)
    except (ValueError, AttributeError):
        raise LocalError(
            f"{text!r} is not a conversation id (8426): use Client.new_id()", code=codes.HANDLE_NOT_FOUND
        ) from None
    if found.version != 7:
        raise LocalError(
            f"{text!r} is not a UUIDv7, which has the time at which it was made: use Client.new_id()",
            code=codes.HANDLE_NOT_FOUND,
        )
    return found
