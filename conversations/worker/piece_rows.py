"""The rows that keep the pieces of commands: until a command is whole, and as long as a delayed row refers to a body in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from conversations.protocol import repetitions
from conversations.protocol.command import Piece
from conversations.protocol.command_parts import Parts
from conversations.worker.contents import Digest
from conversations.worker.joining import join
from conversations.worker.outbox import Outbox

_TIME = 8
"""Bytes of the time in front of the row of a piece."""


class Whole(NamedTuple):
    """A command whose pieces have all come."""

    command_id: bytes
    last: bytes
    """Content of the last piece, which has no row."""
    content: bytes
    """Digest of the command; empty if it must be computed from the decoded command."""


class Pieces:
    """The pieces of commands that one partition keeps, and the number of their bytes.

    The rows have the time at which they are deleted, like the rows that keep a repetition from taking effect again. So a client that dies among the pieces
    leaves no row for longer than that. Pieces that a delayed row refers to stay until the last fragment is transmitted. One more row counts what refers
    to them.
    """

    __slots__ = ("_digests", "_kept", "_outbox", "_sizes", "_used", "at_hand", "bytes")

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._digests: dict[bytes, Digest] = {}
        """By that name, the digest of the pieces. A command from before a restart has none."""
        self._kept: dict[bytes, list[int]] = {}
        """By the name of a command in the keys of its pieces, the bytes of each piece that is kept. They are its first ones."""
        self._sizes: dict[bytes, int] = {}
        """By that name, the sum of these bytes."""
        self._used: dict[bytes, int] = {}
        """By that name, the number of messages that refer to the pieces. Commands to which nothing refers are not here."""
        self.at_hand: Whole | None = None
        """The command that is carried out now; None if no command in pieces is."""
        self.bytes = 0
        """Bytes of the pieces in all rows."""

    def arrived(self, command_id: bytes) -> int:
        """Return the number of pieces of a command that are kept. They are its first ones."""
        return len(self._kept.get(_name(command_id), ()))

    def size(self, command_id: bytes) -> int:
        """Return the bytes of the pieces of a command that are kept."""
        return self._sizes.get(_name(command_id), 0)

    def restore(self, key: bytes, row: bytes) -> None:
        """Account for a row from before a restart. Rows of other repetitions do not count."""
        if repetitions.is_count(key):
            self._used[repetitions.command_of(key)] = int.from_bytes(row[_TIME:], "big")
        elif repetitions.is_piece(key):
            self._count(repetitions.command_of(key), len(row) - _TIME)

    def keep(self, command_id: bytes, piece: Piece, until: int) -> bytes:
        """Keep the next piece of a command until a log time. Return the key of its row."""
        key = repetitions.piece(command_id, piece.index)
        self._outbox.write(key, until.to_bytes(_TIME, "big") + piece.content)
        name = _name(command_id)
        self._count(name, len(piece.content))
        if piece.index == 0:
            self._digests[name] = Digest()
        if (digest := self._digests.get(name)) is not None:
            digest.add(piece.content)
        return key

    def digest(self, command_id: bytes, last: bytes) -> bytes:
        """Return the digest of a command with its last piece; b"" if its beginning is not what this release writes."""
        digest = self._digests.pop(_name(command_id), None)
        if digest is None:
            digest = Digest()
            for content in self.contents(command_id, b""):
                digest.add(content)
        digest.add(last)
        return digest.finish()

    def parts(self, command_id: bytes, last: bytes) -> Parts:
        """Return the pieces of a command that are kept, and one more, as its parts. Each piece is read when it is needed."""
        kept = self._kept.get(_name(command_id), [])
        return Parts(
            [*kept, len(last)],
            lambda index: self._row(command_id, index) if index < len(kept) else memoryview(last),
            join,
        )

    def contents(self, command_id: bytes, last: bytes) -> Iterator[memoryview]:
        """Yield the content of each piece of a command that is kept, and that of one more."""
        parts = self.parts(command_id, last)
        for index in range(len(parts.sizes)):
            yield parts.read(index)

    def joined(self, command_id: bytes, last: bytes) -> bytes:
        """Return the content of the pieces of a command that are kept, with that of one more."""
        return join(self.contents(command_id, last))

    def drop(self, command_id: bytes) -> None:
        """Delete the rows of a command."""
        for index in range(self.arrived(command_id)):
            self._outbox.write(repetitions.piece(command_id, index), None)
        self._forget(_name(command_id))

    def forget(self, key: bytes) -> None:
        """Give a command up, because the time of a row is over: it never gets whole. Rows of other repetitions do not count."""
        if repetitions.is_piece(key):
            self._forget(repetitions.command_of(key))

    def hold(self, whole: Whole) -> None:
        """Keep a whole command at hand while it is carried out."""
        self.at_hand = whole

    def let_go(self) -> None:
        """Forget the command at hand."""
        self.at_hand = None

    # -- bodies in the pieces -----------------------------------------------------------------------------

    def is_used(self, key: bytes) -> bool:
        """Return True if something refers to the command of a row."""
        return bool(self._used) and repetitions.is_piece(key) and repetitions.command_of(key) in self._used

    def has_users(self, command_id: bytes) -> bool:
        """Return True if something refers to the pieces of a command."""
        return _name(command_id) in self._used

    def refer(self, command_id: bytes, until: int) -> None:
        """Note that one more message refers to the pieces of a command."""
        self._use(command_id, self._used.get(_name(command_id), 0) + 1, until)

    def release(self, command_id: bytes) -> None:
        """Note that a message does not refer to the pieces of a command any more. After the last one, they are deleted."""
        name = _name(command_id)
        left, key = self._used[name] - 1, repetitions.count(command_id)
        if left:
            until = int.from_bytes((self._outbox.read(key) or b"")[:_TIME], "big")
            self._use(command_id, left, until)
            return
        del self._used[name]
        self._outbox.write(key, None)
        self.drop(command_id)

    def part(self, command_id: bytes, begin: int, end: int) -> bytes:
        """Return some bytes of an encoded command.

        Raises:
            StateDamaged: a piece is missing.
        """
        parts, at = [], 0
        for index, size in enumerate(self._kept.get(_name(command_id), ())):
            if at < end and at + size > begin:
                key = repetitions.piece(command_id, index)
                content = self._outbox.decoded(key, _content, self._outbox.read_once(key) or b"")
                parts.append(content[max(begin - at, 0) : end - at])
            at += size
        return b"".join(parts)

    # -- inside -------------------------------------------------------------------------------------------

    def _row(self, command_id: bytes, index: int) -> memoryview:
        return memoryview(self._outbox.read_once(repetitions.piece(command_id, index)) or b"")[_TIME:]

    def _use(self, command_id: bytes, count: int, until: int) -> None:
        self._used[_name(command_id)] = count
        self._outbox.write(repetitions.count(command_id), until.to_bytes(_TIME, "big") + count.to_bytes(4, "big"))

    def _count(self, name: bytes, size: int) -> None:
        self._kept.setdefault(name, []).append(size)
        self._sizes[name] = self._sizes.get(name, 0) + size
        self.bytes += size

    def _forget(self, name: bytes) -> None:
        self._kept.pop(name, None)
        self._digests.pop(name, None)
        self.bytes -= self._sizes.pop(name, 0)


def _content(row: bytes) -> memoryview:
    if len(row) <= _TIME:
        raise ValueError("a piece of a command is missing")
    return memoryview(row)[_TIME:]


def _name(command_id: bytes) -> bytes:
    """Return the name of a command in the keys of its pieces."""
    return repetitions.command_of(repetitions.piece(command_id, 0))
