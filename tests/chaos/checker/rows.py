"""What the state topics amount to, and what happened to their rows on the way."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

from tests.chaos.checker import avro
from tests.chaos.checker.commands import Commands
from tests.chaos.checker.partitions import partition_of
from tests.chaos.checker.records import Record
from tests.chaos.checker.topics import COMMANDS, DECISIONS, INPUTS, QUEUE, STATE, Topics
from tests.chaos.checker.verdict import Kind, Verdict

Side = tuple[str, bool]
"""Conversation, and whether it is the initiator's side."""
Fields = dict[str, Any]

MILLISECOND = 1_000
DAY = 86_400_000_000
_REMAINS = {b"W": "waiting", b"H": "held", b"D": "delayed", b"R": "parked"}


class Rows:
    """The last row of every key of both services."""

    def __init__(self, topics: Topics, verdict: Verdict) -> None:
        self._topics, self._verdict = topics, verdict
        self.divided_by = topics.plan.divided_by
        self.endpoints: dict[Side, Fields] = {}
        self.tombstones: dict[Side, Fields] = {}
        self.groups: dict[Side, Fields] = {}
        """Rows of groups that are named after one dialog."""
        self.waiting: set[tuple[str, bool, int]] = set()
        """Numbered envelopes kept as rows: conversation, sender's side, number."""
        self.sent: dict[Side, list[range]] = defaultdict(list)
        """Numbers of the envelopes that a side keeps until they are acknowledged, row by row."""
        self.partitions: dict[tuple[str, int], Fields] = {}
        self.decided: dict[tuple[str, int], int] = {}
        """The position in the decisions; a partition without such a row has read none."""
        self.letters: set[tuple[str, int, bytes]] = set()
        """Keys of the rows of open letters, with their service and partition."""
        self.command_rows: dict[tuple[str, int], int] = defaultdict(int)
        self.left = 0
        for service in topics.services:
            for number, records in _by_partition(topics.of(service, STATE)):
                self._replay(service, number, records)

    # -- reading ----------------------------------------------------------------------------------------------

    def _replay(self, service: str, number: int, records: list[Record]) -> None:
        table: dict[bytes, Record] = {}
        closed: dict[bytes, bytes] = {}
        """Endpoint keys whose last row was a tombstone, and that."""
        forgotten: list[tuple[bytes, bytes]] = []
        for record in records:
            key = record.key or b""
            if key[:1] == b"E":
                self._watch(service, record, closed, forgotten)
            elif key == b"P" and forgotten:
                self._check_forgotten(service, record, forgotten)
                forgotten.clear()
            table[key] = record
        for key, record in table.items():
            if record.value is not None:
                self._row(service, number, key, record)

    def _watch(
        self, service: str, record: Record, closed: dict[bytes, bytes], forgotten: list[tuple[bytes, bytes]]
    ) -> None:
        """A tombstone stays until its time: nothing may follow it but itself, or its deletion."""
        key, value = record.key or b"", record.value
        before = closed.get(key)
        if value is None:
            if before is not None:
                forgotten.append((key, before))
        elif value.startswith(avro.TOMBSTONE.head):
            closed[key] = value
        elif before is not None:
            self._verdict.add(
                Kind.ROW_REVIVED,
                f"{_name(key)} at {service}",
                f"an endpoint row at {record.position} after its tombstone",
            )

    def _check_forgotten(self, service: str, record: Record, forgotten: list[tuple[bytes, bytes]]) -> None:
        fields = self._decode(avro.PARTITION, record)
        for key, value in forgotten:
            tombstone = avro.TOMBSTONE.decode(value)
            forget_at = int.from_bytes(tombstone["forget_at"], "big")
            if fields is not None and forget_at > fields["queue_time"]:
                what = f"its time was {forget_at}, log time was {fields['queue_time']}"
                self._verdict.add(Kind.TOMBSTONE_EARLY, f"{_name(key)} at {service}", what)

    def _decode(self, schema: avro.Schema, record: Record) -> Fields | None:
        try:
            return schema.decode(record.value or b"")
        except avro.Undecodable as error:
            self._verdict.add(Kind.ROW_BROKEN, str(record.position), str(error))
            return None

    def _row(self, service: str, number: int, key: bytes, record: Record) -> None:
        reader: dict[bytes, Callable[[str, int, bytes, Record], None]] = {
            b"E": self._endpoint, b"G": self._group, b"W": self._remains, b"H": self._remains, b"D": self._remains,
            b"R": self._remains, b"U": self._unacknowledged, b"P": self._partition, b"I": self._decided, b"K": self._command, b"L": self._letter,
        }  # fmt: skip
        if key[:1] in reader:
            reader[key[:1]](service, number, key, record)
        else:
            self._verdict.add(Kind.ROW_BROKEN, str(record.position), f"a row of no known kind: {key[:40].hex()}")

    def _endpoint(self, service: str, number: int, key: bytes, record: Record) -> None:
        closed = (record.value or b"").startswith(avro.TOMBSTONE.head)
        fields = self._decode(avro.TOMBSTONE if closed else avro.ENDPOINT, record)
        if fields is None:
            return
        side = str(UUID(bytes=key[1:17])), key[17:] == b"\1"
        if side in self.endpoints or side in self.tombstones:
            self._verdict.add(Kind.ROW_REVIVED, f"{_name(key)} at {service}", "it has a row in two partitions")
        (self.tombstones if closed else self.endpoints)[side] = fields
        self._check_place(service, number, fields["key"].encode(), record)

    def _group(self, service: str, number: int, key: bytes, record: Record) -> None:
        fields = self._decode(avro.GROUP, record)
        _, _, name = key[1:].partition(b"\0")
        if fields is not None:
            self.groups[name.decode("utf-8", "replace"), service == self._topics.plan.initiator] = fields
        self._check_place(service, number, name, record)

    def _check_place(self, service: str, number: int, key: bytes, record: Record) -> None:
        right = partition_of(key, self._topics.partitions(service))
        if right != number:
            self._verdict.add(Kind.WRONG_PARTITION, str(record.position), f"a row of partition {right}")

    def _remains(self, service: str, number: int, key: bytes, record: Record) -> None:
        self.left += 1
        fields = self._decode(avro.WAITING, record)
        what = f"{_REMAINS[key[:1]]} row {key.hex()} in partition {number} of {service}"
        if fields is not None:
            what += f", of {fields['topic']} offset {fields['offset']}"
            try:
                envelope = avro.ENVELOPE.decode(fields["value"])
            except avro.Undecodable:
                pass
            else:
                conversation = str(UUID(bytes=envelope["conversation_id"]))
                self.waiting.add((conversation, envelope["from_initiator"], envelope["seq"]))
                what += f": number {envelope['seq']} of {conversation}"
        self._verdict.add(Kind.WAITING_LEFT, str(record.position), what)

    def _unacknowledged(self, service: str, number: int, key: bytes, record: Record) -> None:
        fields = self._decode(avro.UNACKNOWLEDGED, record)
        if fields is not None:
            first = int.from_bytes(key[18:], "big")
            self.sent[str(UUID(bytes=key[1:17])), key[17:18] == b"\1"].append(
                range(first, first + len(fields["tails"]))
            )

    def _partition(self, service: str, number: int, key: bytes, record: Record) -> None:
        fields = self._decode(avro.PARTITION, record)
        if fields is not None:
            self.partitions[service, number] = fields

    def _command(self, service: str, number: int, key: bytes, record: Record) -> None:
        self.command_rows[service, number] += 1

    def _decided(self, service: str, number: int, key: bytes, record: Record) -> None:
        """It says up to where the decisions of the partition were read: eight bytes, and the id of their topic."""
        if key != b"I" or len(record.value or b"") < 8:
            self._verdict.add(Kind.ROW_BROKEN, str(record.position), f"no row of decisions: {key[:40].hex()}")
        self.decided[service, number] = int.from_bytes((record.value or b"")[:8], "big")

    def _letter(self, service: str, number: int, key: bytes, record: Record) -> None:
        """It says until when the letter of some offset is open."""
        self.letters.add((service, number, key))
        if len(key) != 18 or key[1:2] not in (b"q", b"c", b"d") or len(record.value or b"") != 8:
            self._verdict.add(Kind.ROW_BROKEN, str(record.position), f"no row of an open letter: {key[:40].hex()}")

    # -- positions --------------------------------------------------------------------------------------------

    def read_to(self, service: str, number: int) -> int:
        """Up to which offset of its queue a partition was read; to the end when its row, which says so, is missing."""
        fields = self.partitions.get((service, number))
        return fields["queue"] if fields is not None else 1 << 62

    def check_partitions(self, commands: Commands) -> None:
        """Compare what each partition says about itself with its topics."""
        for service in self._topics.services:
            latest = self._latest(service)
            for number in range(self._topics.partitions(service)):
                self._check_partition(service, number, latest.get(number, 0), commands)
                self._check_commands(service, number, commands)

    def _latest(self, service: str) -> dict[int, int]:
        found: dict[int, int] = {}
        for record in self._topics.of(service, QUEUE):
            found[record.partition] = max(found.get(record.partition, 0), record.timestamp)
        return found

    def _check_partition(self, service: str, number: int, latest: int, commands: Commands) -> None:
        fields = self.partitions.get((service, number))
        where = f"partition {number} of {service}"
        for kind in INPUTS:
            place = self._topics.name(service, kind), number
            last, end = self._topics.last.get(place, -1), self._topics.log.ends.get(place, 0)
            at = self.decided.get((service, number), 0) if kind == DECISIONS else (fields or {}).get(kind, 0)
            if fields is None:
                if last >= 0:
                    self._verdict.add(Kind.PARTITION_MISSING, where, f"{kind} has records up to {last}")
            elif at > end:
                self._verdict.add(Kind.PARTITION_AHEAD, where, f"{kind} position {at}, the topic ends at {end}")
            elif at <= last and not (kind == COMMANDS and commands.are_done(service, number, at)):
                what = f"{kind} position {at}, the topic's last record is {last}"
                self._verdict.add(Kind.PARTITION_BEHIND, where, what)
        if fields is not None and fields["off"]:
            self._verdict.add(Kind.QUEUE_OFF, where, f"{fields['off']}: {fields['off_reason']}")
        if fields is not None and fields["queue"] > self._topics.last.get(
            (self._topics.name(service, QUEUE), number), -1
        ):
            self._check_time(where, fields["queue_time"], latest * MILLISECOND)

    def _check_time(self, where: str, says: int, latest: int) -> None:
        """Only an hourly tick may move log time past the last record."""
        if says < latest:
            self._verdict.add(Kind.LOG_TIME, where, f"{says}, its queue's last record is of {latest}")
        elif latest and says - latest > DAY / self.divided_by:
            self._verdict.add(Kind.LOG_TIME, where, f"{says} is more than a day after the last record, {latest}")

    def _check_commands(self, service: str, number: int, commands: Commands) -> None:
        wanted, there = commands.keys.get((service, number), 0), self.command_rows[service, number]
        if commands.last - commands.first < DAY / self.divided_by and there < wanted:
            what = f"{there} rows of commands that took effect, {wanted} did"
            self._verdict.add(Kind.COMMAND_ROW, f"partition {number} of {service}", what)


def _by_partition(records: list[Record]) -> Iterator[tuple[int, list[Record]]]:
    found: dict[int, list[Record]] = defaultdict(list)
    for record in records:
        found[record.partition].append(record)
    return iter(found.items())


def _name(key: bytes) -> str:
    return str(UUID(bytes=key[1:17])) if len(key) == 18 else key.hex()
