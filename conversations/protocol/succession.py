"""The succession of a key of a pool: its dialogs that are not closed, in order, and the time at which the last dialog is replaced."""

from __future__ import annotations

from dataclasses import dataclass, field

from conversations.errors import UndecodableRecord
from conversations.protocol.endpoint import NEVER

_TIME, _ID = 8, 16


@dataclass(slots=True)
class Succession:
    """The dialogs of one key of a pool. Each of them transmits when the dialogs before it are closed."""

    replace_at: int = NEVER
    """Time in microseconds at which the last dialog is replaced; ``NEVER`` if it is replaced already."""
    dialogs: list[bytes] = field(default_factory=list)
    """Identities of the initiator's endpoints, the oldest first."""

    @property
    def is_replaced(self) -> bool:
        """True if no further message is sent on the last dialog."""
        return self.replace_at == NEVER

    def begin(self, own: bytes, replace_at: int) -> None:
        """Add a dialog at the end."""
        self.dialogs.append(own)
        self.replace_at = replace_at

    def replace(self) -> None:
        """Note that no further message is sent on the last dialog."""
        self.replace_at = NEVER

    def carry_on(self, old: bytes, new: bytes) -> None:
        """Put a dialog in the place of another."""
        self.dialogs[self.dialogs.index(old)] = new

    def close(self, own: bytes) -> None:
        """Remove a dialog."""
        self.dialogs.remove(own)


def encode_succession(succession: Succession) -> bytes:
    """Encode the row of a succession: the time, then the conversation ids."""
    ids = (own[:_ID] for own in succession.dialogs)
    return succession.replace_at.to_bytes(_TIME, "big") + b"".join(ids)


def decode_succession(row: bytes) -> Succession:
    """Decode the row of a succession.

    Raises:
        UndecodableRecord: the bytes are not such a row.
    """
    if len(row) < _TIME + _ID or (len(row) - _TIME) % _ID:
        raise UndecodableRecord(f"{len(row)} bytes are not the row of a succession")
    ids = (row[at : at + _ID] for at in range(_TIME, len(row), _ID))
    return Succession(int.from_bytes(row[:_TIME], "big"), [it + b"\1" for it in ids])


def dialog_before(row: bytes, own: bytes) -> bytes | None:
    """Return the endpoint that must be closed before ``own`` transmits; None if ``own`` is the first of its succession, or in none.

    Raises:
        UndecodableRecord: the bytes are not the row of a succession.
    """
    dialogs = decode_succession(row).dialogs
    return dialogs[dialogs.index(own) - 1] if own in dialogs[1:] else None
