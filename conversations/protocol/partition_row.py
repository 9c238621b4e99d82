"""The row of a partition: its positions and counts, which must survive a process."""

from __future__ import annotations

from dataclasses import dataclass, field

from conversations import schemas
from conversations.protocol.registry import DEFAULT, Schema

_PARTITION = Schema(schemas.load("partition", schemas.newest("partition")))


@dataclass(slots=True)
class PartitionRow:
    """The facts about a queue partition itself that its owner keeps."""

    queue: int = 0
    commands: int = 0
    queue_id: str = ""
    commands_id: str = ""
    state_id: str = ""
    queue_time: int = 0
    clean: bool = True
    bound: int = 0
    unclean_starts: int = 0
    rollbacks: int = 0
    state_version: int = 0
    announced: list[str] = field(default_factory=list)
    """Records at work since an unclean start; they are committed before they run."""
    alone: bool = False
    """It runs alone."""
    process: str = ""
    """Which process announced it."""
    deaths: dict[str, int] = field(default_factory=dict)
    """By announced record: how many processes died with nothing else at work."""
    off: str = ""
    """Why its queue is off; empty while it is on."""
    off_since: int = 0
    off_by: str = ""
    off_reason: str = ""

    def announce(self, names: list[str], *, alone: bool) -> None:
        """Name the records that are handled next, so that a process that dies of one leaves its name."""
        self.announced, self.alone = names, alone

    def hand_over(self, process: str) -> None:
        """This process announces from now on."""
        self.process = process


def record_name(topic: str, offset: int) -> str:
    """Name a record, as ``announced`` does, by what stays the same in every process that reads it."""
    return f"{topic.rpartition('.')[2]}-{offset}"


def encode_partition(row: PartitionRow) -> bytes:
    """Encode the partition row."""
    return _PARTITION.encode({name: getattr(row, name) for name in row.__slots__})


def decode_partition(row: bytes) -> PartitionRow:
    """Decode the partition row.

    Raises:
        UndecodableRecord: it is none.
    """
    return PartitionRow(**DEFAULT.decode(row, _PARTITION))
