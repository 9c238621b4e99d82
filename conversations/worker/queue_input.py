"""The input from the queue of one partition: the records that were read but not routed yet, and the pause of the input."""

from __future__ import annotations

from collections.abc import Sequence

from conversations.ports import Record


class QueueInput:
    """The records of a queue partition that were read but not routed yet, in the order of offsets.

    A record is routed when it is put into a lane, or set aside.
    """

    __slots__ = ("is_behind", "paused", "unread")

    def __init__(self) -> None:
        self.unread: list[Record] = []
        self.paused = False
        """True while too many bytes wait in rows. Then no more records of the queue are routed."""
        self.is_behind = False
        """True if some records were read but not routed yet. The position is before these records.

        The records are in ``unread``, or in the worker's backlog.
        """

    def pause(self) -> None:
        """Route no more records of the queue."""
        self.paused = True

    def resume(self) -> None:
        """Route records of the queue again."""
        self.paused = False

    def leave(self) -> None:
        """Note that a record was read, and is left for a later step."""
        self.is_behind = True

    def keep(self, record: Record) -> None:
        """Keep a record until the pause is over."""
        self.unread.append(record)
        self.is_behind = True

    def flow(self, *, is_held: bool) -> Sequence[Record]:
        """Begin a step: return the unread records and clear the list. If the input is held, keep them and return no records."""
        self.is_behind = bool(self.unread) and is_held
        if is_held:
            return ()
        unread, self.unread = self.unread, []
        return unread
