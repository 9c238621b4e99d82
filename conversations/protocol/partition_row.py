"""The row of a partition: its positions and counts, which must outlive the worker's process."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from conversations import schemas
from conversations.protocol.registry import DEFAULT, Schema

_PARTITION = Schema(schemas.load("partition", schemas.newest("partition")))


@dataclass(slots=True)
class PartitionRow:
    """The facts that the owner of a partition keeps about the partition as a whole."""

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
    """Names of the records that are announced after an unclean start.

    The names are committed here before the records are decoded or handled.
    """
    alone: bool = False
    """True if the announced record runs alone."""
    process: str = ""
    """The process that announced the records."""
    deaths: dict[str, int] = field(default_factory=dict)
    """For each announced record, by name: the number of processes that died while the record ran alone."""
    off: str = ""
    """Why the queue is off: ``operator``, ``policy`` or ``rollbacks``; empty while it is on."""
    off_since: int = 0
    off_by: str = ""
    off_reason: str = ""

    def announce(self, names: list[str], *, alone: bool) -> None:
        """Announce the records that are handled next. So if one of them kills the process, the row still has its name."""
        self.announced, self.alone = names, alone

    def hand_over(self, process: str) -> None:
        """Set the process that announces records from now on."""
        self.process = process


def record_name(topic: str, offset: int) -> str:
    """Return the name of a record in ``announced``. It is the same in every process that reads the record."""
    return f"{topic.rpartition('.')[2]}-{offset}"


class Decided(NamedTuple):
    """The position in a partition's decisions: the offset of the next record, and the id of the topic.

    It is a row of its own. A release that does not know it keeps the row as it is, and would drop a field of ``PartitionRow``.
    """

    position: int = 0
    topic_id: str = ""


def encode_decided(row: Decided) -> bytes:
    """Encode the position in the decisions: 8 bytes, and the text of the topic id."""
    return row.position.to_bytes(8, "big") + row.topic_id.encode()


def decode_decided(row: bytes) -> Decided:
    """Decode the position in the decisions.

    Raises:
        ValueError: the bytes are not such a row.
    """
    if len(row) < 8:
        raise ValueError(f"a row with a position in the decisions has at least 8 bytes, this one has {len(row)}")
    return Decided(int.from_bytes(row[:8], "big"), row[8:].decode())


def encode_partition(row: PartitionRow) -> bytes:
    """Encode the partition row."""
    return _PARTITION.encode({name: getattr(row, name) for name in row.__dataclass_fields__})


def decode_partition(row: bytes) -> PartitionRow:
    """Decode the partition row.

    Raises:
        UndecodableRecord: the bytes are not a partition row.
    """
    return PartitionRow(**DEFAULT.decode(row, _PARTITION))
