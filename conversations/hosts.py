"""The services that have a worker in this process. A client can wait for a reply only in the process of the worker that gets the reply."""

from __future__ import annotations

import os
import threading
from typing import Protocol

from conversations.protocol.effects import Failure


class Watcher(Protocol):
    """A request that waits in this process for messages of its conversation."""

    def wants(self, message_type: str) -> bool:
        """Return True if this message answers the request. The worker then ends the dialog in the same step."""

    def message(self, message_type: str, body: object) -> None:
        """Take note of a message. Its step is committed; or it is the answer, and has no handler, so that the peer's commit is enough."""

    def taken(self) -> None:
        """Take note that the owner of the dialog has begun it, and has sent the request, in a committed step."""

    def acknowledged(self) -> None:
        """Take note that the peer has accepted everything that was sent."""

    def over(self, failure: Failure | None) -> None:
        """Take note that no message follows, because the dialog ended in a committed step or the worker failed.

        ``failure`` is the error, or None.
        """


class Host(Protocol):
    """The part of a running worker that a request uses."""

    def watch(self, conversation: bytes, watcher: Watcher) -> None:
        """Call ``watcher`` for each message of a conversation that this process began."""

    def forget(self, conversation: bytes) -> None:
        """Stop calling the watcher of this conversation."""

    def owns(self, key: bytes) -> bool:
        """Return True if records with this key arrive at this worker now."""


_lock = threading.Lock()
_hosts: dict[tuple[int, str, str], Host] = {}


def arrive(address: str, service: str, host: Host) -> None:
    """Make a worker known to the clients of this process. ``address`` has the cluster and the namespace."""
    with _lock:
        _hosts[os.getpid(), address, service] = host


def depart(address: str, service: str, host: Host) -> None:
    """Remove a worker that stops, so that clients of this process no longer find it."""
    with _lock:
        if _hosts.get((os.getpid(), address, service)) is host:
            del _hosts[os.getpid(), address, service]


def find(address: str, service: str) -> Host | None:
    """Return the worker of a service in this process, if there is one."""
    with _lock:
        return _hosts.get((os.getpid(), address, service))
