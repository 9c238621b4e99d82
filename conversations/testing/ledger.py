"""Which messages were handled, counted when the transaction with their effects is committed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Handled(NamedTuple):
    """One message whose handler's effects are committed."""

    service: str
    conversation: bytes
    to_initiator: bool
    """Its direction: True on its way to the side that began the dialog."""
    number: int


class Ledger:
    """Committed effects in order, of all services of a simulation."""

    def __init__(self) -> None:
        self.handled: list[Handled] = []


class Page:
    """What one connection of one worker is about to commit, by partition."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._pending: dict[int, list[Handled]] = {}

    def note(self, partition: int, entry: Handled, attempt: int) -> None:
        """A handler returned; a further attempt replaces one whose result was refused."""
        pending = self._pending.setdefault(partition, [])
        if attempt > 1 and entry in pending:
            pending.remove(entry)
        pending.append(entry)

    def committed(self, partitions: Iterable[int]) -> None:
        """The transaction with the effects on these partitions is committed."""
        for partition in partitions:
            self._ledger.handled += self._pending.pop(partition, [])

    def discard(self, partitions: Iterable[int]) -> None:
        """The partitions were lost before what was handled could be committed."""
        for partition in partitions:
            self._pending.pop(partition, None)
