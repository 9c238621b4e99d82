"""Serves the web console until it is told to end."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

import uvicorn

from conversations.errors import DeclarationError
from conversations_ops.web.application import application
from conversations_ops.web.connection import Connection
from conversations_ops.web.desk import Desk

CONNECTIONS = 200
"""Maximum number of connections and requests under way. Further ones get the status 503."""
GRACE = 5
"""Seconds that requests under way may take after the console was told to end."""


class Listen(NamedTuple):
    """Where the console listens."""

    host: str
    port: int
    """0 lets the system choose a free port."""
    certificate: Path | None = None
    """File with the certificate for TLS; None for no TLS."""
    key: Path | None = None
    """File with the private key of the certificate."""
    open_metrics: bool = False
    """True if the page for Prometheus needs no session."""

    @property
    def secure(self) -> bool:
        """True if the console is reached over TLS."""
        return self.certificate is not None

    def address(self, port: int) -> str:
        """Return the address for a browser."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}:{port}"


def is_local(host: str) -> bool:
    """Return True if only programs on this machine reach an address."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def bound(listen: Listen) -> socket.socket:
    """Return a socket that listens.

    Raises:
        DeclarationError: the address is in use or is no address of this machine.
    """
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    # With the protocol named, asyncio turns Nagle's algorithm off. Else the body of each page waits 40 ms for the receipt of its head.
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((listen.host, listen.port))
    except OSError as error:
        found.close()
        raise DeclarationError(
            f"cannot listen on {listen.host}:{listen.port}: {error.strerror or error}; choose another address with --listen"
        ) from error
    return found


def server(desk: Desk, listen: Listen) -> uvicorn.Server:
    """Return the server of a console. ``run(sockets=[...])`` serves until ``should_exit`` is set, or until a signal comes.

    Raises:
        DeclarationError: the certificate or the key cannot be read.
    """
    try:
        config = uvicorn.Config(
            application(desk, secure=listen.secure, open_metrics=listen.open_metrics), log_config=None, access_log=False, server_header=False, date_header=True,
            limit_concurrency=CONNECTIONS, timeout_keep_alive=10, timeout_graceful_shutdown=GRACE, proxy_headers=False, lifespan="off",
            ws="none", http=Connection, ssl_certfile=listen.certificate, ssl_keyfile=listen.key,
        )  # fmt: skip
        config.load()
    except OSError as error:
        raise DeclarationError(f"the certificate {listen.certificate} cannot be used: {error}") from error
    return uvicorn.Server(config)
