"""What is known about a dialog when somebody asks why it stalls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from conversations.config import Kafka
from conversations_ops.operate.dialogs import Side
from conversations_ops.operate.queues import Queue
from conversations_ops.read_model.letters import Kept


class Way(NamedTuple):
    """The way to another cluster, as a route names it."""

    cluster: str
    bootstrap: str
    partitions: int
    """Partition count of the transmission topic."""
    carried: frozenset[int]
    """The partitions of this topic that a forwarder has."""
    away: tuple[int, str] | None = None
    """Since when the forwarders cannot carry, and why; None if the last event about the cluster says that they can."""
    ended: int | None = None
    """Time at which the last forwarder said that it ends; None if none said so."""
    lacked: int | None = None
    """Time at which a forwarder found no such service there; None if none did. Nobody tells when the service is applied after that."""

    @property
    def is_carried(self) -> bool:
        """True if every partition has a forwarder."""
        return len(self.carried) >= self.partitions


class Unacknowledged(NamedTuple):
    """What a service has sent to a peer, and the peer has not acknowledged."""

    envelopes: int
    next_try: int | None
    """Time of the next retransmission, microseconds since 1970; None if it is not known."""


@dataclass(frozen=True)
class Facts:
    """The sides of one dialog, and the services and partitions that they depend on. Times are in microseconds since 1970."""

    kafka: Kafka
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
    """The last letters of the messages of the dialog."""
    now: int
    lacking: Mapping[tuple[str, str], Sequence[str]] = field(default_factory=dict)
    """The users of the workers of a service that may not write to the queue of a peer, by service and peer, as far as that is known."""
    ways: Mapping[str, Way] = field(default_factory=dict)
    """The ways to the services that live on another cluster, by service."""
    unacknowledged: Mapping[tuple[str, str], Unacknowledged] = field(default_factory=dict)
    """What is not acknowledged by the peers on other clusters, by service and peer."""
    ahead: Facts | None = None
    """The facts about the first dialog of the pool's key, if the dialog waits for another one."""

    def queue(self, it: Side) -> Queue | None:
        """Return the queue of the partition of a side."""
        return self.queues.get((it.service, it.partition))

    def partitions(self, service: str) -> list[int]:
        """Return the numbers of all partitions of a service."""
        return sorted(number for name, number in self.queues if name == service)

    def other(self, it: Side) -> Side | None:
        """Return the other side; None if it is not known."""
        return next((side for side in self.sides if side.initiator != it.initiator), None)
