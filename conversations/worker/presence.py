"""Makes a worker known to the clients in the same process, so that requests of these clients can wait for replies."""

from __future__ import annotations

from collections.abc import Mapping

from conversations.hosts import Watcher, arrive, depart
from conversations.protocol.effects import Failure
from conversations.protocol.topics import partition_of
from conversations.worker.context import Context
from conversations.worker.partition import Partition


class Presence:
    """The part of a worker that the clients in the same process use."""

    def __init__(self, context: Context, partitions: Mapping[int, Partition], address: str) -> None:
        self._context = context
        self._partitions = partitions
        self._address = address

    def arrive(self) -> None:
        """Make the worker known: clients can make requests from now on."""
        arrive(self._address, self._context.name, self)

    def depart(self) -> None:
        """End the presence: clients can make no new requests, and a waiting request fails at its time-out."""
        depart(self._address, self._context.name, self)

    def abort(self, error: BaseException) -> None:
        """End all waiting requests with an error, because the worker died."""
        for watcher in self._context.watchers.all():
            watcher.over(Failure(0, f"the worker stopped: {error!r}"))

    def watch(self, conversation: bytes, watcher: Watcher) -> None:
        """Notify ``watcher`` of each message and acknowledgement of a conversation, and of its end."""
        with self._context.lock:
            self._context.watchers.watch(conversation, watcher)

    def forget(self, conversation: bytes) -> None:
        """End the notifications about a conversation."""
        with self._context.lock:
            self._context.watchers.forget(conversation)

    def owns(self, key: bytes) -> bool:
        """Return True if this worker owns the partition of this key."""
        count = self._context.destinations.partitions(self._context.name)
        return count is not None and partition_of(key, count) in self._partitions
