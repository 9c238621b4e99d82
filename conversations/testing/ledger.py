"""What took effect, counted when the transaction with the effects is committed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from conversations.errors import UndecodableRecord
from conversations.memory.record import MemoryRecord
from conversations.ports import Headers
from conversations.protocol import letters
from conversations.protocol.envelope import HEADER_NAME, split_header
from conversations.protocol.sequencing import NONE


class Handled(NamedTuple):
    """One message whose handler's effects are committed."""

    service: str
    conversation: bytes
    to_initiator: bool
    """Its direction: True on its way to the side that began the dialog."""
    number: int


class Letter(NamedTuple):
    """One message that was given up on."""

    service: str
    conversation: bytes
    to_initiator: bool
    number: int
    reason: str


class Step(NamedTuple):
    """What one transaction did."""

    handled: Sequence[Handled]
    letters: Sequence[Letter]


class Ledger:
    """Committed effects in order, of all services of a simulation."""

    def __init__(self) -> None:
        self.handled: list[Handled] = []
        self.steps: list[Step] = []
        self.said: Counter[tuple[bytes, bool, int]] = Counter()
        """How many committed transactions sent this number of this conversation from the side that began it, or not."""
        self._spoken: dict[tuple[bytes, bool], int] = {}
        """The last number of each direction that a committed transaction sent."""
        self.failed: set[tuple[str, bytes]] = set()
        """Services and conversations of which a handler raised."""

    def commit(self, service: str, handled: Sequence[Handled], records: Sequence[MemoryRecord]) -> None:
        """Note what a transaction brings about; ``records`` are what it appends to queues and dead letters."""
        self.handled += handled
        kept = []
        for record in records:
            headers = dict(record.headers() or ())
            if (header := headers.get(HEADER_NAME)) is not None:
                self.say(header)
            elif letters.SEQUENCE in headers and letters.HELD not in headers:
                kept.append(_letter(service, headers))
        if handled or kept:
            self.steps.append(Step(handled, kept))

    def speak(self, sent: Iterable[Headers | None]) -> None:
        """Check that each direction's numbers are sent in their order.

        Raises:
            AssertionError: one overtook another.
        """
        for headers in sent:
            for name, header in headers or ():
                if name == HEADER_NAME:
                    self._speak(header)

    def _speak(self, header: bytes) -> None:
        try:
            conversation, from_initiator, _, number = split_header(header)
        except UndecodableRecord:
            return  # no worker's
        last = self._spoken.get((conversation, from_initiator), NONE)
        if number != NONE and number < last:
            raise AssertionError(f"invariant 3 (in order): {conversation.hex()} says number {number} after {last}")
        self._spoken[conversation, from_initiator] = max(last, number)

    def say(self, header: bytes) -> None:
        """Count a numbered envelope that a transaction sends."""
        try:
            conversation, from_initiator, _, number = split_header(header)
        except UndecodableRecord:
            return  # no worker's
        if number != NONE:
            self.said[conversation, from_initiator, number] += 1


def _letter(service: str, headers: dict[str, bytes]) -> Letter:
    conversation = UUID(headers[letters.CONVERSATION].decode()).bytes
    to_initiator = headers[letters.FROM_INITIATOR] != b"true"
    number, reason = int(headers[letters.SEQUENCE]), headers[letters.REASON].decode()
    return Letter(service, conversation, to_initiator, number, reason)


class Page:
    """What one connection of one worker is about to commit, by partition."""

    def __init__(self) -> None:
        self._pending: dict[int, list[Handled]] = {}
        self._flying: set[int] = set()
        """Partitions of the transaction under way: what is handled of them now comes with the next one."""
        self._later: dict[int, list[Handled]] = {}

    def flies(self, partitions: Iterable[int]) -> None:
        """A transaction of these partitions is under way, or tried again."""
        self._flying |= set(partitions)

    def landed(self) -> None:
        """It is committed: what was handled meanwhile is to be committed next."""
        later, self._later = self._later, {}
        self._flying.clear()
        for partition, entries in later.items():
            self._pending.setdefault(partition, []).extend(entries)

    def note(self, partition: int, entry: Handled, attempt: int) -> None:
        """A handler returned; a further attempt replaces one whose result was refused."""
        pages = self._later if partition in self._flying else self._pending
        pending = pages.setdefault(partition, [])
        if attempt > 1 and entry in pending:
            pending.remove(entry)
        pending.append(entry)

    def take(self, partitions: Iterable[int]) -> list[Handled]:
        """Take what was handled on these partitions: its transaction is about to be decided."""
        return [entry for partition in partitions for entry in self._pending.pop(partition, [])]

    def discard(self, partitions: Iterable[int]) -> None:
        """The partitions were lost before what was handled could be committed."""
        for partition in partitions:
            self._pending.pop(partition, None)
            self._later.pop(partition, None)
            self._flying.discard(partition)
