"""Reads the topics of a simulation: all its envelopes, and the place where each message is now."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import permutations
from typing import NamedTuple

from conversations.errors import UndecodableRecord
from conversations.handlers import Side
from conversations.memory.record import MemoryRecord
from conversations.protocol import letters, rows
from conversations.protocol.contract import END_OF_STREAM
from conversations.protocol.endpoint import Endpoint
from conversations.protocol.envelope import Envelope, Kind, decode, tail_start
from conversations.protocol.fragments import last_number
from conversations.protocol.identifiers import uuid_text
from conversations.protocol.partition_row import PartitionRow, decode_partition
from conversations.protocol.referred import following, refers
from conversations.protocol.sequencing import NONE
from conversations.protocol.topics import DEAD_LETTER, QUEUE, has_commands, service_topic
from conversations.protocol.unacknowledged import decode_tails
from conversations.protocol.waiting_row import decode_waiting
from conversations.testing.broker import FaultyBroker
from conversations.testing.ledger import Ledger
from conversations.testing.reading import endpoints_of, state_of, visible
from conversations.testing.said import said
from conversations.testing.wire import waiting

Sides = Mapping[str, Mapping[tuple[str, bool], Side]]
Direction = tuple[bytes, bool]
"""A conversation id, and True for messages to the initiator or False for messages to the target."""


class Sent(NamedTuple):
    """One numbered envelope."""

    service: str
    kind: Kind
    message_type: str
    contract: str
    first: tuple[bytes, int]
    """Conversation id and number on the first dialog: another one, if the message was sent again on a new dialog."""
    generation: int
    """0 for a message that was not sent again."""
    last: int
    """Number of the last fragment of the message; its own number if it is not cut."""


@lru_cache(10_000)
def partition_row(row: bytes) -> PartitionRow:
    """Decode the row of a partition. Results are cached, because the same rows are read many times."""
    return decode_partition(row)


def name_of(conversation: bytes) -> str:
    """Return a conversation id as text."""
    return uuid_text(conversation)


class Facts:
    """All envelopes that were sent, and where each is: under way, waiting, or settled."""

    def __init__(self, brokers: Sequence[FaultyBroker], sides: Sides) -> None:
        self.brokers = brokers
        self.sides = sides
        self.ends: dict[tuple[bytes, bool], tuple[str, Endpoint | rows.Tombstone]] = {}
        """Service and endpoint (or tombstone), by conversation id and side. The side is True for the initiator, False for the target."""
        self.sent: dict[Direction, dict[int, Sent]] = defaultdict(dict)
        self.values: dict[tuple[bytes, bool, int], bytes] = {}
        """Bytes of each numbered envelope, by direction and number."""
        self.flying: set[Direction] = set()
        """Directions that have unread records, delayed records, or records that are kept as rows and not accepted yet."""
        self.under_way: dict[Direction, set[int]] = defaultdict(set)
        """Numbers that are not accepted yet: late, unread in the queue, delayed, or held behind a gap."""
        self.kept: dict[Direction, Counter[int]] = defaultdict(Counter)
        """Dead letters of messages that were given up on, by direction and number."""
        self.uncertain: dict[Direction, set[int]] = defaultdict(set)
        """Dead letters of senders, for messages and fragments that the receiver may have accepted or kept all the same, by direction."""
        self.waiting: dict[Direction, Counter[int]] = defaultdict(Counter)
        """Rows of messages that are accepted and not settled, by direction and number."""
        self._generations: dict[tuple[bytes, int], int] = {}
        """The last generation in which a message of an initiator was sent, by ``Sent.first``."""
        self.with_sender: dict[Direction, set[int]] = defaultdict(set)
        """Numbers that their sender keeps, because it does not know yet whether the receiver has accepted them."""
        self.parked: set[tuple[bytes, bool]] = set()
        """Parked endpoints: conversation id and side, as in ``ends``."""
        self.set_aside: Counter[str] = Counter()
        self.unread: set[str] = set()
        """Services whose queue has records that its worker has not read."""
        for broker in brokers:
            for service in broker.services:
                self._read(broker, service)
            for out in broker.late + broker.stopped:
                self._note_on_the_way(out.value or b"")
        for source, target in permutations(brokers, 2):
            for record in waiting(source, target):
                self._note_on_the_way(record.value() or b"")
        self.handled = Counter(
            (entry.conversation, entry.to_initiator, number)
            for entry in self.ledger.handled
            for number in self.numbers((entry.conversation, entry.to_initiator), entry.number)
        )

    @property
    def ledger(self) -> Ledger:
        """The ledger of all clusters."""
        return self.brokers[0].ledger

    def _note_on_the_way(self, value: bytes) -> None:
        """Note an envelope that is in no queue yet."""
        conversation, from_initiator, _, number = said(value)
        direction = conversation, not from_initiator
        self.flying.add(direction)
        if number != NONE:
            envelope = decode(value)
            self._note_sent(envelope, envelope.prefix.to_service)
            self.under_way[direction].add(number)

    def numbers(self, direction: Direction, number: int) -> range:
        """Return the numbers of all fragments of the message whose last fragment has this number."""
        first = number
        while (sent := self.sent[direction].get(first - 1)) is not None and sent.last == number:
            first -= 1
        return range(first, number + 1)

    def _read(self, broker: FaultyBroker, service: str) -> None:
        tables = state_of(broker, service)
        for identity, found in endpoints_of(tables, service).items():
            self.ends[identity[:16], identity[16] == 1] = service, found
        queue = broker.topics[service_topic(broker.namespace, service, QUEUE)]
        for records, table in zip(queue, tables, strict=True):
            row = table.get(rows.PARTITION)
            position = partition_row(row).queue if row is not None else 0
            for record in records:
                if record.visible:
                    self._note(broker, service, record, read=record.offset() < position)
            for key, value in table.items():
                if key[:1] in {rows.PARK, rows.RETRY}:
                    self.parked.add((key[1:17], key[17] == 1))
                if key.startswith(rows.UNACKNOWLEDGED):
                    first = int.from_bytes(key[-8:], "big")
                    numbers = range(first, first + len(decode_tails(value)))
                    self.with_sender[key[1:17], key[17] == 0].update(numbers)
                if key[:1] in {rows.HELD, rows.DELAYED, rows.WAITING, rows.PARKED, rows.FRAGMENT}:
                    self._note_row(key, value)
        for record in visible(broker, service_topic(broker.namespace, service, DEAD_LETTER)):
            self._note_letter(service, record)

    def _note(self, broker: FaultyBroker, service: str, record: MemoryRecord, read: bool) -> None:
        if not read:
            self.unread.add(service)
        if (record.topic(), record.partition(), record.offset()) in broker.damaged:
            return  # it is discarded, and is as good as lost
        try:
            value = broker.plain(record)
            envelope = decode(value)
        except UndecodableRecord:
            return  # an unusable record, which is set aside or discarded
        direction = _direction(envelope)
        if not read:
            self.flying.add(direction)
        if envelope.seq != NONE:
            self._note_sent(envelope, service)
            if not read:
                self.under_way[direction].add(envelope.seq)
            before = self.values.setdefault((*direction, envelope.seq), value)
            # A first message that is transmitted again after a delay has a new deadline in its prefix.
            if before != value and before[tail_start(before) :] != value[tail_start(value) :]:
                raise AssertionError(
                    f"invariant 4 (once): there are two different messages {envelope.seq} of {name_of(direction[0])}"
                )

    def _note_sent(self, envelope: Envelope, service: str) -> None:
        origin = envelope.extras.origin if envelope.extras is not None else None
        side = b"" if envelope.prefix.from_initiator else b"t"
        first, generation = (envelope.prefix.conversation_id + side, envelope.seq), 0
        if origin is not None:
            first, generation = (origin.conversation_id, origin.seq), origin.generation
        sent = Sent(
            service, envelope.kind, envelope.message_type, envelope.prefix.contract, first, generation, last_number(envelope)
        )  # fmt: skip
        self.sent[_direction(envelope)].setdefault(envelope.seq, sent)
        if envelope.kind is Kind.MESSAGE:
            self._generations[first] = max(self._generations.get(first, 0), generation)

    def sent_again(self, sent: Sent) -> bool:
        """Return True if a message was sent again on a later dialog. Then it counts there."""
        return self._generations.get(sent.first, 0) > sent.generation

    def _note_row(self, key: bytes, value: bytes) -> None:
        row = decode_waiting(value)
        if has_commands(row.topic):
            return
        envelope = decode(row.value)
        direction = _direction(envelope)
        if key.startswith(rows.DELAYED):
            self.flying.add(direction)
            for it in following(envelope) if refers(row) else (envelope,):
                self._note_sent(it, it.prefix.to_service)
                self.under_way[direction].add(it.seq)
        elif key.startswith(rows.HELD):
            self.under_way[direction].add(envelope.seq)
        elif key.startswith(rows.FRAGMENT) or (row.accepted and envelope.kind is Kind.MESSAGE):
            self.waiting[direction][envelope.seq] += 1
        else:
            self.flying.add(direction)  # the worker will still process this record, though it may be a duplicate
            self.under_way[direction].add(envelope.seq)

    def _note_letter(self, service: str, record: MemoryRecord) -> None:
        headers = dict(record.headers() or ())
        reason = headers[letters.REASON].decode()
        if reason == letters.SET_ASIDE:
            self.set_aside[service] += 1
        if reason in {letters.SET_ASIDE, letters.COMMAND_REFUSED} or letters.SEQUENCE not in headers:
            return
        if letters.HELD in headers:
            return  # the letter is a copy of a held message, which is not settled
        envelope = decode(record.value() or b"")
        last, direction = envelope.seq, _direction(envelope)
        for number in range(last + 1 - int(headers.get(letters.FRAGMENTS, b"1")), last + 1):
            if reason == letters.UNDELIVERABLE:
                part = replace(envelope, seq=number, fragment=0, fragments=last - number + 1)
                self._note_sent(part, envelope.prefix.to_service)
            # The first fragments of an undeliverable message may have left before its dialog broke. Then its receiver has kept them, too.
            if letters.UNCERTAIN in headers or (reason == letters.UNDELIVERABLE and number < last):
                self.uncertain[direction].add(number)
            elif envelope.kind is Kind.MESSAGE:
                self.kept[direction][number] += 1

    def replaced_by(self, direction: Direction) -> bytes:
        """Return the id of the dialog on which the sender of a direction has sent again what was not accepted; empty if there is none."""
        found = self.ends.get((direction[0], not direction[1]))
        return found[1].replaced_by if found is not None and isinstance(found[1], rows.Tombstone) else b""

    def accepted(self, direction: Direction) -> int:
        """Return the last number that the receiver of a direction has accepted."""
        found = self.ends.get(direction)
        if found is None:
            return NONE
        return found[1].accepted if isinstance(found[1], rows.Tombstone) else found[1].inbound.accepted

    def ignored(self, sent: Sent, to_initiator: bool) -> bool:
        """Return True if no handler is called for this message type: the receiver declared that it ignores it, or it ends a dialog of a pool."""
        if sent.message_type == END_OF_STREAM:
            return True
        side = self.sides.get(sent.service, {}).get((sent.contract, to_initiator))
        receiver = side.receivers.get(sent.message_type) if side is not None else None
        return receiver is not None and receiver[1] is None


def _direction(envelope: Envelope) -> Direction:
    return envelope.prefix.conversation_id, not envelope.prefix.from_initiator
