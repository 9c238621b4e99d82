"""Rows of state topics that a test makes itself, in the form that ``spark_jobs.reading.rows.read_rows`` returns."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from pyspark.sql import DataFrame, SparkSession

from conversations.protocol import rows
from conversations.protocol.endpoint import NEVER, Endpoint
from conversations.protocol.envelope import Envelope, Kind, Prefix, encode
from conversations.protocol.identifiers import uuid7
from conversations.protocol.park_row import ParkRow, encode_park
from conversations.protocol.partition_row import PartitionRow, encode_partition
from conversations.protocol.states import State
from conversations.protocol.waiting_row import WaitingRow, encode_waiting

SCHEMA = (
    "service string, partition int, row string, conversation_id string, initiator boolean, number bigint, key binary,"
    " value binary, offset bigint, written_at timestamp"
)


class StateRows:
    """Rows of the state of services. Each row is written at the time ``now``, or ``ago`` before it."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self._rows: list[tuple[Any, ...]] = []

    def frame(self, spark: SparkSession) -> DataFrame:
        return spark.createDataFrame(self._rows, SCHEMA)

    def begin(self, ago: timedelta, number: int = 0) -> UUID:
        """Return a conversation id that was made ``ago`` before ``now``."""
        return uuid7(self._micros(ago), number)

    def endpoint(
        self, dialog: UUID, service: str = "desk", *, initiator: bool = False, state: State = State.CONVERSING,
        sent: int = 0, acked: int = 0, expires_in: timedelta | None = None, timer: str = "",
    ) -> None:  # fmt: skip
        """Add an endpoint of a dialog with "clerk". It has sent ``sent`` messages, of which ``acked`` are acknowledged. It is a minute old."""
        expires = NEVER if expires_in is None else self._micros(-expires_in)
        made = Endpoint(
            dialog.bytes, initiator, contract="Tasks", service=service, peer="clerk", key=str(dialog), peer_key=str(dialog),
            expires_at=expires,
        )  # fmt: skip
        made.state, made.next_out, made.acked = state, sent, acked - 1
        if timer:
            made.set_timer(self._micros(timedelta()), timer)
        value = rows.encode_endpoint(made, rows.encode_constant(made))
        self.put(rows.ENDPOINT + rows.identity(dialog.bytes, initiator), value, service, ago=timedelta(minutes=1))

    def tombstone(self, dialog: UUID, service: str = "desk") -> None:
        made = rows.Tombstone(str(dialog), "clerk", 0, 0, 0, 0, 0, told=True, code=0)
        self.put(rows.ENDPOINT + rows.identity(dialog.bytes, False), rows.encode_tombstone(made), service)

    def park(
        self, dialog: UUID, row: ParkRow, service: str = "desk", *, offset: int = 7, timer: str | None = None
    ) -> None:
        """Add a parked dialog whose head is a Task from this offset of the queue; with ``timer`` the handler of the timer with this name that waits."""
        own = rows.identity(dialog.bytes, False)
        if timer is not None:
            self.put(rows.RETRY + own + rows.timer_handler(timer), encode_park(row), service)
            return
        self.put(rows.PARK + own, encode_park(row), service)
        prefix = Prefix(dialog.bytes, True, "Tasks", "clerk", service, str(dialog), False, 0, -1)
        task = Envelope(prefix, Kind.MESSAGE, 3, -1, message_type="Task", content_type="application/json", body=b"{}")
        head = WaitingRow(f"conv.{service}.queue", offset, 0, True, 4, b"k", b"", encode(task))
        self.put(rows.numbered(rows.PARKED, own, row.first), encode_waiting(head), service)

    def delayed(self, dialog: UUID, ago: timedelta, *numbers: int) -> None:
        for number in numbers:
            self.put(rows.numbered(rows.DELAYED, rows.identity(dialog.bytes, False), number), b"...", ago=ago)

    def letter(self, topic: str, offset: int, service: str = "desk") -> None:
        self.put(rows.letter_key(topic, offset), bytes(8), service)

    def queue(self, row: PartitionRow, service: str = "desk") -> None:
        self.put(rows.PARTITION, encode_partition(row), service)

    def put(self, key: bytes, value: bytes, service: str = "desk", ago: timedelta = timedelta()) -> None:
        kind = key[:1].decode()
        sided = kind in "EHDFRT"
        number = None
        if kind in "HDR":
            number = int.from_bytes(key[18:26], "big")
        elif kind == "L":
            number = int.from_bytes(key[2:10], "big")
        self._rows.append((
            service, 0, kind, str(UUID(bytes=key[1:17])) if sided else None, key[17] == 1 if sided else None, number,
            bytearray(key), bytearray(value), len(self._rows), self.now - ago,
        ))  # fmt: skip

    def since(self, ago: timedelta) -> int:
        """Return the time ``ago`` before ``now``, in microseconds since 1970, as rows have it."""
        return self._micros(ago)

    def _micros(self, ago: timedelta) -> int:
        return int((self.now - ago).timestamp() * 1_000_000)
