"""Makes a worker known to the clients of its process, so that requests can wait for their replies."""

from __future__ import annotations

from collections.abc import Mapping

from conversations.hosts import Watcher, arrive, depart
from conversations.protocol.effects import Failure
from conversations.protocol.topics import partition_of
from conversations.worker.owner import Owner
from conversations.worker.partition import Partition


class Presence:
    """A worker as the clients of its process see it."""

    def __init__(self, owner: Owner, partitions: Mapping[int, Partition], address: str) -> None:
        self._owner = owner
        self._partitions = partitions
        self._address = address

    def arrive(self) -> None:
        """Requests may be made from now on."""
        arrive(self._address, self._owner.name, self)

    def depart(self) -> None:
        """No requests from now on; those waiting time out."""
        depart(self._address, self._owner.name, self)

    def abort(self, error: BaseException) -> None:
        """The worker died: tell everybody who waits."""
        for watcher in list(self._owner.watchers.values()):
            watcher.over(Failure(0, f"the worker stopped: {error!r}"))

    def watch(self, conversation: bytes, watcher: Watcher) -> None:
        """Tell ``watcher`` what arrives on a conversation."""
        with self._owner.lock:
            self._owner.watchers[conversation] = watcher

    def forget(self, conversation: bytes) -> None:
        """Tell nobody any more."""
        with self._owner.lock:
            self._owner.watchers.pop(conversation, None)

    def owns(self, key: bytes) -> bool:
        """Say whether records of this key arrive at this worker."""
        count = self._owner.destinations.partitions(self._owner.name)
        return count is not None and partition_of(key, count) in self._partitions
