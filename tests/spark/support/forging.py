"""The records of one dialog in the topics of a namespace, and functions that change them as no service would."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from conversations import schemas
from conversations.protocol import rows
from conversations.protocol.envelope import Envelope, decode, encode
from conversations.protocol.registry import DEFAULT, Schema
from conversations.protocol.waiting_row import WaitingRow, encode_waiting
from tests.chaos.checker.records import Record
from tests.spark.support.topics import Headers, Topics

ENDPOINT, TOMBSTONE, PARTITION, PARK = (
    Schema(schemas.load(name, schemas.newest(name))) for name in ("endpoint", "tombstone", "partition", "park")
)
WEB, DESK = "web", "desk"


class Dialog:
    """One dialog of a run, with functions that change its records."""

    def __init__(self, topics: Topics, dialog: str, web: str = WEB, desk: str = DESK) -> None:
        self.topics, self.id = topics, dialog
        self.web, self.desk = web, desk
        """Services of the initiator and of the target."""
        self.bytes = UUID(dialog).bytes

    # -- on the wire --------------------------------------------------------------------------------------------------

    def wire(self, number: int, *, to_target: bool = True) -> Record:
        """Return the first record of a direction with this number."""
        for record in sorted(self.topics.of(self.desk if to_target else self.web, "queue"), key=lambda it: it.offset):
            if (record.value or b"")[10:26] == self.bytes and len(record.value or b"") > 100:
                envelope = decode(record.value or b"")
                if envelope.seq == number:
                    return record
        raise LookupError(f"number {number} of {self.id}")

    def last(self, *, to_target: bool = True) -> Record:
        """Return the record of a direction with the highest number."""
        records = self.topics.of(self.desk if to_target else self.web, "queue")
        mine = [it for it in records if (it.value or b"")[10:26] == self.bytes]
        return max(mine, key=lambda it: decode(it.value or b"").seq)

    def like(self, record: Record, **changes: Any) -> Record:
        """Return a copy of a record with changed fields."""
        envelope: Envelope = decode(record.value or b"")
        for name, value in changes.items():
            setattr(envelope, name, value)
        return record._replace(value=encode(envelope))

    def replace(self, record: Record, changed: Record) -> None:
        """Replace a record by another record."""
        self.topics.records[self.topics.records.index(record)] = changed

    def lose(self, record: Record) -> None:
        """Remove a record and every copy of it."""
        same = (record.topic, record.value)
        self.topics.records[:] = [it for it in self.topics.records if (it.topic, it.value) != same]

    def send(self, record: Record) -> Record:
        """Append a record to the partition of another one."""
        return self.topics.append(record.topic, record.partition, record.key, record.value, record.headers)

    # -- in the state -------------------------------------------------------------------------------------------------

    def key(self, kind: bytes, *, initiator: bool = False) -> bytes:
        return kind + self.bytes + (b"\1" if initiator else b"\0")

    def rows(self, key: bytes, *, initiator: bool = False) -> list[Record]:
        """Return all records of the state topic whose key begins with ``key``, in the order of offsets."""
        state = self.topics.of(self.web if initiator else self.desk, "state")
        return sorted((row for row in state if (row.key or b"").startswith(key)), key=lambda it: it.offset)

    def write(self, key: bytes, value: bytes | None, *, initiator: bool = False) -> None:
        """Append a row to the state topic, in the partition of the side."""
        (partition,) = {row.partition for row in self.rows(self.key(b"E", initiator=initiator), initiator=initiator)}
        self.topics.append(self.topics.name(self.web if initiator else self.desk, "state"), partition, key, value)

    def drop(self, key: bytes, *, initiator: bool = False) -> None:
        """Remove all records of the state topic whose key begins with ``key``."""
        for row in self.rows(key, initiator=initiator):
            self.topics.records.remove(row)

    def end(self, *, initiator: bool = False) -> tuple[Schema, dict[str, Any]]:
        """Return the schema and the fields of the endpoint's newest row."""
        row = self.rows(self.key(b"E", initiator=initiator), initiator=initiator)[-1].value or b""
        schema = TOMBSTONE if rows.is_tombstone(row) else ENDPOINT
        return schema, DEFAULT.decode(row, schema)

    def turn(self, *, initiator: bool = False, **changes: Any) -> None:
        """Append the endpoint's row with changed fields, and then unchanged. So the history of the row has a step back."""
        schema, fields = self.end(initiator=initiator)
        key = self.key(b"E", initiator=initiator)
        self.write(key, schema.encode(fields | changes), initiator=initiator)
        self.write(key, schema.encode(fields), initiator=initiator)

    def lie(self, *, initiator: bool = False, **changes: Any) -> None:
        """Change fields of the endpoint's newest row, and remove its older rows. So the history shows no change."""
        schema, fields = self.end(initiator=initiator)
        assert changes.keys() <= fields.keys()
        *before, last = self.rows(self.key(b"E", initiator=initiator), initiator=initiator)
        for row in before:
            self.topics.records.remove(row)
        self.replace(last, last._replace(value=schema.encode(fields | changes)))

    def keep(self, key: bytes, record: Record, *, accepted: bool = True) -> None:
        """Append a row of the state topic that keeps a record."""
        row = WaitingRow(
            record.topic, record.offset, record.timestamp * 1_000, accepted, 0, record.key or b"",
            b"", record.value or b"",
        )  # fmt: skip
        self.write(key, encode_waiting(row))

    # -- letters ------------------------------------------------------------------------------------------------------

    def letters(self, *, final: bool = True, initiator: bool = False) -> list[Record]:
        """Return the dead letters of this dialog at ``desk``, or at ``web`` for the initiator. ``final`` leaves out letters whose message is still held."""
        found = [
            it
            for it in self.topics.of(self.web if initiator else self.desk, "dead-letter")
            if dict(it.headers).get("dl.conversation") == self.id.encode()
        ]
        return [it for it in found if not final or "dl.held" not in dict(it.headers)]

    def give_back(self, record: Record, *, is_uncertain: bool = False) -> Record:
        """Append a dead letter of the initiator for a message that it has sent."""
        envelope = decode(record.value or b"")
        (partition,) = {row.partition for row in self.rows(self.key(b"E", initiator=True), initiator=True)}
        said = {
            "dl.reason": "undeliverable", "dl.source-topic": record.topic, "dl.source-partition": partition,
            "dl.source-offset": 1 << 62, "dl.failed-at": 1, "dl.conversation": self.id, "dl.from-initiator": "true",
            "dl.sequence": envelope.seq, "dl.message-type": envelope.message_type,
        }  # fmt: skip
        if is_uncertain:
            said["dl.uncertain"] = "true"
        headers: Headers = tuple((name, str(value).encode()) for name, value in said.items())
        return self.topics.append(
            self.topics.name(self.web, "dead-letter"), partition, record.key, record.value, headers
        )

    def letter(self, record: Record, reason: str, *, offset: int | None = None) -> Record:
        """Append a dead letter of a record, and the row for an open letter."""
        envelope = decode(record.value or b"")
        source = record.offset if offset is None else offset
        said = {
            "dl.reason": reason, "dl.source-topic": record.topic, "dl.source-partition": record.partition,
            "dl.source-offset": source, "dl.failed-at": 1, "dl.conversation": self.id, "dl.from-initiator": "true",
            "dl.sequence": envelope.seq, "dl.message-type": envelope.message_type,
        }  # fmt: skip
        headers: Headers = tuple((name, str(value).encode()) for name, value in said.items())
        self.write(rows.letter_key(record.topic, source), bytes(8))
        return self.topics.append(
            self.topics.name(self.desk, "dead-letter"), record.partition, record.key, record.value, headers
        )
