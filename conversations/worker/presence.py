"""Makes a worker known to the clients of its process, so that requests can wait for their replies."""

from __future__ import annotations

from collections.abc import Mapping

from conversations.hosts import Watcher, arrive, depart
from conversations.protocol.effects import Failure
from conversations.protocol.topics import partition_of
from conversations.worker.context import Context
from conversations.worker.partition import Partition


class Presence:
    """A worker as the clients of its process see it."""

    def __init__(self, context: Context, partitions: Mapping[int, Partition], address: str) -> None:
        self._context = context
        self._partitions = partitions
        self._address = address

    def arrive(self) -> None:
        """Requests may be made from now on."""
        arrive(self._address, self._context.name, self)

    def depart(self) -> None:
        """No requests from now on; those waiting time out."""
        depart(self._address, self._context.name, self)

    def abort(self, error: BaseException) -> None:
        """The worker died: tell everybody who waits."""
        for watcher in list(self._context.watchers.values()):
            watcher.over(Failure(0, f"the worker stopped: {error!r}"))

    def watch(self, conversation: bytes, watcher: Watcher) -> None:
        """Tell ``watcher`` what arrives on a conversation."""
        with self._context.lock:
            self._context.watchers[conversation] = watcher

    def forget(self, conversation: bytes) -> None:
        """Tell nobody any more."""
        with self._context.lock:
            self._context.watchers.pop(conversation, None)

    def owns(self, key: bytes) -> bool:
        """Say whether records of this key arrive at this worker."""
        count = self._context.destinations.partitions(self._context.name)
        return count is not None and partition_of(key, count) in self._partitions
