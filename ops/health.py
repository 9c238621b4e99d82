"""The health page of `conversations run`."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ops.supervisor import GOOD

Services = Callable[[], list[dict[str, Any]]]


def verdict(services: list[dict[str, Any]]) -> tuple[int, dict[str, Any]]:
    """Status and body of the page: 200 when every worker process is up and works, else 503.

    A worker works when it has open partitions (``running``), or has been in its group for half a minute and got none
    (``idle``: there are more workers than partitions). It does not when it is ``down`` (waiting to be started again),
    ``starting``, ``joining``, ``restoring``, ``stopping``, ``silent`` (no report for 10 s) or ``stuck`` (no step for
    60 s).
    """
    healthy = all(worker["state"] in GOOD for service in services for worker in service["workers"])
    return 200 if healthy else 503, {"healthy": healthy, "services": services}


@contextlib.contextmanager
def served(host: str, port: int, services: Services) -> Iterator[str]:
    """Serve ``GET /health`` in a thread, and yield its address.

    Args:
        host: which of the machine's addresses.
        port: 0 is a free one.
        services: how the workers are.

    Raises:
        OSError: the port is taken.
    """

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.partition("?")[0] != "/health":
                self._answer(404, {"error": "there is only /health"})
            else:
                self._answer(*verdict(services()))

        def _answer(self, status: int, data: dict[str, Any]) -> None:
            body = json.dumps(data).encode() + b"\n"
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's word
            """Probes come every second: nothing to tell."""

    server = ThreadingHTTPServer((host, port), Page)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="health", daemon=True).start()
    try:
        yield f"http://{host}:{server.server_port}/health"
    finally:
        server.shutdown()
        server.server_close()
