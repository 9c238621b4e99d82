"""The health page of `conversations run`."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from conversations_ops.host.supervisor import GOOD

Services = Callable[[], list[dict[str, Any]]]
Metrics = Callable[[], tuple[int, str, bytes]]
"""Returns the status, the content type and the body of the page of metrics."""

TIMEOUT = 5.0
"""Maximum duration of a connection, in seconds."""
CONNECTIONS = 16
"""Maximum number of open connections. A further connection closes the oldest one."""


def verdict(services: list[dict[str, Any]]) -> tuple[int, dict[str, Any]]:
    """Return the status and the body of the page. The status is 200 if every worker is healthy, else 503.

    Two states are healthy: ``running`` (the worker has open partitions) and ``idle`` (the worker joined its group more than 30 s ago
    and has no partition, because there are more workers than partitions). All other states are unhealthy:

    * ``down``: the worker waits to be started again.
    * ``starting``, ``joining``, ``restoring``, ``stopping``.
    * ``silent``: the worker has sent no report for 10 s.
    * ``stuck``: the worker has finished no step for 60 s.
    * ``unreachable``: for the period ``Periods.unreachable_after``, no broker has answered the worker. The field ``kafka`` says what the
      worker tries.
    """
    healthy = all(worker["state"] in GOOD for service in services for worker in service["workers"])
    return 200 if healthy else 503, {"healthy": healthy, "services": services}


@dataclass
class _Connection:
    """One connection, and the thread that serves it."""

    socket: socket.socket
    thread: threading.Thread
    until: float


class _Server(ThreadingHTTPServer):
    """Serves each connection in a thread. The number of connections and the duration of each connection are limited.

    Some clients connect and send nothing, or send very slowly. Because of the limits, these clients cannot use up the descriptors or
    threads of the supervisor, and other clients are still served.
    """

    daemon_threads = True

    def __init__(self, address: tuple[str, int], page: type[BaseHTTPRequestHandler], timeout: float) -> None:
        self._seconds = timeout
        self._open: list[_Connection] = []
        """Open connections, oldest first. Only the thread that accepts connections uses this list."""
        super().__init__(address, page)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Close the oldest connections until fewer than CONNECTIONS are open. Then serve the new connection in a thread."""
        self._forget()
        while len(self._open) >= CONNECTIONS:
            self._end(self._open.pop(0))
        thread = threading.Thread(target=self.process_request_thread, args=(request, client_address), daemon=True)
        self._open.append(_Connection(request, thread, time.monotonic() + self._seconds))
        thread.start()

    def service_actions(self) -> None:
        """End connections whose time is over. The base class calls this twice a second."""
        self._forget()
        while self._open and self._open[0].until <= time.monotonic():
            self._end(self._open.pop(0))

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing, because a client may go away in the middle of its request."""

    def _forget(self) -> None:
        self._open = [it for it in self._open if it.thread.is_alive()]

    def _end(self, connection: _Connection) -> None:
        with contextlib.suppress(OSError):  # the connection may just have ended
            connection.socket.shutdown(socket.SHUT_RDWR)
        connection.thread.join()


@contextlib.contextmanager
def served(
    host: str, port: int, services: Services, timeout: float = TIMEOUT, metrics: Metrics | None = None
) -> Iterator[str]:
    """Serve ``GET /health`` in a thread, and yield its address.

    ``/ready`` is the same page. ``/metrics`` has the metrics for Prometheus. ``/live`` answers 200 as long as the supervisor runs, even if workers are unhealthy. A restart of the
    supervisor would not help: it restarts dead workers itself, and its restart would not make Kafka reachable.

    Args:
        host: address of this machine to listen on.
        port: port to listen on; 0 takes a free port.
        services: a function that returns the condition of the workers, by service. The function is called for each request.
        timeout: seconds that a connection may last.
        metrics: a function that makes the page ``/metrics``, for each request; None if there is no such page.

    Raises:
        OSError: the port is taken.
    """

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.path.partition("?")[0]
            if asked == "/live":
                self._answer(200, {"alive": True})
            elif asked in {"/health", "/ready"}:
                self._answer(*verdict(services()))
            elif asked == "/metrics" and metrics is not None:
                self._send(*metrics())
            else:
                self._answer(404, {"error": "only /health, /ready (the same page), /live and /metrics exist"})

        def _answer(self, status: int, data: dict[str, Any]) -> None:
            self._send(status, "application/json", json.dumps(data).encode() + b"\n")

        def _send(self, status: int, content_type: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name for it
            """Log nothing, because probes come every second."""

    server = _Server((host, port), Page, timeout)
    threading.Thread(target=server.serve_forever, name="health", daemon=True).start()
    try:
        yield f"http://{host}:{server.server_port}/health"
    finally:
        server.shutdown()
        server.server_close()
