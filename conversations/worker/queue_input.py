"""Records of a partition's queue that are at hand and not taken, and whether the input that they came from is paused."""

from __future__ import annotations

from collections.abc import Sequence

from conversations.ports import Record


class QueueInput:
    """Records of a queue that were read before its input paused, in their order."""

    __slots__ = ("is_behind", "paused", "unread")

    def __init__(self) -> None:
        self.unread: list[Record] = []
        self.paused = False
        """Too many bytes wait in rows: nothing more of the queue is taken."""
        self.is_behind = False
        """There are records at hand that were not taken, here or with the worker: not everything that was read counts."""

    def pause(self) -> None:
        """Take nothing more of the queue."""
        self.paused = True

    def resume(self) -> None:
        """Let the input flow again."""
        self.paused = False

    def leave(self) -> None:
        """Note that something at hand is not taken."""
        self.is_behind = True

    def keep(self, record: Record) -> None:
        """Keep a record until the input flows again."""
        self.unread.append(record)
        self.is_behind = True

    def flow(self, *, is_held: bool) -> Sequence[Record]:
        """Begin a step: take out the unread records, none while the input is held."""
        self.is_behind = bool(self.unread) and is_held
        if is_held:
            return ()
        unread, self.unread = self.unread, []
        return unread
