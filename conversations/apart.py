"""Dialogs that a handler begins in groups of their own: the requests to each travel as one command of limited size."""

from __future__ import annotations

from conversations.protocol.admission import command_too_large
from conversations.protocol.limits import COMMAND_BYTES

AROUND = 2_000
"""Bytes of a command besides its bodies: its key and the names of service and contract are included."""

Apart = dict[bytes, int]
"""Bytes asked of each such dialog so far, by its identity."""


def set_apart(apart: Apart | None, identity: bytes, related: bool) -> Apart | None:
    """Add a dialog that was begun just now, unless it is related to its handler's."""
    return apart if related else {**(apart or {}), identity: AROUND}


def take_room(apart: Apart | None, identity: bytes, size: int) -> None:
    """Count a message that is to be sent on a dialog, if it is one of them.

    Raises:
        BodyTooLarge: together with earlier messages it does not fit one command (8459).
    """
    if apart is None or identity not in apart:
        return
    total = apart[identity] + size
    if total > COMMAND_BYTES:
        raise command_too_large("what a handler sends on a dialog that is not related to its own has", total)
    apart[identity] = total
