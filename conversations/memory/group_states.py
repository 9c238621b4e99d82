"""Reads rows and refused commands of a service from a ``MemoryBroker``, for readers outside the workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from conversations.errors import DeclarationError
from conversations.memory.broker import MemoryBroker
from conversations.memory.record import MemoryRecord
from conversations.ports import Table
from conversations.protocol import rows
from conversations.protocol.letters import RefusedCommand, refused_of
from conversations.protocol.topics import DEAD_LETTER, STATE, partition_of, service_topic

T = TypeVar("T")
_KINDS = (rows.ENDPOINT, rows.GROUP, rows.COMMAND, rows.PARK, rows.RETRY, rows.DELAYED, rows.SUCCESSION)


class MemoryGroupStates:
    """The rows of one service in memory."""

    def __init__(self, broker: MemoryBroker, service: str) -> None:
        self._broker, self._service = broker, service

    def look(self, key: str, want: Callable[[Table], T]) -> tuple[T, int]:
        """Return the result of ``want`` for the rows of the partition of ``key``, and the time in microseconds since 1970.

        Raises:
            DeclarationError: there is no such service.
        """
        with self._broker.changed:
            table: dict[bytes, dict[bytes, bytes]] = {kind: {} for kind in _KINDS}
            for record in self._visible(STATE, key):
                name, value = record.key() or b"", record.value()
                kept = table.get(name[:1], {})
                if value is None:
                    kept.pop(name, None)
                else:
                    kept[name] = rows.trimmed(name, value)
            return want(table), self._broker.clock.now()

    def read(self, key: str, names: list[bytes]) -> tuple[list[bytes], int]:
        """Return the rows of ``names`` that exist, and the time in microseconds since 1970. ``key`` is the key of the group.

        Raises:
            DeclarationError: there is no such service.
        """
        return self.look(key, lambda table: [table[rows.GROUP][name] for name in names if name in table[rows.GROUP]])

    def refused(self, key: str, conversation: str, *, initiator: bool) -> list[RefusedCommand]:
        """Return the commands for one side of a dialog that were refused, oldest first.

        Raises:
            DeclarationError: there is no such service.
        """
        with self._broker.changed:
            found = [
                refused_of({name: value or b"" for name, value in record.headers() or ()})
                for record in self._visible(DEAD_LETTER, key)
            ]
        return [it[2] for it in found if it is not None and it[:2] == (conversation, initiator)]

    def close(self) -> None:
        """Do nothing, because nothing is kept."""

    def _visible(self, kind: str, key: str) -> Iterator[MemoryRecord]:
        """Yield the committed records of the partition of ``key`` in one of the service's topics."""
        count = self._broker.services.get(self._service)
        if count is None:
            raise DeclarationError(f"there is no service {self._service!r}")
        topic, number = service_topic(self._broker.namespace, self._service, kind), partition_of(key.encode(), count)
        stable = self._broker.stable_end(topic, number)
        yield from (record for record in self._broker.topics[topic][number][:stable] if record.visible)
