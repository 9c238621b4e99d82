"""The progress of a partition: how far it has come, as its own row says, and how far it must come to have left the past behind.

The row is the truth about positions: everything read up to them took effect in the transaction that wrote them, or is kept as a
row beside them. The consumer group's offset is only the fence. The row also counts what must survive a process: starts that
followed no orderly end, rollbacks in a row, and whether the queue is switched off.

A start is **unclean** when the row does not say that the partition was given back in order. Then two bounds are noted: the ends of
queue and commands at that moment. What lies before the bounds may be what ended the last process (``suspicion``). Once everything
before them is settled the start no longer counts.
"""

from __future__ import annotations

from conversations.protocol.partition_row import PartitionRow, encode_partition


class Progress:
    """The row of a partition, and whether it is to be written."""

    __slots__ = ("commands_bound", "is_changed", "opened_at", "row")

    def __init__(self) -> None:
        self.row = PartitionRow()
        self.is_changed = False
        """The row must be written: a position moved, or something else of it."""
        self.commands_bound = 0
        """Offset of the commands up to which a crash may lie; of the queue it is ``row.bound``."""
        self.opened_at = 0
        """When it was opened: deadlines up to then are from before."""

    def change(self) -> None:
        """Write the row with the next transaction."""
        self.is_changed = True

    def depart(self) -> bytes:
        """Encode the row for the transaction that is closed now."""
        self.is_changed = False
        return encode_partition(self.row)

    # -- opening ------------------------------------------------------------------------------------------

    def restore(self, row: PartitionRow) -> None:
        """Go on from a row that is committed."""
        self.row = row

    def open(self, queue_end: int, commands_end: int, now: int) -> None:
        """Take the partition up: until it is given back, its row says that it was not."""
        self.row.unclean_starts = 0 if self.row.clean else self.row.unclean_starts + 1
        self.row.bound, self.commands_bound, self.opened_at = queue_end, commands_end, now
        self.row.clean = False
        self.is_changed = True

    def belongs_to(self, queue_id: str, commands_id: str, state_id: str) -> None:
        """Note which topics the row belongs to."""
        self.row.queue_id, self.row.commands_id, self.row.state_id = queue_id, commands_id, state_id

    def heard(self, now: int) -> None:
        """It is no later than this, by the log's time: the machine's clock may have been ahead when the partition was opened."""
        self.opened_at = min(self.opened_at, now)

    def trust(self) -> None:
        """Nothing from before the partition was opened is suspect, or not any more."""
        self.row.announced, self.row.deaths = [], {}

    def leave_the_past(self) -> None:
        """Everything from before an unclean start is settled: the start no longer counts."""
        self.row.unclean_starts = 0
        self.trust()
        self.is_changed = True

    def give_back(self) -> None:
        """The partition is given back in order, with its last transaction."""
        self.row.clean = self.is_changed = True
        self.row.announced = []

    # -- reading ------------------------------------------------------------------------------------------

    def take(self, offset: int, log_time: int) -> None:
        """A record of the queue is taken."""
        self.row.queue = offset + 1
        self.is_changed = True
        self.row.queue_time = max(self.row.queue_time, log_time)

    def skip(self, offset: int) -> None:
        """A record of the queue is set aside without looking into it."""
        self.take(offset, self.row.queue_time)

    def take_command(self, offset: int) -> None:
        """A record of the commands is taken, or set aside."""
        self.row.commands = offset + 1
        self.is_changed = True

    def pass_time(self, log_time: int) -> None:
        """Log time has come so far on a queue nobody writes to."""
        self.row.queue_time = log_time
        self.is_changed = True

    # -- handling -----------------------------------------------------------------------------------------

    def rolled_back(self) -> int:
        """Count a rollback; return how many there were in a row."""
        self.row.rollbacks += 1
        self.is_changed = True
        return self.row.rollbacks

    def succeeded(self) -> None:
        """A handler succeeded: no rollbacks are in a row."""
        self.row.rollbacks = 0

    def turn_off(self, cause: str, by: str, reason: str, now: int) -> None:
        """The queue is off from now on."""
        self.row.off, self.row.off_since = cause, now
        self.row.off_by, self.row.off_reason = by, reason
        self.is_changed = True

    def turn_on(self) -> None:
        """The queue is on again."""
        self.row.off = self.row.off_by = self.row.off_reason = ""
        self.row.off_since = self.row.rollbacks = 0
        self.is_changed = True

    def keep_state(self, version: int) -> None:
        """Code of this version wrote the state of a group."""
        self.row.state_version = max(self.row.state_version, version)
