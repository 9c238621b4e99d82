"""Free ports on the loopback interface."""

from __future__ import annotations

import random
import socket

from conversations_ops.broker.errors import PortTaken
from conversations_ops.broker.server import HOST

BELOW_EPHEMERAL = range(20_000, 32_000)  # Linux begins at 32768, others at 49152


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on just now. Another program may still take one first: be ready to try again.

    They lie below the range systems give to outgoing connections: a client that keeps trying to reach a stopped broker
    on a port of that range sooner or later connects to itself, and the broker cannot come back.
    """
    found: list[int] = []
    while len(found) < count:
        port = random.choice(BELOW_EPHEMERAL)
        if port not in found and is_free(port):
            found.append(port)
    return found


def is_free(port: int) -> bool:
    """Whether the port can be listened on."""
    try:
        check_free(port)
    except PortTaken:
        return False
    return True


def check_free(port: int) -> None:
    """Raises PortTaken when the port cannot be listened on, mostly because something else does."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does: ignore closed connections
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise PortTaken(
                f"Port {port} on {HOST} cannot be used: {error.strerror}. "
                "Choose another --port, or leave it out to get a free one"
            ) from error


def accepts(port: int) -> bool:
    """Whether a connection to the port succeeds."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((HOST, port)) == 0
