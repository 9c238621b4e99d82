"""A ledger of the effects of committed transactions: handled messages, dead letters and sent numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from conversations.errors import UndecodableRecord
from conversations.memory.record import MemoryRecord
from conversations.protocol import letters
from conversations.protocol.envelope import Kind
from conversations.protocol.sequencing import NONE
from conversations.protocol.topics import DEAD_LETTER
from conversations.testing.said import said


class Handled(NamedTuple):
    """One message whose handler's effects are committed."""

    service: str
    conversation: bytes
    to_initiator: bool
    """True for a message to the initiator, False for a message to the target."""
    number: int


class Letter(NamedTuple):
    """One message that was given up on."""

    service: str
    conversation: bytes
    to_initiator: bool
    number: int
    reason: str


class Step(NamedTuple):
    """The handled messages and the dead letters of one transaction."""

    handled: Sequence[Handled]
    letters: Sequence[Letter]


class Ledger:
    """Committed effects in order, of all services of a simulation."""

    def __init__(self) -> None:
        self.handled: list[Handled] = []
        self.steps: list[Step] = []
        self.said: Counter[tuple[bytes, bool, int]] = Counter()
        """For each envelope, the number of committed transactions that sent it.

        The key has the conversation id, the sender (True for the initiator) and the number.
        """
        self._spoken: dict[tuple[bytes, bool], int] = {}
        """Highest number that committed transactions sent, by conversation id and sender."""
        self._asked: set[tuple[bytes, bool]] = set()
        """Senders of which the receiver has asked for missing envelopes (RESEND): conversation id, and True for the initiator."""
        self.failed: set[tuple[str, bytes]] = set()
        """Pairs of a service and a conversation id for which a handler raised an exception."""

    def commit(self, service: str, handled: Sequence[Handled], records: Sequence[MemoryRecord]) -> None:
        """Note the effects of a transaction. ``records`` are its records for queues and dead-letter topics."""
        self.handled += handled
        kept = []
        for record in records:
            if not record.topic().endswith(f".{DEAD_LETTER}"):
                self.say(record.value())
                continue
            headers = dict(record.headers() or ())
            if letters.SEQUENCE in headers and letters.HELD not in headers:
                kept.append(_letter(service, headers))
        if handled or kept:
            self.steps.append(Step(handled, kept))

    def speak(self, sent: Iterable[bytes | None]) -> None:
        """Check that the numbers of each direction are sent in order. ``sent`` are the values of records for queues.

        Raises:
            AssertionError: a lower number was sent after a higher one.
        """
        for value in sent:
            self._speak(value)

    def _speak(self, value: bytes | None) -> None:
        try:
            conversation, from_initiator, kind, number = said(value)
        except UndecodableRecord:
            return  # no worker wrote this record
        if kind is Kind.RESEND:
            self._asked.add((conversation, not from_initiator))
        last = self._spoken.get((conversation, from_initiator), NONE)
        if number != NONE and number < last and (conversation, from_initiator) not in self._asked:
            raise AssertionError(f"invariant 3 (in order): {conversation.hex()} sends number {number} after {last}")
        self._spoken[conversation, from_initiator] = max(last, number)

    def may_repeat(self, value: bytes | None) -> None:
        """Note that the sender of an envelope may send its numbers again unasked, because the receiver is on another cluster."""
        try:
            conversation, from_initiator, _, _ = said(value)
        except UndecodableRecord:
            return  # no worker wrote this record
        self._asked.add((conversation, from_initiator))

    def say(self, value: bytes | None) -> None:
        """Count a numbered envelope that a transaction sends."""
        try:
            conversation, from_initiator, _, number = said(value)
        except UndecodableRecord:
            return  # no worker wrote this record
        if number != NONE and not self._is_again(conversation, from_initiator, number):
            self.said[conversation, from_initiator, number] += 1

    def _is_again(self, conversation: bytes, from_initiator: bool, number: int) -> bool:
        """Return True if an envelope was sent before, and its receiver has asked for missing envelopes."""
        direction = conversation, from_initiator
        return direction in self._asked and (conversation, from_initiator, number) in self.said


def _letter(service: str, headers: dict[str, bytes]) -> Letter:
    conversation = UUID(headers[letters.CONVERSATION].decode()).bytes
    to_initiator = headers[letters.FROM_INITIATOR] != b"true"
    number, reason = int(headers[letters.SEQUENCE]), headers[letters.REASON].decode()
    return Letter(service, conversation, to_initiator, number, reason)


class Page:
    """Handled messages that one connection of a worker is about to commit, by partition."""

    def __init__(self) -> None:
        self._pending: dict[int, list[Handled]] = {}
        self._flying: set[int] = set()
        """Partitions of the transaction under way. If a message of such a partition is handled now, it belongs to the next transaction."""
        self._later: dict[int, list[Handled]] = {}

    def flies(self, partitions: Iterable[int]) -> None:
        """Note that a transaction of these partitions is under way, or is tried again."""
        self._flying |= set(partitions)

    def landed(self) -> None:
        """Note that the transaction is committed. Messages handled meanwhile belong to the next transaction."""
        later, self._later = self._later, {}
        self._flying.clear()
        for partition, entries in later.items():
            self._pending.setdefault(partition, []).extend(entries)

    def note(self, partition: int, entry: Handled, attempt: int) -> None:
        """Note that a handler returned. A further attempt replaces the earlier attempt, whose result was refused."""
        pages = self._later if partition in self._flying else self._pending
        pending = pages.setdefault(partition, [])
        if attempt > 1 and entry in pending:
            pending.remove(entry)
        pending.append(entry)

    def take(self, partitions: Iterable[int]) -> list[Handled]:
        """Remove and return the handled messages of these partitions, because their transaction is about to be decided."""
        return [entry for partition in partitions for entry in self._pending.pop(partition, [])]

    def discard(self, partitions: Iterable[int]) -> None:
        """Drop the handled messages of partitions that were lost before the commit."""
        for partition in partitions:
            self._pending.pop(partition, None)
            self._later.pop(partition, None)
            self._flying.discard(partition)
