"""What is known about a dialog when somebody asks why it stalls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from conversations.durations import SECOND
from conversations_ops.operate.dialogs import Side
from conversations_ops.operate.queues import Queue
from conversations_ops.read_model.letters import Kept

LONG = 5 * SECOND
"""Duration after which an open transaction is named, in microseconds. A worker or sender of this product ends one within milliseconds."""


@dataclass(frozen=True)
class Facts:
    """The sides of one dialog, and the services and partitions that they depend on. Times are in microseconds since 1970."""

    sides: Sequence[Side]
    """The known sides, the initiator's side first."""
    queues: Mapping[tuple[str, int], Queue]
    """The queues of the services of the sides and of their peers, by service and partition."""
    owned: Mapping[str, frozenset[int]]
    """The partitions that have an owner, by service."""
    unread: Mapping[tuple[str, int], int]
    """Number of records in a queue that are not read yet, by service and partition."""
    aside: Mapping[tuple[str, int], tuple[int, str]]
    """The partitions that are set aside, by service and partition: since when and why."""
    transactions: Mapping[tuple[str, int], int]
    """The queues with a transaction that is open for ``LONG`` or more, by service and partition: since when."""
    services: frozenset[str]
    """The services of the namespace."""
    letters: Sequence[Kept]
    """The open letters of the dialog."""
    now: int

    def queue(self, it: Side) -> Queue | None:
        """Return the queue of the partition of a side."""
        return self.queues.get((it.service, it.partition))

    def other(self, it: Side) -> Side | None:
        """Return the other side; None if it is not known."""
        return next((side for side in self.sides if side.initiator != it.initiator), None)
