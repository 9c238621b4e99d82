"""Writes the dialogs, failed messages, letters and events of a large namespace directly into its topics. No worker runs.

Each dialog has a request and a reply in the queues, and a row on each side. The records of the queues have the times at which the dialogs
began, which are spread over a month.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource

from bench.topics import Filling
from conversations import Kafka
from conversations.kafka.admin import apply
from conversations.protocol import letters as names
from conversations.protocol import rows
from conversations.protocol.codes import NOT_CONVERSING
from conversations.protocol.declarations import ServiceDeclaration
from conversations.protocol.endpoint import NEVER, Endpoint
from conversations.protocol.envelope import Envelope, Kind, Prefix, encode
from conversations.protocol.events import ConversationId, GaveUp, Origin, Resolved, encode_worker_event
from conversations.protocol.identifiers import uuid7, uuid_text
from conversations.protocol.park_row import ParkRow, encode_park
from conversations.protocol.states import State
from conversations.protocol.topics import DEAD_LETTER, QUEUE, STATE, events_topic, partition_of, service_topic
from conversations.protocol.waiting_row import WaitingRow, encode_waiting

ORDERS, BILLING = "orders", "billing"
CONTRACT, REQUEST, REPLY, AGAIN = "Invoices", "Invoice", "Invoiced", "Reminder"
PARTITIONS = 4
SECOND = 1_000_000
MONTH = 30 * 24 * 3_600 * SECOND
GOLDEN = 0x9E3779B97F4A7C15F39CC0605CEDC835
BEHIND = 2
"""Number of records behind each failed message."""
EXCEPTIONS = ("Timeout", "ValueError", "LookupError", "CardRefused", "HTTPError", "KeyError", "OSError", "NoRate")
STACK = "".join(
    f'  File "/srv/billing/step_{n}.py", line {n}, in step_{n}\n    return step_{n + 1}(it)\n' for n in range(9)
)
_DATED = {"message.timestamp.type": "CreateTime", "retention.ms": "-1"}


class Dated(NamedTuple):
    """A record, and its time in milliseconds since 1970; 0 for now."""

    at: int
    record: Filling


class Letter(NamedTuple):
    """A failed message that was planted."""

    name: str
    dialog: int
    """Number of its dialog."""


@dataclass
class Planted:
    """A large namespace. The same sizes make the same dialogs, apart from their times."""

    kafka: Kafka
    dialogs: int
    letters: int
    """Number of failed messages: one half is held, the other half is tried again. There are a fifth as many open letters."""
    now: int = field(default_factory=lambda: time.time_ns() // 1_000)
    waiting: list[Letter] = field(default_factory=list)
    """The failed messages that have been made so far."""
    detached: list[Letter] = field(default_factory=list)
    """The open letters that have been made so far."""
    _ends: Counter[tuple[str, int]] = field(default_factory=Counter)
    """The next offset of each queue partition."""

    @property
    def open_letters(self) -> int:
        """Number of letters that no dialog waits for."""
        return self.letters // 5

    @property
    def events(self) -> int:
        """Number of events. Every tenth names an operator."""
        return self.letters // 2

    def id(self, number: int) -> bytes:
        """Return the id of a dialog, by its number from 0."""
        return uuid7(self.began(number), number * GOLDEN % 2**74).bytes

    def began(self, number: int) -> int:
        """Return the time at which a dialog began, in microseconds since 1970."""
        return self.now - MONTH + number * MONTH // self.dialogs

    def key(self, number: int) -> str:
        """Return the key of a dialog's group. Every second dialog has a key of its own choice."""
        return f"order-{number:07d}" if number % 2 else uuid_text(self.id(number))

    def fails(self, number: int) -> bool:
        """Return True if the request of a dialog has failed."""
        return number % max(self.dialogs // self.letters, 10) == 5

    def declare(self) -> None:
        """Create the topics. Their queues keep old records, with the times that the records have."""
        apply(self.kafka, [ServiceDeclaration(ORDERS), ServiceDeclaration(BILLING)], PARTITIONS, 1)
        entries = [ConfigEntry(name, it, incremental_operation=AlterConfigOpType.SET) for name, it in _DATED.items()]
        resources = [
            ConfigResource(ConfigResource.Type.TOPIC, self._topic(it, QUEUE), incremental_configs=entries)
            for it in (ORDERS, BILLING)
        ]
        admin = AdminClient({"bootstrap.servers": self.kafka.bootstrap, "log_level": 3})
        for future in admin.incremental_alter_configs(resources).values():
            future.result()

    def records(self) -> Iterator[Dated]:
        """Make the records of all topics, the oldest dialog first."""
        closed = 0
        for number in range(self.dialogs):
            if number % 10 == 0:
                yield from self._closed(number, with_letter=closed < self.open_letters)
                closed += 1
            else:
                yield from self._open(number)
        for number in range(self.events):
            yield Dated(0, (events_topic(self.kafka.namespace), 0, BILLING.encode(), self._event(number), None))

    def _topic(self, service: str, kind: str) -> str:
        return service_topic(self.kafka.namespace, service, kind)

    def _open(self, number: int) -> Iterator[Dated]:
        fails = self.fails(number)
        offset = yield from self._sent(number, ORDERS, REQUEST, 0)
        if fails:
            for seq in range(1, 1 + BEHIND):
                yield from self._sent(number, ORDERS, AGAIN, seq)
            yield from self._failed(number, offset)
        else:
            yield from self._sent(number, BILLING, REPLY, 0)
        for service in (ORDERS, BILLING):
            endpoint = self._endpoint(number, service, fails=fails)
            yield self._row(
                number, service, rows.ENDPOINT, rows.encode_endpoint(endpoint, rows.encode_constant(endpoint))
            )

    def _endpoint(self, number: int, service: str, *, fails: bool) -> Endpoint:
        key, begins = self.key(number), service == ORDERS
        endpoint = Endpoint(
            self.id(number), begins, contract=CONTRACT, service=service, peer=BILLING if begins else ORDERS, key=key, peer_key=key,
            expires_at=self.now + MONTH + number,
        )  # fmt: skip
        endpoint.state = State.CONVERSING
        sent = 1 + BEHIND if fails else 1
        endpoint.next_out, endpoint.inbound.next = (sent, 0 if fails else 1) if begins else (0 if fails else 1, sent)
        endpoint.acked, endpoint.told = endpoint.next_out - 1 - (number % 50 == 1), endpoint.inbound.next - 1
        if number % 100 == 3:
            endpoint.state = State.ERROR
            endpoint.fail(NOT_CONVERSING, "the dialog is over at its peer")
        return endpoint

    def _failed(self, number: int, offset: int) -> Iterator[Dated]:
        held = len(self.waiting) % 2 == 0
        failure = EXCEPTIONS[number // 10 % len(EXCEPTIONS)]
        since = self.began(number) + SECOND
        park = ParkRow(
            due=NEVER if held else self.now + 3_600 * SECOND + number, next=1 + BEHIND, size=900, since=since, ticket=3,
            failure=f"{failure}: the order {number} cannot be paid",
        )  # fmt: skip
        yield self._row(number, BILLING, rows.PARK, encode_park(park))
        for seq in range(1 + BEHIND):
            said = self._said(number, ORDERS, AGAIN if seq else REQUEST, seq)
            row = WaitingRow(
                self._topic(BILLING, QUEUE), offset + seq, since, True, 0 if seq else 5, self.key(number).encode(), b"", encode(said)
            )  # fmt: skip
            yield self._row(number, BILLING, rows.PARKED, encode_waiting(row), seq.to_bytes(8, "big"))
        partition, said = self._partition(number), self._said(number, ORDERS, REQUEST, 0)
        headers = [
            *self._headers(said, offset, names.HANDLER_FAILED if held else names.WAITS, since), (names.EXCEPTION, failure.encode()),
            (names.EXCEPTION_MESSAGE, f"the order {number} cannot be paid".encode()), (names.STACK, STACK.encode()), (names.ATTEMPTS, b"5"),
            *([(names.HELD, b"true")] if held else []),
        ]  # fmt: skip
        yield Dated(0, (self._topic(BILLING, DEAD_LETTER), partition, self.key(number).encode(), encode(said), headers))
        self.waiting.append(Letter(names.letter_of(BILLING, QUEUE, partition, offset), number))

    def _closed(self, number: int, *, with_letter: bool) -> Iterator[Dated]:
        yield from self._sent(number, ORDERS, REQUEST, 0)
        yield from self._sent(number, BILLING, REPLY, 0)
        for service in (ORDERS, BILLING):
            stone = rows.Tombstone(self.key(number), "", self.now + MONTH, 1, 1, 0, 0, told=True, code=0)
            yield self._row(number, service, rows.ENDPOINT, rows.encode_tombstone(stone))
        if not with_letter:
            return
        offset = yield from self._sent(number, ORDERS, AGAIN, 1)
        partition, said = self._partition(number), self._said(number, ORDERS, AGAIN, 1)
        row = rows.letter_key(QUEUE, offset)
        headers = self._headers(said, offset, names.AFTER_END, self.began(number) + SECOND)
        yield Dated(0, (self._topic(BILLING, STATE), partition, row, bytes(8), None))
        yield Dated(0, (self._topic(BILLING, DEAD_LETTER), partition, self.key(number).encode(), encode(said), headers))
        self.detached.append(Letter(names.letter_of(BILLING, QUEUE, partition, offset), number))

    def _headers(self, said: Envelope, offset: int, reason: str, at: int) -> list[tuple[str, bytes]]:
        partition = partition_of(said.prefix.reply_key.encode(), PARTITIONS)
        return [
            (names.REASON, reason.encode()), (names.SOURCE_TOPIC, self._topic(BILLING, QUEUE).encode()),
            (names.SOURCE_PARTITION, str(partition).encode()), (names.SOURCE_OFFSET, str(offset).encode()),
            (names.FAILED_AT, str(at).encode()), (names.CONVERSATION, uuid_text(said.prefix.conversation_id).encode()),
            (names.FROM_INITIATOR, b"true"), (names.SEQUENCE, str(said.seq).encode()), (names.MESSAGE_TYPE, said.message_type.encode()),
        ]  # fmt: skip

    def _partition(self, number: int) -> int:
        return partition_of(self.key(number).encode(), PARTITIONS)

    def _row(self, number: int, service: str, kind: bytes, value: bytes, rest: bytes = b"") -> Dated:
        own = rows.identity(self.id(number), service == ORDERS)
        return Dated(0, (self._topic(service, STATE), self._partition(number), kind + own + rest, value, None))

    def _said(self, number: int, by: str, what: str, seq: int) -> Envelope:
        key, to = self.key(number), BILLING if by == ORDERS else ORDERS
        prefix = Prefix(self.id(number), by == ORDERS, CONTRACT, by, to, key, False, 0, -1)
        return Envelope(
            prefix, Kind.MESSAGE, seq, -1, message_type=what, content_type="application/json", body=body(number, seq)
        )

    def _sent(self, number: int, by: str, what: str, seq: int) -> Generator[Dated, None, int]:
        """Make a record of a queue, and return its offset."""
        it = self._said(number, by, what, seq)
        topic, partition = self._topic(it.prefix.to_service, QUEUE), self._partition(number)
        yield Dated(self.began(number) // 1_000, (topic, partition, self.key(number).encode(), encode(it), None))
        offset = self._ends[topic, partition]
        self._ends[topic, partition] += 1
        return offset

    def _event(self, number: int) -> bytes:
        it = self.waiting[number % len(self.waiting)]
        origin = Origin(BILLING, number % PARTITIONS, self.now - (self.events - number) * SECOND)
        dialog = ConversationId(uuid_text(self.id(it.dialog)))
        if number % 10:
            return encode_worker_event(origin, GaveUp(dialog, "hold", 0, "Timeout: no answer"))
        reason = f"INC-{number}"
        return encode_worker_event(
            origin, Resolved(f"{number:032x}", dialog, True, "MESSAGE", 0, "retry", "ann", reason)
        )


def word(number: int) -> str:
    """Return a word that only the bodies of one dialog have."""
    return f"{number * GOLDEN % 2**64:016x}"


def body(number: int, seq: int) -> bytes:
    """Return the body of a message."""
    return json.dumps({
        "order": number, "position": seq, "customer": {"name": word(number), "country": ("DE", "FR", "PL")[number % 3]},
        "lines": [{"article": f"A-{number % 977}", "pieces": 1 + number % 5, "price": "19.90"}], "note": "leave it at the door",
    }).encode()  # fmt: skip
