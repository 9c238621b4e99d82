"""Reads the rows of conversation groups from a ``MemoryBroker``, for readers outside the workers."""

from __future__ import annotations

from conversations.errors import DeclarationError
from conversations.memory.broker import MemoryBroker
from conversations.protocol.topics import STATE, partition_of, service_topic


class MemoryGroupStates:
    """The group rows of one service in memory."""

    def __init__(self, broker: MemoryBroker, service: str) -> None:
        self._broker, self._service = broker, service

    def read(self, key: str, names: list[bytes]) -> tuple[list[bytes], int]:
        """Return the rows of ``names`` that exist, and the time in microseconds since 1970. ``key`` is the key of the group.

        Raises:
            DeclarationError: there is no such service.
        """
        with self._broker.changed:
            count = self._broker.services.get(self._service)
            if count is None:
                raise DeclarationError(f"there is no service {self._service!r}")
            topic = service_topic(self._broker.namespace, self._service, STATE)
            wanted, found = frozenset(names), dict[bytes, bytes | None]()
            number = partition_of(key.encode(), count)
            stable = self._broker.stable_end(topic, number)
            for record in self._broker.topics[topic][number][:stable]:
                if record.visible and (name := record.key() or b"") in wanted:
                    found[name] = record.value()
            return [row for name in names if (row := found.get(name)) is not None], self._broker.clock.now()
