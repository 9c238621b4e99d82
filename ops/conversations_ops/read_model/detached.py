"""Finds letters that no dialog waits for with the read model, and reads their bytes, which only Kafka has, at their offsets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import cast

from conversations.config import Kafka
from conversations.kafka.restore import BoundedReader
from conversations.ports import Record
from conversations.protocol.topics import DEAD_LETTER, service_topic
from conversations_ops.operate.open_letters import KeptLetter, OpenLetter, letter_at, letter_in
from conversations_ops.operate.state import PATIENCE
from conversations_ops.read_model.file import File
from conversations_ops.read_model.letters import Kept, kept_letters

EARLIER = 4
"""Maximum number of letters with one name that are looked at. Each decision about a message writes a further one."""
TOGETHER = 1_000
"""Number of records that are read together."""


def without_bytes(kept: Kept) -> OpenLetter:
    """Return a letter as the file has it: its key, its value and its stack trace are empty."""
    return OpenLetter(
        kept.letter, kept.service, kept.partition, kept.topic, kept.offset, kept.reason, kept.exception, kept.message, kept.conversation,
        kept.from_initiator, kept.number, kept.what, kept.at, b"", b"", kept.tool, "", kept.code, kept.decided_by, kept.decided_why,
    )  # fmt: skip


def with_bytes(kafka: Kafka, letters: Sequence[Kept]) -> list[OpenLetter]:
    """Return letters with the bytes of their records, in order. A letter that Kafka has deleted meanwhile is left out.

    Of each partition, only the records from the first to the last of these letters are read.

    Raises:
        LogError: a dead-letter topic cannot be read.
    """
    places: dict[tuple[str, int], set[int]] = defaultdict(set)
    for it in letters:
        places[it.service, it.partition].add(it.at_offset)
    read: dict[tuple[str, int, int], OpenLetter] = {}
    for (service, partition), offsets in places.items():
        for offset, letter in _read(kafka, service, partition, offsets):
            read[service, partition, offset] = letter
    found = ((it, read.get((it.service, it.partition, it.at_offset))) for it in letters)
    return [
        letter._replace(exception=it.exception, message=it.message) for it, letter in found if letter is not None
    ]  # the failure may be that of an earlier letter of the same message


def _read(kafka: Kafka, service: str, partition: int, offsets: set[int]) -> list[tuple[int, OpenLetter]]:
    topic = service_topic(kafka.namespace, service, DEAD_LETTER)
    reader = BoundedReader(kafka, topic, partition, min(offsets), max(offsets) + 1, PATIENCE)
    found: list[tuple[int, OpenLetter]] = []
    try:
        while not reader.done:
            records = cast("list[Record]", reader.read_records(TOGETHER))
            found += [(at, letter_in(service, it)) for it in records if (at := it.offset() or 0) in offsets]
    finally:
        reader.close()
    return found


def kept_letter(kafka: Kafka, file: File, name: str) -> KeptLetter | None:
    """Return the newest letter with this name, with its bytes and with the last failure; None if there is none.

    Only the records of this letter are read.

    Raises:
        LogError: the file or the dead-letter topic cannot be read.
    """
    kept = kept_letters(file, name)
    letter = newest_of(kafka, kept)
    if letter is None:
        return None
    return KeptLetter(letter._replace(exception=kept[-1].exception, message=kept[-1].message), kept[-1].is_open)


def newest_of(kafka: Kafka, kept: Sequence[Kept]) -> OpenLetter | None:
    """Return the newest of the letters with one name. It has the stack of the last failure, which an earlier one of them may have."""
    found: OpenLetter | None = None
    for it in kept[: -1 - EARLIER : -1]:
        read = letter_at(kafka, it.service, it.partition, it.at_offset)
        found = read if found is None else found._replace(stack=read.stack if read else "")
        if found is None or found.stack or not it.exception:
            break
    return found
