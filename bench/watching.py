"""A connection to Kafka that notes when its worker's partitions move."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from conversations.kafka.connection import KafkaConnection
from conversations.ports import Listener


class Moves:
    """How often a worker's partitions moved, over all its connections."""

    count = 0
    assigned_at = 0.0
    """Time of the first assignment, on the clock of ``time.perf_counter``. From then on the worker takes its partitions up."""

    def note(self) -> None:
        self.count += 1
        self.assigned_at = self.assigned_at or time.perf_counter()


class WatchedConnection(KafkaConnection):
    """A connection that notes each move. The worker itself may be compiled, and a compiled class has no subclass in Python."""

    def __init__(self, moves: Moves, *given: Any) -> None:
        super().__init__(*given)
        self._moves = moves

    def join(self, listener: Listener) -> None:
        super().join(_Watcher(listener, self._moves))


class _Watcher:
    """A listener that passes every call on."""

    def __init__(self, listener: Listener, moves: Moves) -> None:
        self._listener = listener
        self._moves = moves

    def assigned(self, partitions: Sequence[int]) -> None:
        self._moves.note()
        self._listener.assigned(partitions)

    def revoked(self, partitions: Sequence[int]) -> None:
        self._moves.note()
        self._listener.revoked(partitions)

    def lost(self, partitions: Sequence[int]) -> None:
        self._moves.note()
        self._listener.lost(partitions)
