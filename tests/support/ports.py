"""Ports of the loopback interface that a test keeps for servers which it starts later, or again."""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Self

from conversations_ops.broker.server import HOST
from conversations_ops.broker.sockets import free_ports


class KeptPorts:
    """Free ports that no other test takes while they are kept: a socket is bound to each port, and never listens.

    A server that sets SO_REUSEADDR can listen on such a port, as Kafka and asyncio do. ``free_ports`` does not choose it.
    """

    def __init__(self, count: int) -> None:
        self._sockets: list[socket.socket] = []
        while len(self._sockets) < count:
            (port,) = free_ports(1)
            self._keep(port)

    @property
    def numbers(self) -> list[int]:
        """The ports, in no order."""
        return [it.getsockname()[1] for it in self._sockets]

    def close(self) -> None:
        """Give the ports back."""
        for it in self._sockets:
            it.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _keep(self, port: int) -> None:
        it = socket.socket()
        it.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            it.bind((HOST, port))
        except OSError:  # another program was faster
            it.close()
        else:
            self._sockets.append(it)
