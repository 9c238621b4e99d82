"""Open letters: dead letters of closed dialogs and of records that were set aside. An operator closes them."""

from __future__ import annotations

import os
import re
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple, cast

from conversations.config import Kafka
from conversations.errors import UndecodableRecord
from conversations.headers import read_headers
from conversations.kafka.catalog import read_catalog
from conversations.kafka.follow import Follower
from conversations.kafka.restore import BoundedReader
from conversations.ports import Record
from conversations.protocol import rows
from conversations.protocol.command import Settle, Source, to_partition
from conversations.protocol.envelope import Envelope, Kind, decode
from conversations.protocol.letters import CODE, DECIDED_BY, DECIDED_WHY, STACK, letter_of, source_of
from conversations.protocol.topics import DEAD_LETTER, service_topic
from conversations_ops.operate.commands import ask
from conversations_ops.operate.state import PATIENCE, services, tables

FOREIGN = {
    "kafka_dlt-": "Spring Kafka",
    "__dlq.errors.": "Kafka Connect or Kafka Streams",
    "__connect.errors.": "Kafka Connect",
}
"""Header prefixes that identify dead letters of other tools, and the names of these tools."""


_CODE = re.compile(rb"-?[0-9]{1,9}")
TOGETHER = 500
"""Maximum number of letters that one command closes."""


ONE = 5.0
"""Seconds that reading one letter may take."""


class OpenLetter(NamedTuple):
    """One open letter."""

    letter: str
    service: str
    partition: int
    topic: str
    """Topic of the record in the letter: ``queue`` or ``commands``; ``dead-letter`` if another tool wrote the letter."""
    offset: int
    reason: str
    exception: str
    message: str
    conversation: str
    from_initiator: bool
    number: int
    what: str
    """Message type."""
    at: int
    """Time when the message was given up on, or when another tool wrote the letter; microseconds since 1970."""
    key: bytes
    value: bytes
    foreign: str = ""
    """Name of the tool that wrote the letter; empty if a worker wrote it."""
    stack: str = ""
    """Stack trace of the handler's last failure, from the newest letter of the record that has one; empty if no handler failed."""
    code: int = 0
    """System error code with which the record was refused, or with which its dialog broke; 0 if there is none."""
    decided_by: str = ""
    """Operator whose decision wrote the letter; empty if no decision did."""
    decided_why: str = ""
    """Reason of this operator."""

    def envelope(self) -> Envelope | None:
        """Return the message of the letter; None if its record is not a message."""
        try:
            envelope = decode(self.value)
        except UndecodableRecord:
            return None
        return envelope if envelope.kind is Kind.MESSAGE else None


class KeptLetter(NamedTuple):
    """A letter in the dead-letter topic, open or not."""

    letter: OpenLetter
    is_open: bool
    """True if no dialog waits for the letter, and no operator has closed it."""


class OpenLetterSelector(NamedTuple):
    """Conditions on an open letter. An empty field is no condition."""

    service: str = ""
    reason: str = ""
    """Reason of the letter, for example "after-end"."""
    exception: str = ""
    """Class of the handler's last exception, without its module."""
    type: str = ""
    """Message type."""
    conversation: str = ""

    def matches(self, it: OpenLetter) -> bool:
        """Return True if the letter meets all conditions. Return False for a letter of another tool."""
        return (
            not it.foreign
            and self.service in ("", it.service)
            and self.reason in ("", it.reason)
            and self.exception in ("", it.exception.rpartition(".")[2])
            and self.type in ("", it.what)
            and self.conversation in ("", it.conversation)
        )


class Request(NamedTuple):
    """The operator who closes or resubmits letters, the reason, and the seconds to wait for the owners' answers."""

    by: str
    reason: str
    wait: float


def open_letters(kafka: Kafka, service: str = "") -> list[OpenLetter]:
    """List open letters from whole topics, the oldest first, and the letters of other tools last. Tests compare it with the read model.

    Args:
        kafka: the cluster and namespace.
        service: list only letters of this service. If it is empty, list the letters of all services in the catalog.

    Raises:
        DeclarationError: there is no such service.
        LogError: a topic cannot be read.
    """
    found = [it.letter for name in services(kafka, service) for it in _kept(kafka, name) if it.is_open]
    return sorted(found, key=lambda it: (bool(it.foreign), it.at, it.letter))


def kept_letter(kafka: Kafka, name: str) -> KeptLetter | None:
    """Return the newest letter with this name from whole topics; None if there is none. Tests compare it with ``read_model.detached``.

    Raises:
        DeclarationError: there is no such service.
        LogError: a topic cannot be read.
    """
    service = name.rpartition(".")[0]
    found = _kept(kafka, service) if service and services(kafka, service) else []
    return next((it for it in found if it.letter.letter == name), None)


def letter_at(kafka: Kafka, service: str, partition: int, offset: int) -> OpenLetter | None:
    """Return the letter at an offset of the dead-letter topic of a service, and read nothing else; None if Kafka has deleted it.

    Raises:
        LogError: the topic cannot be read.
    """
    topic = service_topic(kafka.namespace, service, DEAD_LETTER)
    reader = BoundedReader(kafka, topic, partition, offset, offset + 1, ONE)
    try:
        while not reader.done:
            for record in cast("list[Record]", reader.read_records(1, ONE)):
                return letter_in(service, record) if record.offset() == offset else None
    finally:
        reader.close()
    return None


def close(kafka: Kafka, letters: Sequence[OpenLetter], outcome: str, request: Request) -> None:
    """Close open letters, in any number of partitions and services.

    Raises:
        Refused: a letter is not open any more. A refused command closes none of its letters.
        LogError: Kafka did not accept a command, or an owner did not answer in time.
    """
    places: dict[str, dict[int, list[Source]]] = defaultdict(lambda: defaultdict(list))
    for it in letters:
        places[it.service][it.partition].append(Source(it.topic.upper(), it.offset))
    catalog, now = read_catalog(kafka), time.time_ns() // 1_000
    for service, partitions in places.items():
        count = catalog.partitions(service) or 0
        commands = [
            to_partition((number, count), Settle(tuple(sources[at : at + TOGETHER]), outcome, request.reason), request.by, os.urandom(16), now)
            for number, sources in partitions.items()
            for at in range(0, len(sources), TOGETHER)
        ]  # fmt: skip
        ask(kafka, service, commands, request.wait)


def _kept(kafka: Kafka, service: str) -> list[KeptLetter]:
    """List the letters in the dead-letter topic of a service. Of several letters with the same source, only the last is listed."""
    with Follower(kafka, [service_topic(kafka.namespace, service, DEAD_LETTER)]) as follower:
        records = follower.to_the_end(PATIENCE)
    # Read the rows after the records. A worker writes the record and the row of a letter in one transaction. So each
    # open letter among these records has its row in the table.
    is_open = {
        (partition, *rows.letter_source(key))
        for partition, table in tables(kafka, service, (rows.LETTER,)).items()
        for key in table
    }
    # Of several letters with the same source, keep only the last. So the parts of a large record become one letter.
    found: dict[tuple[int, str, int], OpenLetter] = {}
    for it in (letter_in(service, record) for record in records):
        before = found.get((it.partition, it.topic, it.offset))
        # A held message gets a second letter when it is skipped or edited, or when its dialog ends. Only the first has the failure.
        kept = it if before is None or it.exception or not before.message else _with_failure(it, before)
        found[it.partition, it.topic, it.offset] = kept
    return [KeptLetter(it, is_open=bool(it.foreign) or place in is_open) for place, it in found.items()]


def _with_failure(it: OpenLetter, before: OpenLetter) -> OpenLetter:
    return it._replace(exception=before.exception, message=before.message, stack=before.stack)


def letter_in(service: str, record: Record) -> OpenLetter:
    """Return the letter in a record of the dead-letter topic of a service."""
    headers = _headers(record)
    partition = record.partition() or 0
    key, value = record.key() or b"", record.value() or b""
    source = source_of(headers)
    if source is None:
        offset, at = record.offset() or 0, record.timestamp()[1] * 1_000
        name = letter_of(service, DEAD_LETTER, partition, offset)
        return OpenLetter(
            name, service, partition, DEAD_LETTER, offset, "foreign", "", "", "", False, -1, "", at, key, value,
            _tool(list(headers)),
        )  # fmt: skip
    name = letter_of(service, source.topic, partition, source.offset)
    stack, by, why = (
        headers.get(name, b"").decode("utf-8", "backslashreplace") for name in (STACK, DECIDED_BY, DECIDED_WHY)
    )
    code = headers.get(CODE, b"")
    return OpenLetter(
        name, service, partition, *source, key, value, stack=stack, code=int(code) if _CODE.fullmatch(code) else 0,
        decided_by=by, decided_why=why,
    )  # fmt: skip


def _headers(record: Record) -> dict[str, bytes]:
    return {name: value or b"" for name, value in read_headers(record) or ()}


def _tool(headers: list[str]) -> str:
    found = (tool for prefix, tool in FOREIGN.items() if any(name.startswith(prefix) for name in headers))
    return next(found, "another program")
