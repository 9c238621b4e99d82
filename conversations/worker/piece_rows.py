"""Pieces: the rows of commands that are not whole yet (``pieces``).

The rows have the time at which they are deleted, like the rows that keep a repetition from taking effect again. So a client that dies among the pieces
leaves no row for longer than that.
"""

from __future__ import annotations

from collections.abc import Iterator

from conversations.protocol import repetitions
from conversations.protocol.command import Piece
from conversations.worker.outbox import Outbox

_TIME = 8
"""Bytes of the time in front of each row."""


class Pieces:
    """The pieces of commands that one partition keeps, and the number of their bytes."""

    __slots__ = ("_kept", "_outbox", "bytes")

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._kept: dict[bytes, tuple[int, int]] = {}
        """By the name of a command in the keys of its pieces, the number of pieces that are kept, and their bytes."""
        self.bytes = 0
        """Bytes of the pieces in all rows."""

    def arrived(self, command_id: bytes) -> int:
        """Return the number of pieces of a command that are kept. They are its first ones."""
        return self._kept.get(_name(command_id), (0, 0))[0]

    def size(self, command_id: bytes) -> int:
        """Return the bytes of the pieces of a command that are kept."""
        return self._kept.get(_name(command_id), (0, 0))[1]

    def restore(self, key: bytes, row: bytes) -> None:
        """Account for a row from before a restart. Rows of other repetitions do not count."""
        if repetitions.is_piece(key):
            self._count(repetitions.command_of(key), len(row) - _TIME)

    def keep(self, command_id: bytes, piece: Piece, until: int) -> bytes:
        """Keep the next piece of a command until a log time. Return the key of its row."""
        key = repetitions.piece(command_id, piece.index)
        self._outbox.write(key, until.to_bytes(_TIME, "big") + piece.content)
        self._count(_name(command_id), len(piece.content))
        return key

    def joined(self, command_id: bytes, last: bytes) -> bytes:
        """Return the content of the pieces of a command that are kept, with that of one more."""
        return b"".join((*self._contents(command_id), last))

    def drop(self, command_id: bytes) -> None:
        """Delete the rows of a command."""
        for index in range(self.arrived(command_id)):
            self._outbox.write(repetitions.piece(command_id, index), None)
        self._forget(_name(command_id))

    def forget(self, key: bytes) -> None:
        """Give a command up, because the time of a row is over: it never gets whole. Rows of other repetitions do not count."""
        if repetitions.is_piece(key):
            self._forget(repetitions.command_of(key))

    def _contents(self, command_id: bytes) -> Iterator[bytes]:
        # One row after the other, because all of them take as much memory as the command.
        for index in range(self.arrived(command_id)):
            yield (self._outbox.read(repetitions.piece(command_id, index)) or b"")[_TIME:]

    def _count(self, name: bytes, size: int) -> None:
        arrived, before = self._kept.get(name, (0, 0))
        self._kept[name] = arrived + 1, before + size
        self.bytes += size

    def _forget(self, name: bytes) -> None:
        self.bytes -= self._kept.pop(name, (0, 0))[1]


def _name(command_id: bytes) -> bytes:
    return repetitions.command_of(repetitions.piece(command_id, 0))
