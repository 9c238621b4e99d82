"""Which services have a worker in this process: a request can only wait where its reply will arrive."""

from __future__ import annotations

import os
import threading
from typing import Protocol

from conversations.protocol.effects import Failure


class Watcher(Protocol):
    """A request that waits in this process for messages of its conversation."""

    def wants(self, message_type: str) -> bool:
        """Say whether this message answers the request: the dialog then ends in the same step."""

    def message(self, message_type: str, body: object) -> None:
        """A message was handled and the step is committed."""

    def acknowledged(self) -> None:
        """The peer has everything that was sent."""

    def over(self, failure: Failure | None) -> None:
        """The dialog is over, with an error or without, and the step is committed."""


class Host(Protocol):
    """A running worker, as a request sees it."""

    def watch(self, conversation: bytes, watcher: Watcher) -> None:
        """Tell ``watcher`` each message of a conversation that this process began."""

    def forget(self, conversation: bytes) -> None:
        """Tell nobody any more."""

    def owns(self, key: bytes) -> bool:
        """Say whether records of this key arrive at this worker now."""


_lock = threading.Lock()
_hosts: dict[tuple[int, str, str], Host] = {}


def arrive(address: str, service: str, host: Host) -> None:
    """Make a worker known to the clients of this process; ``address`` tells clusters and namespaces apart."""
    with _lock:
        _hosts[os.getpid(), address, service] = host


def depart(address: str, service: str, host: Host) -> None:
    """The worker stops."""
    with _lock:
        if _hosts.get((os.getpid(), address, service)) is host:
            del _hosts[os.getpid(), address, service]


def find(address: str, service: str) -> Host | None:
    """Return the worker of a service in this process, if there is one."""
    with _lock:
        return _hosts.get((os.getpid(), address, service))
