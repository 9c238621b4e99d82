"""Makes a worker known to the clients of its process, so that requests can wait for their replies."""

from __future__ import annotations

from conversations.presence import Watcher, arrive, depart
from conversations.protocol.effects import Failure
from conversations.protocol.topics import partition_of
from conversations.worker.loop import Worker


class Presence:
    """A worker as the clients of its process see it."""

    def __init__(self, worker: Worker, address: str) -> None:
        self._worker = worker
        self._address = address

    def arrive(self) -> None:
        """Requests may be made from now on."""
        arrive(self._address, self._worker.owner.name, self)

    def depart(self) -> None:
        """No requests from now on; those waiting time out."""
        depart(self._address, self._worker.owner.name, self)

    def abort(self, error: BaseException) -> None:
        """The worker died: tell everybody who waits."""
        for watcher in list(self._worker.owner.watchers.values()):
            watcher.over(Failure(0, f"the worker stopped: {error!r}"))

    def watch(self, conversation: bytes, watcher: Watcher) -> None:
        """Tell ``watcher`` what arrives on a conversation."""
        with self._worker.owner.lock:
            self._worker.owner.watchers[conversation] = watcher

    def forget(self, conversation: bytes) -> None:
        """Tell nobody any more."""
        with self._worker.owner.lock:
            self._worker.owner.watchers.pop(conversation, None)

    def owns(self, key: bytes) -> bool:
        """Say whether records of this key arrive at this worker."""
        owner = self._worker.owner
        count = owner.destinations.partitions(owner.name)
        return count is not None and partition_of(key, count) in self._worker.partitions
