"""The progress of a partition: its row with the positions and counts, and its bounds.

The positions in the row decide. Every record before a position has taken effect in a committed transaction, or is kept as a row. The
consumer group's offset is only a fence. With this fence, Kafka refuses commits of a former owner. The row also has the values that must
survive a process: the number of unclean starts, the number of consecutive rollbacks, and the queue switch.

The position in the decisions is in a row of its own, which is written only with a decision. Without the row, the first decision has not come.

A start is **unclean** if the row does not say that the last owner gave the partition back cleanly. The **bounds** are the end offsets of
the queue, the commands and the decisions at the start. After an unclean start, a record before the bounds may have killed the last process
(``suspicion``). When all these records are settled, the unclean start no longer counts.
"""

from __future__ import annotations

from conversations.protocol.partition_row import Decided, PartitionRow, encode_decided, encode_partition
from conversations.protocol.topics import COMMANDS, DECISIONS, kind_of


class Progress:
    """The row of a partition, and whether the row must be written."""

    __slots__ = ("bounds", "decided", "has_decided", "is_changed", "opened_at", "row")

    def __init__(self) -> None:
        self.row = PartitionRow()
        self.is_changed = False
        """True if the row must be written: a position or another field has changed."""
        self.decided = Decided()
        self.has_decided = False
        """True if the row of the position in the decisions must be written."""
        self.bounds = {COMMANDS: 0, DECISIONS: 0}
        """Bounds of the commands and of the decisions. The bound of the queue is ``row.bound``."""
        self.opened_at = 0
        """Time at which the partition was opened. Deadlines up to this time are from before the start."""

    def change(self) -> None:
        """Write the row with the next transaction."""
        self.is_changed = True

    def depart(self) -> bytes:
        """Encode the row for the transaction of the step that is being closed."""
        self.is_changed = False
        return encode_partition(self.row)

    def depart_decided(self) -> bytes:
        """Encode the row of the position in the decisions for the transaction of the step that is being closed."""
        self.has_decided = False
        return encode_decided(self.decided)

    # -- opening ------------------------------------------------------------------------------------------

    def restore(self, row: PartitionRow) -> None:
        """Continue from a committed row."""
        self.row = row

    def restore_decided(self, row: Decided) -> None:
        """Continue from a committed position in the decisions."""
        self.decided = row

    def open(self, queue_end: int, bounds: dict[str, int], now: int) -> None:
        """Open the partition: count an unclean start, note the bounds, and mark the row as not given back.

        ``bounds`` has the ends of the commands and of the decisions.
        """
        self.row.unclean_starts = 0 if self.row.clean else self.row.unclean_starts + 1
        self.row.bound, self.bounds, self.opened_at = queue_end, bounds, now
        self.row.clean = False
        self.is_changed = True

    def belongs_to(self, queue_id: str, commands_id: str, decisions_id: str, state_id: str) -> None:
        """Note the ids of the topics that the rows belong to."""
        self.row.queue_id, self.row.commands_id, self.row.state_id = queue_id, commands_id, state_id
        self.decided = Decided(self.decided.position, decisions_id)

    def heard(self, now: int) -> None:
        """If ``opened_at`` is later than ``now``, set ``opened_at`` to ``now``. The machine's clock may have been ahead at the opening."""
        self.opened_at = min(self.opened_at, now)

    def trust(self) -> None:
        """Clear the announced names and the deaths: nothing is suspect (any more)."""
        self.row.announced, self.row.deaths = [], {}

    def leave_the_past(self) -> None:
        """Set the number of unclean starts to 0: everything from before the last start is settled."""
        self.row.unclean_starts = 0
        self.trust()
        self.is_changed = True

    def give_back(self) -> None:
        """Mark the partition as given back cleanly. The row is written with the last transaction."""
        self.row.clean = self.is_changed = True
        self.row.announced = []

    # -- reading ------------------------------------------------------------------------------------------

    def take(self, offset: int, log_time: int) -> None:
        """Move the queue's position behind a record. If the record is later than log time, move log time forward to the record's time."""
        self.row.queue = offset + 1
        self.is_changed = True
        self.row.queue_time = max(self.row.queue_time, log_time)

    def skip(self, offset: int) -> None:
        """Move the queue's position behind a record that is set aside and not decoded."""
        self.take(offset, self.row.queue_time)

    def take_command(self, topic: str, offset: int) -> None:
        """Move the position in the commands, or in the decisions, behind a record."""
        if kind_of(topic) == DECISIONS:
            self.decided = Decided(offset + 1, self.decided.topic_id)
            self.has_decided = True
        else:
            self.row.commands = offset + 1
        self.is_changed = True

    def position(self, kind: str) -> int:
        """Return the position in the commands or in the decisions."""
        return self.decided.position if kind == DECISIONS else self.row.commands

    def is_from_before(self, topic: str, offset: int) -> bool:
        """Return True if a record of the commands or the decisions is from before the start."""
        return offset < self.bounds[kind_of(topic)]

    def pass_time(self, log_time: int) -> None:
        """Advance log time on a queue that nobody writes to."""
        self.row.queue_time = log_time
        self.is_changed = True

    # -- handling -----------------------------------------------------------------------------------------

    def rolled_back(self) -> int:
        """Count a rollback; return the number of consecutive rollbacks."""
        self.row.rollbacks += 1
        self.is_changed = True
        return self.row.rollbacks

    def succeeded(self) -> None:
        """Set the number of consecutive rollbacks to 0, because a handler succeeded."""
        self.row.rollbacks = 0

    def turn_off(self, cause: str, by: str, reason: str, now: int) -> None:
        """Note that the queue is off, with the cause."""
        self.row.off, self.row.off_since = cause, now
        self.row.off_by, self.row.off_reason = by, reason
        self.is_changed = True

    def turn_on(self) -> None:
        """Note that the queue is on again."""
        self.row.off = self.row.off_by = self.row.off_reason = ""
        self.row.off_since = self.row.rollbacks = 0
        self.is_changed = True

    def keep_state(self, version: int) -> None:
        """Note that code of this version wrote the state of a group. The row keeps the newest version."""
        self.row.state_version = max(self.row.state_version, version)
