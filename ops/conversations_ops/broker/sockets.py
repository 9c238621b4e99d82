"""Finds free ports on the loopback interface."""

from __future__ import annotations

import random
import socket

from conversations_ops.broker.errors import PortTaken
from conversations_ops.broker.server import HOST

BELOW_EPHEMERAL = range(20_000, 32_000)  # outgoing connections use ports from 32768 on Linux, from 49152 elsewhere


def free_ports(count: int) -> list[int]:
    """Return ports on which no program listens now. Another program may take such a port first. Then the caller has to try again.

    The ports are below the range that systems use for outgoing connections. With a port of that range, a client that tries to connect to
    a stopped broker could connect to itself. Then the broker could not use its port again.
    """
    found: list[int] = []
    while len(found) < count:
        port = random.choice(BELOW_EPHEMERAL)
        if port not in found and is_free(port):
            found.append(port)
    return found


def is_free(port: int) -> bool:
    """Return True if no program uses the port, not even one that is bound to it and does not listen yet."""
    with socket.socket() as probe:  # without SO_REUSEADDR: a port of a connection that has just closed counts as used
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def check_free(port: int) -> None:
    """Raise PortTaken if no server can listen on the port, mostly because another program uses it."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # ignore closed connections, as the server does
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise PortTaken(
                f"Port {port} on {HOST} cannot be used: {error.strerror}. "
                "Choose another --port, or leave it out to get a free one"
            ) from error


def accepts(port: int) -> bool:
    """Return True if a connection to the port succeeds."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((HOST, port)) == 0
