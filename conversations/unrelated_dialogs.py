"""The size limit for a dialog that a handler begins with ``related=False``. All requests of such a dialog are sent as one command."""

from __future__ import annotations

from conversations.protocol.admission import command_too_large
from conversations.protocol.limits import COMMAND_BYTES

AROUND = 2_000
"""Number of bytes that are counted for a command in addition to its bodies: for its key, and the names of service and contract."""

Apart = dict[bytes, int]
"""For each dialog that was begun with ``related=False``: the bytes of its command so far.

The key is the identity of the dialog's endpoint.
"""


def take_room(apart: Apart, identity: bytes, size: int) -> None:
    """Count the bytes of a message, if its dialog is in ``apart``.

    Raises:
        BodyTooLarge: the message and the earlier messages of its dialog do not fit into one command (8459).
    """
    if identity not in apart:
        return
    total = apart[identity] + size
    if total > COMMAND_BYTES:
        raise command_too_large("the messages that a handler sends on a dialog begun with related=False have", total)
    apart[identity] = total
