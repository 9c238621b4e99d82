"""Fences: what an endpoint remembers while it asks its peer what the peer has accepted, and the chain of dialogs that replace each other.

A dialog may break while its initiator keeps messages that the peer has not acknowledged. The peer may have accepted them all the same. So the
initiator asks before it sends anything again (design decision 0038):

    initiator                                        target
        | -- FENCE (until it is answered) ---------------> |  ends its endpoint, or has a tombstone of it
        | <-- FENCED (accepted, transmitted, outcome) ---- |  accepts nothing of this dialog any more
        |                                                  |
        '-- what is above ``accepted`` goes to a new dialog, or comes back to the application and to the operators
"""

from __future__ import annotations

import hashlib
from enum import IntEnum
from typing import NamedTuple

GENERATIONS = 3
"""Maximum number of dialogs that replace each other. If the last of them breaks as well, its messages become dead letters."""
FORGOTTEN = "FORGOTTEN"
"""Outcome in a FENCED if the target knows nothing of the dialog any more."""


class Fence(IntEnum):
    """What an endpoint knows of the numbers that its peer has accepted."""

    NONE = 0
    """The peer was not asked. It may have accepted more than it has acknowledged."""
    ASKING = 1
    ANSWERED = 2
    """The peer has given its last word: it has accepted exactly the acknowledged numbers."""
    UNANSWERED = 3
    """The peer did not answer in time, or has forgotten the dialog."""


class Chain(NamedTuple):
    """The place of a dialog in its chain of replaced dialogs."""

    generation: int
    """1 for the first replacement."""
    first: bytes
    """Conversation id of the first dialog."""
    number: int
    """Number, on the first dialog, of the message that has number 0 on this dialog."""

    def conversation(self) -> bytes:
        """Return the conversation id of the dialog at this place. It is derived, so that every attempt makes the same id.

        The id keeps the 48 bits of time of the first id, so that its age can be read from it.
        """
        digest = hashlib.sha256(self.first + self.generation.to_bytes(1, "big")).digest()
        derived = bytearray(self.first[:6] + digest[:10])
        derived[6] = derived[6] & 0x0F | 0x70
        derived[8] = derived[8] & 0x3F | 0x80
        return bytes(derived)
