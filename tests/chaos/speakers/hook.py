"""``python -m tests.chaos.speakers.hook PORT BOOTSTRAP NAMESPACE``: a web server of the shop, whose hook speaks on accepted dialogs.

``POST /`` with ``{"handle": ..., "n": ...}`` says the message of this number, and answers 204 when Kafka has it, else 503. A repetition takes
effect once, because the number is the idempotency key.
"""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from conversations import Client, Kafka, NotAccepted
from tests.chaos.speakers.services import HOOK, Said, shop_1

PATIENCE = timedelta(seconds=20)


def main(port: str, bootstrap: str, namespace: str) -> None:
    """Serve until the process is killed."""
    client = Client(shop_1(), Kafka(bootstrap, namespace=namespace), timeout=PATIENCE)

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            try:
                with client.dialog(asked["handle"]) as dialog:
                    dialog.send(Said(speaker=HOOK, n=asked["n"]), key=f"{HOOK}-{asked['n']}")
            except NotAccepted:
                self.send_error(503)
            else:
                self.send_response(204)
                self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the name in the standard library
            """Say nothing about each request."""

    ThreadingHTTPServer(("127.0.0.1", int(port)), Hook).serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
