"""Commands from rows, made in Spark's Python workers: the command of each row, or the reason why the row cannot be sent."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark import TaskContext

from conversations.bodies import codec_of
from conversations.config import Kafka, Limits
from conversations.errors import InvalidBody, LocalError
from conversations.kafka.append_in_order import append_in_order
from conversations.protocol.admission import body_too_large, command_too_large
from conversations.protocol.command import Begin, Command, End, Operation, Send, encode_command
from conversations.protocol.contract import Contract, MessageType
from conversations.protocol.identifiers import uuid_text
from conversations.protocol.limits import COMMAND_BYTES
from conversations.protocol.topics import partition_of
from conversations_ops.console.times import moment

Batches = Iterator[pa.RecordBatch]

COMMANDS = "place int, dialog string, number long, key binary, value binary, problem string"
"""Columns of ``commands_of``: partition of the commands topic, dialog and number of the row, key and value of the record, problem.

A row has either a value or a problem; the other column is null.
"""
WRITTEN = "commands long"


class Speech(NamedTuple):
    """Facts that are the same for all rows."""

    contract: Contract
    to_service: str
    job: str
    lifetime: int
    """Lifetime of the dialogs in microseconds; 0: the contract's default, -1: unlimited."""
    partitions: int
    """Number of partitions of the commands topic."""
    oldest: int
    """Earliest valid time of a row, in microseconds since 1970. The owner may have carried out an earlier row and forgotten it."""
    newest: int
    """Latest valid time of a row, in microseconds since 1970."""


class Row(NamedTuple):
    """One row, with the columns that ``spark_jobs.speak.prepared`` makes."""

    dialog: str | None
    conversation: bytes | None
    number: int | None
    type: str | None
    data: bytes | None
    """The body: either JSON text or the bytes to send; ``ready`` tells which."""
    ready: bool
    """True if ``data`` has the bytes to send, False if it has JSON text."""
    end: bool
    at: int | None
    """Time of issue (of the first attempt to send the row), in microseconds since 1970."""


class Line(NamedTuple):
    """The command of a row, with the fields of ``COMMANDS``."""

    place: int
    dialog: str
    number: int
    key: bytes
    value: bytes | None
    problem: str | None


def commands_of(speech: Speech) -> Callable[[Batches], Batches]:
    """Return a function for ``mapInArrow`` that makes ``COMMANDS`` from rows that are sorted by dialog and number."""

    def made(batches: Batches) -> Batches:
        reader = _Reader(speech)
        for batch in batches:
            lines = [line for row in _rows(batch) if (line := reader.read(Row._make(row))) is not None]
            yield _batch(Line._fields, lines, _COMMANDS)

    return made


def written_to(kafka: Kafka, topic: str, name: str) -> Callable[[Batches], Batches]:
    """Return a function for ``mapInArrow`` that appends ``COMMANDS`` to their partitions, and returns their number (``WRITTEN``).

    The transactional id is ``name`` and the number of the task. So a second attempt at a task fences the first attempt.
    """

    def written(batches: Batches) -> Batches:
        context = TaskContext.get()
        number = 0 if context is None else context.partitionId()
        lines = (Line._make(row) for batch in batches for row in _rows(batch))
        records = ((line.place, line.key, _value(line)) for line in lines)
        count = append_in_order(kafka, f"{name}.{number}", topic, records)
        yield _batch(("commands",), [(count,)], _WRITTEN)

    return written


def _value(line: Line) -> bytes:
    """Return the command of a row.

    Raises:
        ValueError: the row has a problem. All rows were checked before, so the source of this row has changed since the check.
    """
    if line.value is None:
        raise ValueError(f"dialog {line.dialog!r}, number {line.number}: {line.problem}")
    return line.value


_COMMANDS = (pa.int32(), pa.string(), pa.int64(), pa.binary(), pa.binary(), pa.string())
_WRITTEN = (pa.int64(),)


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _batch(names: Iterable[str], lines: list[Any], types: Iterable[Any]) -> pa.RecordBatch:
    made = [pa.array([line[at] for line in lines], kind) for at, kind in enumerate(types)]
    return pa.RecordBatch.from_arrays(made, list(names))


class _Reader:
    """A reader of rows that are sorted by dialog and number. All rows of a dialog are read by one reader."""

    def __init__(self, speech: Speech) -> None:
        self._speech = speech
        self._before: Row | None = None

    def read(self, row: Row) -> Line | None:
        """Return the command or the problem of a row; None if the row repeats the row before."""
        before, self._before = self._before, row
        same = before is not None and before.conversation == row.conversation and row.conversation is not None
        if same and before is not None and row.number == before.number and row[1:-1] == before[1:-1]:
            return None
        value, problem = None, None
        try:
            at = _checked_time(row.at, self._speech)
            number = _checked(row, before if same else None)
            value = self._command(row, number, at)
        except (LocalError, ValueError) as error:
            problem = str(error)
        key = uuid_text(row.conversation or bytes(16)).encode()
        place = partition_of(key, self._speech.partitions)
        return Line(place, row.dialog or "", -1 if row.number is None else row.number, key, value, problem)

    def _command(self, row: Row, number: int, at: int) -> bytes:
        speech, conversation = self._speech, row.conversation or b""
        operations: list[Operation] = []
        if number == 0:
            operations.append(Begin(speech.to_service, speech.contract.name, speech.lifetime))
        if row.type is not None:
            operations.append(_send(speech.contract, row.type, row.data, row.ready))
        if row.end:
            operations.append(End())
        identity = blake2b(conversation + number.to_bytes(8, "big"), digest_size=16).digest()
        # Row 0 needs no idempotency key: the owner recognises a repeated begin by the conversation id.
        name = f"{speech.job}/{number}" if number else ""
        command = Command(
            identity, conversation, True, uuid_text(conversation), name, speech.job, at, tuple(operations)
        )
        value = encode_command(command)
        if len(value) > COMMAND_BYTES:
            raise command_too_large("the command has", len(value))
        return value


def _checked_time(at: int | None, speech: Speech) -> int:
    """Return the time of issue of a row.

    Raises:
        ValueError: the time is missing, too early or too late, so the owner would not recognise a repetition of the row.
    """
    if at is None:
        raise ValueError("the row has no time 'at'")
    if at < speech.oldest:
        raise ValueError(
            f"the row was first to be sent at {moment(at)}, about a day ago or earlier. So it is not known any more whether it was "
            "sent. Read the dialog with spark_jobs.reading.dialogs, and send missing messages in a dialog of another name"
        )
    if at > speech.newest:
        raise ValueError(
            f"the row was first to be sent at {moment(at)}, but that is in the future: is the time local time, not UTC?"
        )
    return at


def _checked(row: Row, before: Row | None) -> int:
    """Check that a row can be sent, and return the number of the row. ``before`` is the row before it in the same dialog.

    Raises:
        ValueError: the row cannot be sent; the message says why.
    """
    if not row.dialog:
        raise ValueError("the row has no dialog")
    if row.number is None or row.number < 0:
        raise ValueError("the number of the row is missing or negative")
    if row.type is None and not row.end:
        raise ValueError("the row has no type, and does not end its dialog")
    if row.type is None and row.data is not None:
        raise ValueError("the row has a body and no type")
    if before is None or before.number is None:
        return row.number
    if row.number == before.number:
        raise ValueError("two rows have this number, with different content")
    if row.number != before.number + 1:
        raise ValueError(f"number {before.number + 1} is missing before this row")
    if before.end:
        raise ValueError("the row comes after the end of its dialog")
    return row.number


def _send(contract: Contract, name: str, data: bytes | None, ready: bool) -> Send:
    declared = contract.outgoing(None, name, from_initiator=True)
    codec = codec_of(declared)
    body = _body(declared, data, ready)
    limit = Limits().record_body
    if len(body) > limit:
        raise body_too_large(len(body), limit)
    return Send(name, codec.content_type, body)


def _body(declared: MessageType, data: bytes | None, ready: bool) -> bytes:
    """Return the bytes to send.

    Raises:
        InvalidBody: the body is missing, or does not fit its message type.
    """
    codec = codec_of(declared)
    if data is None and declared.body is not None:
        raise InvalidBody(f"{declared.name}: the body is missing")
    found = data or b""
    if not ready and codec.content_type == "avro/binary":
        try:
            fields = json.loads(found)
        except ValueError as error:
            raise InvalidBody(f"{declared.name}: {error}") from None
        return codec.encode(fields)
    codec.decode(found)
    return found
