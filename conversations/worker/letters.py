"""Letters: records of the dead-letter topic. The value of a letter is the original bytes. Its headers give the reason and the source."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from conversations.bodies import said
from conversations.ports import Headers, Produced, Record
from conversations.protocol import rows
from conversations.protocol.command import Command
from conversations.protocol.effects import Failure
from conversations.protocol.envelope import Envelope
from conversations.protocol.events import (
    ConversationId,
    DialogBroken,
    MessageCorrupt,
    MessageNotAuthentic,
    Origin,
    SetAside,
    WorkerEvent,
    encode_worker_event,
)
from conversations.protocol.fragments import last_number
from conversations.protocol.identifiers import uuid_text
from conversations.protocol.letters import (
    ATTEMPTS,
    CODE,
    COMMAND_REFUSED,
    CONVERSATION,
    DECIDED_BY,
    DECIDED_WHY,
    DUE,
    EXCEPTION,
    EXCEPTION_MESSAGE,
    FAILED_AT,
    FRAGMENTS,
    FROM_INITIATOR,
    HELD,
    MESSAGE_TYPE,
    ORIGINAL,
    PART,
    PART_OF,
    REASON,
    SEQUENCE,
    SET_ASIDE,
    SIZE,
    SKIPPED,
    SOURCE_OFFSET,
    SOURCE_PARTITION,
    SOURCE_TOPIC,
    STACK,
    STACK_LIMIT,
    TEXT_LIMIT,
    UNCERTAIN,
    UNDELIVERABLE,
    WAITS,
)
from conversations.protocol.limits import KEY_BYTES, NAME, RECORD_BYTES, sendable
from conversations.protocol.park_row import ParkRow
from conversations.seal_keys import KEY_ID
from conversations.worker.active import Active, Arrival, Order
from conversations.worker.broken_dialogs import BrokenDialogs
from conversations.worker.context import Context
from conversations.worker.outbox import Outbox
from conversations.worker.progress import Progress
from conversations.worker.refused_commands import RefusedCommands
from conversations.worker.schedule import Schedule

log = logging.getLogger("conversations.worker")

HEADERS_LIMIT = 16_384
"""Maximum number of bytes of headers that a letter copies from its record."""
PART_BYTES = 1_000_000
"""Size of a part, in bytes. A letter that is too large for its topic is divided into parts."""

KEPT_BYTES = 256_000_000
"""Maximum size of a kept value, in bytes, because more bytes do not fit into a transaction. The header ``dl.size`` has the full size."""


class Leftover(NamedTuple):
    """A record that is given up on, but is not an item of a lane. An example is an envelope that cannot be delivered."""

    topic: str
    offset: int
    key: bytes
    value: bytes
    envelope: Envelope | None = None
    command: Command | None = None
    attempts: int = 0
    is_uncertain: bool = False
    """True if the peer may have accepted the envelope all the same."""
    pieces: int = 1
    """Number of fragments that the envelope was joined from."""


class Fragmented(Protocol):
    """The fragments of the messages of a partition."""

    def value_of(self, item: Arrival) -> tuple[bytes, int]:
        """Return the bytes of an item for its dead letter, and the number of fragments in them."""

    def forget(self, active: Active, number: int) -> None:
        """Delete the fragments of a message that is settled. ``number`` is the number of its last fragment."""


class Letters:
    """Writes the dead letters and the events of one partition."""

    __slots__ = (
        "_broken", "_context", "_decision", "_fragments", "_number", "_outbox", "_progress", "_schedule", "refused_commands",
    )  # fmt: skip

    def __init__(
        self,
        number: int,
        context: Context,
        outbox: Outbox,
        progress: Progress,
        schedule: Schedule,
        fragments: Fragmented,
    ) -> None:
        self._number = number
        self._context = context
        self._outbox = outbox
        self._progress = progress
        self._schedule = schedule
        self._fragments = fragments
        self._broken = BrokenDialogs()
        self.refused_commands = RefusedCommands(context.name, number, context.clock)
        self._decision: Headers = []
        """Headers of the letters that the present decision of an operator writes; empty while no decision is carried out."""

    @contextmanager
    def decided(self, by: str, why: str) -> Iterator[None]:
        """Let each letter that is written in the block say which operator's decision wrote it, and why."""
        self._decision = [
            (DECIDED_BY, sendable(by, TEXT_LIMIT).encode()), (DECIDED_WHY, sendable(why, TEXT_LIMIT).encode()),
        ]  # fmt: skip
        try:
            yield
        finally:
            self._decision = []

    def dead_letter(
        self,
        item: Arrival | Order | Leftover,
        reason: str,
        *,
        failure: BaseException | None = None,
        why: str = "",
        code: int = 0,
        held: bool = False,
    ) -> None:
        """Write the dead letter of a record with the next transaction. If ``held``, the record stays the head of its parked dialog."""
        self._context.counts.count_dead_letter()
        headers = self._source(item.topic, item.offset, reason)
        headers += _conversation(item)
        headers += self._decision
        if code:
            headers.append((CODE, str(code).encode()))
        if held:
            headers.append((HELD, b"true"))
        if isinstance(item, Leftover) and item.is_uncertain:
            headers.append((UNCERTAIN, b"true"))
        if why:
            headers.append((EXCEPTION_MESSAGE, sendable(why, STACK_LIMIT).encode()))
        if failure is not None:
            headers += _failure(failure, item.attempts)
        elif item.attempts:
            headers.append((ATTEMPTS, str(item.attempts).encode()))
        value, pieces = item.value, item.pieces if isinstance(item, Leftover) else 1
        if isinstance(item, Arrival) and (item.pieces > 1 or item.envelope.fragments > 1):
            value, pieces = self._fragments.value_of(item)
            if pieces > 1 and not held:
                self._fragments.forget(item.active, last_number(item.envelope))
        if pieces > 1:
            headers.append((FRAGMENTS, b"%d" % pieces))
        self._keep(item.key, value, headers)
        if not held and reason not in (SKIPPED, COMMAND_REFUSED, UNDELIVERABLE):
            self._open(item.topic, item.offset)

    def retry_headers(self, item: Arrival, row: ParkRow) -> Headers:
        """Return the headers of a parked message's record on a retry topic: the message's source, due time and failure."""
        return [
            *self._source(item.topic, item.offset, WAITS),
            *_conversation(item),
            (ATTEMPTS, str(item.attempts).encode()),
            (DUE, str(row.due).encode()),
            (EXCEPTION_MESSAGE, row.failure.encode("utf-8", "backslashreplace")),
        ]

    def set_aside(self, record: Record, why: str, headers: Headers | None) -> None:
        """Set a record aside: write a letter with its bytes. The record is not accepted and changes no endpoint.

        ``headers`` are the record's own headers, which the caller has read. It is None if they were not read, or cannot be read.
        """
        self._context.counts.count_set_aside()
        topic, offset = record.topic(), record.offset()
        said_of_it = self._source(topic, offset, SET_ASIDE)
        said_of_it.append((EXCEPTION_MESSAGE, sendable(why, STACK_LIMIT).encode()))
        self._keep(record.key(), record.value(), said_of_it + _original(headers or []))
        self._open(topic, offset)
        self.event(SetAside(topic, offset, why))

    def discard_damaged(self, record: Record, why: str) -> None:
        """Report a record that was damaged between two clusters. Nothing of it is kept, because its sender transmits the genuine one again."""
        self._context.counts.traffic.count_corrupt()
        self._discarded(record, why, MessageCorrupt(record.topic(), record.offset(), why))

    def discard_forged(self, record: Record, envelope: Envelope, why: str) -> None:
        """Report a record that its alleged sender has not sealed for this place. Nothing of it is kept, because anybody may have written it."""
        self._context.counts.traffic.count_not_authentic()
        seal = envelope.extras.seal if envelope.extras is not None else None
        peer = envelope.prefix.from_service
        event = MessageNotAuthentic(
            record.topic(), record.offset(), peer if NAME.fullmatch(peer) else "",
            seal.key_id if seal is not None and KEY_ID.fullmatch(seal.key_id) else "", why,
        )  # fmt: skip
        self._discarded(record, why, event)

    def _discarded(self, record: Record, why: str, event: WorkerEvent) -> None:
        log.warning(
            "the record of %s, partition %d, offset %d is discarded: %s", record.topic(), self._number, record.offset(), why,
            extra={"service": self._context.name, "partition": self._number},
        )  # fmt: skip
        self.event(event)

    def _open(self, topic: str, offset: int) -> None:
        """Write the row of an open letter: no dialog waits for the letter, and no operator has closed it."""
        key = rows.letter_key(topic, offset)
        until = max(self._progress.row.queue_time, self._context.now) + self._context.periods.letter_life
        self._outbox.write(key, until.to_bytes(8, "big"))
        self._schedule.letters.add(until, key)

    def _keep(self, key: bytes | None, value: bytes | None, headers: Headers) -> None:
        """Write a letter with the next transaction, in parts if its key or value is too large for the topic."""
        if len(key or b"") <= KEY_BYTES and len(value or b"") <= RECORD_BYTES:
            self._outbox.dead_letter(key, value, headers)
            return
        parts = [(b"key", len(key), part) for part in _parts(key)] if key is not None and len(key) > KEY_BYTES else []
        parts += [(b"value", len(value), part) for part in _parts(value)] if value is not None else []
        for number, (what, size, part) in enumerate(parts, 1):
            place = [(PART, b"%d/%d" % (number, len(parts))), (PART_OF, what), (SIZE, b"%d" % size)]
            self._outbox.dead_letter((key or b"")[:KEY_BYTES], part, headers + place)

    def event(self, event: WorkerEvent) -> None:
        """Write an event with the next transaction. While the events topic refuses records, the event is only logged."""
        record = self.event_record(event)
        if self._context.topics.events in self._context.destinations.blocked:
            log.warning("an event could not be published: %s", (record[3] or b"").decode())
            return
        self._outbox.produce(record)

    def dialog_broke(self, conversation: bytes, peer: str, error: Failure, by: str) -> None:
        """Note a dialog that broke with a system code, and that nobody of this service is told of. ``report_broken`` reports it.

        ``by`` is the service that found the error; empty if that is not known any more.
        """
        self._context.counts.count_broken()
        identity = ConversationId(uuid_text(conversation))
        self._broken.note(DialogBroken(identity, error.code, by, peer, error.description, dialogs=1))

    def report_broken(self) -> None:
        """Report the noted dialogs, in the log and by events: one event for all dialogs that broke alike, and at most one a minute."""
        for it in self._broken.due(self._context.now):
            log.warning(
                "%d %s with %s broke, and no handler of %s was told; the last one is %s: %d %s (found by %s)",
                it.dialogs, "dialog" if it.dialogs == 1 else "dialogs", it.peer, self._context.name, it.conversation, it.code, it.why, it.by or "?",
                extra={"conversation": it.conversation, "service": self._context.name, "partition": self._number},
            )  # fmt: skip
            self.event(it)

    def event_record(self, event: WorkerEvent) -> Produced:
        """Make the record of an event for the events topic."""
        context = self._context
        value = encode_worker_event(Origin(context.name, self._number, context.now), event)
        return context.topics.events, 0, context.name.encode(), value, None

    def _source(self, topic: str, offset: int, reason: str) -> Headers:
        return [
            (REASON, reason.encode()),
            (SOURCE_TOPIC, topic.encode()),
            (SOURCE_PARTITION, str(self._number).encode()),
            (SOURCE_OFFSET, str(offset).encode()),
            (FAILED_AT, str(self._context.now).encode()),
        ]


def _original(headers: Headers) -> Headers:
    """Return a record's own headers, with ``ORIGINAL`` in front of each name. Headers beyond ``HEADERS_LIMIT`` are left out."""
    found: Headers = []
    room = HEADERS_LIMIT
    for name, content in headers:
        data = content or b""
        room -= len(name.encode()) + len(data) + len(ORIGINAL)
        if room < 0:
            break
        found.append((ORIGINAL + name, data))
    return found


def _parts(data: bytes) -> list[bytes]:
    return [data[at : at + PART_BYTES] for at in range(0, min(len(data), KEPT_BYTES), PART_BYTES)] or [b""]


def _conversation(item: Arrival | Order | Leftover) -> Headers:
    envelope = None if isinstance(item, Order) else item.envelope
    command = None if isinstance(item, Arrival) else item.command
    if envelope is not None:
        prefix = envelope.prefix
        return [
            (CONVERSATION, uuid_text(prefix.conversation_id).encode()),
            (FROM_INITIATOR, b"true" if prefix.from_initiator else b"false"),
            (SEQUENCE, str(envelope.seq).encode()),
            (MESSAGE_TYPE, sendable(envelope.message_type, TEXT_LIMIT).encode()),
        ]
    if command is not None:
        return [
            (CONVERSATION, uuid_text(command.conversation_id).encode()),
            (FROM_INITIATOR, b"true" if command.from_initiator else b"false"),
        ]
    return []


def _stack(failure: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(failure))
    except SystemError:  # Python 3.11 cannot parse source lines in two threads at once (gh-106905)
        return "".join(traceback.format_exception_only(failure))


def _failure(failure: BaseException, attempts: int) -> Headers:
    stack = _stack(failure).encode("utf-8", "backslashreplace")
    kind = type(failure)
    return [
        (EXCEPTION, sendable(f"{kind.__module__}.{kind.__qualname__}", TEXT_LIMIT).encode()),
        (EXCEPTION_MESSAGE, sendable(said(failure), STACK_LIMIT).encode()),
        (STACK, stack[-STACK_LIMIT:]),
        (ATTEMPTS, str(attempts).encode()),
    ]
