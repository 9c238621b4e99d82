"""Closing letters that no dialog waits for: discarding them, or sending their messages again on a new dialog."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

from conversations.config import Kafka
from conversations.errors import DeclarationError
from conversations.kafka.catalog import read_catalog
from conversations.protocol.command import Begin, Command, End, Operation, Report, Send, Settle, Source, to_partition
from conversations.protocol.envelope import Envelope
from conversations.protocol.identifiers import RANDOM_BITS, uuid7, uuid_text
from conversations.protocol.limits import DAY
from conversations.protocol.sequencing import NONE
from ops.actions.asking import ask
from ops.queries.letters import Letter

CHUNK = 800_000
"""Bytes of bodies in one command at most."""
TOGETHER = 500
"""Letters closed by one command."""


class Request(NamedTuple):
    """Who asks, why, and how long to wait for the owners, in seconds."""

    by: str
    reason: str
    wait: float


def settle(kafka: Kafka, letters: Sequence[Letter], outcome: str, request: Request) -> None:
    """Close open letters, also of several partitions and services.

    Raises:
        Refused: one is not open any more; those of its partition stay as they are.
        LogError: Kafka did not take a command, or no owner answered in time.
    """
    places: dict[str, dict[int, list[Source]]] = defaultdict(lambda: defaultdict(list))
    for it in letters:
        places[it.service][it.partition].append(Source(it.topic.upper(), it.offset))
    for service, partitions in places.items():
        count = read_catalog(kafka).partitions(service) or 0
        now = time.time_ns() // 1_000
        commands = [
            to_partition((number, count), Settle(tuple(sources[at : at + TOGETHER]), outcome, request.reason), request.by, os.urandom(16), now)
            for number, sources in partitions.items()
            for at in range(0, len(sources), TOGETHER)
        ]  # fmt: skip
        ask(kafka, service, commands, request.wait)


class Resubmission(NamedTuple):
    """A dead-lettered sequence that is to go on a new dialog."""

    letters: tuple[Letter, ...]
    """In the order of their numbers."""
    conversation: bytes
    """The new dialog: the same whenever the same letters are sent again within half a day, so that it happens once."""
    commands: tuple[Command, ...]
    service: str
    """Whose dialog it is."""


def resubmission(letters: Sequence[Letter], by: str, *, end: bool, now: int) -> Resubmission:
    """Make the commands that send the messages of letters again, in order; ``end``: and then END; ``now`` in microseconds.

    Raises:
        DeclarationError: they are not the initiator's messages of one dialog.
    """
    ordered = sorted(letters, key=lambda it: it.number)
    envelopes = [(it, envelope) for it in ordered if (envelope := it.envelope()) is not None]
    if len(envelopes) != len(ordered) or not envelopes:
        raise DeclarationError("only messages of a dialog can be sent again; what cannot be read can be discarded")
    first_letter, first = envelopes[0]
    if not first.prefix.from_initiator:
        raise DeclarationError(
            f"{first_letter.letter} was sent by the target of its dialog, which cannot begin a new one: let the initiator ask again"
        )
    if len({envelope.prefix.conversation_id for _, envelope in envelopes}) > 1:
        raise DeclarationError("these letters are of several dialogs: send those of one at a time")
    conversation = _drawn(first.prefix.conversation_id, ordered, now)
    begin = Begin(first.prefix.to_service, first.prefix.contract, 0, first_letter.key.decode())
    commands = tuple(
        Command(
            os.urandom(16), conversation, True, first.prefix.reply_key, "" if number == 0 else f"resubmit-{number}", by, now,
            (*([begin] if number == 0 else []), *operations, Report()),
        )
        for number, operations in enumerate(_chunks([envelope for _, envelope in envelopes], end=end))
    )  # fmt: skip
    return Resubmission(tuple(ordered), conversation, commands, first.prefix.from_service)


def _drawn(old: bytes, letters: Sequence[Letter], now: int) -> bytes:
    digest = blake2b(old + b"".join(it.letter.encode() for it in letters), digest_size=16).digest()
    half = now - now % (DAY // 2)
    return uuid7(half, int.from_bytes(digest) >> (128 - RANDOM_BITS)).bytes


def _chunks(envelopes: Sequence[Envelope], *, end: bool) -> list[list[Operation]]:
    chunks: list[list[Operation]] = [[]]
    size = 0
    for envelope in envelopes:
        if chunks[-1] and size + len(envelope.body) > CHUNK:
            chunks.append([])
            size = 0
        chunks[-1].append(Send(envelope.message_type, envelope.content_type, envelope.body))
        size += len(envelope.body)
    if end:
        chunks[-1].append(End())
    return chunks


def resubmit(kafka: Kafka, made: Resubmission, request: Request) -> str:
    """Send a dead-lettered sequence again, then close its letters; return the new dialog's id.

    Raises:
        Refused: an owner refused it; nothing was closed.
        LogError: Kafka did not take a command, or no owner answered in time: doing it again is harmless.
    """
    for command in made.commands:  # one by one: their order is that of the messages
        ask(kafka, made.service, [command], request.wait)
    name = uuid_text(made.conversation)
    settle(kafka, made.letters, f"sent again on {name}", request)
    return name


def sequence(letters: Sequence[Letter], of: Letter) -> list[Letter]:
    """Return the open letters of the same dialog and direction."""
    return [
        it for it in letters
        if (it.service, it.conversation, it.from_initiator) == (of.service, of.conversation, of.from_initiator) and it.number != NONE
    ]  # fmt: skip
