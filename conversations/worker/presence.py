"""Makes a worker known to the clients in the same process, so that requests of these clients can wait for replies."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from conversations.hosts import Watcher, arrive, depart
from conversations.protocol.effects import Failure
from conversations.protocol.endpoint import Endpoint
from conversations.protocol.topics import partition_of
from conversations.worker.active import Arrival
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


def pass_on(partition: Partition, item: Arrival, body: object, *, at_once: bool) -> bool:
    """Pass a handled message on to the client's request that waits for it, if any. Return True if it is the answer.

    ``at_once`` is True if the client may have the answer before the commit: it has no handler, so it has no result.
    """
    conversation, message_type = item.active.identity[:16], item.envelope.message_type
    watchers = partition.context.watchers
    watcher = watchers.find(conversation)
    if watcher is None:
        return False
    is_answer = watcher.wants(message_type)
    if at_once and is_answer:
        watchers.answer(conversation, watcher, message_type, body)
        partition.outbox.notify(partial(watchers.committed, conversation))
    else:
        partition.outbox.notify(partial(watcher.message, message_type, body))
    return is_answer


def tell_answers(context: Context) -> None:
    """Tell clients of this process the answers that no handler has to handle. Each call is made without the lock, like a notice."""
    if context.watchers.there:
        with context.lock:
            answers = context.watchers.take_answers()
        for tell in answers:
            tell()


def tell_acknowledged(partition: Partition, endpoint: Endpoint) -> None:
    """Tell a client in this process that the peer has acknowledged the client's request. The client is told after the commit."""
    watcher = partition.context.watchers.find(endpoint.conversation) if endpoint.initiator else None
    if watcher is not None:
        partition.outbox.notify(watcher.acknowledged)
