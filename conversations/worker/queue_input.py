"""The queue's input of one partition: the records that were read and not taken on, and its pause."""

from __future__ import annotations

from collections.abc import Sequence

from conversations.ports import Record


class QueueInput:
    """The records of a queue that were read and not taken on, in their order."""

    __slots__ = ("is_behind", "paused", "unread")

    def __init__(self) -> None:
        self.unread: list[Record] = []
        self.paused = False
        """True while too many bytes wait in rows: no more records of the queue are taken on."""
        self.is_behind = False
        """True if records were read and not taken on; they are here or in the worker's backlog. Then the position is behind the reading."""

    def pause(self) -> None:
        """Take on no more records of the queue."""
        self.paused = True

    def resume(self) -> None:
        """Let the input flow again."""
        self.paused = False

    def leave(self) -> None:
        """Note that a record was read and not taken on."""
        self.is_behind = True

    def keep(self, record: Record) -> None:
        """Keep a record until the input flows again."""
        self.unread.append(record)
        self.is_behind = True

    def flow(self, *, is_held: bool) -> Sequence[Record]:
        """Begin a step: return the unread records and keep them no longer; while the input is held, return none."""
        self.is_behind = bool(self.unread) and is_held
        if is_held:
            return ()
        unread, self.unread = self.unread, []
        return unread
