"""The process that holds a named broker: ``python -m conversations_ops.broker.daemon NAME [DATA] [PORT]``.

It writes one line of JSON to standard output: the broker's record, or an error. Then it serves until SIGTERM.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from pathlib import Path

from conversations_ops.broker.errors import BrokerError
from conversations_ops.broker.named import Record, serve


def answer(told: dict[str, object]) -> None:
    """Send the only answer to the command that started this process. Discard later output, because the command may have ended by then."""
    os.write(1, json.dumps(told).encode() + b"\n")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def main(name: str, data: str, port: str) -> int:
    """Run the broker until SIGTERM, and return 0. Return 1 if the broker could not start, or ended by itself."""

    def ready(record: Record) -> None:
        answer(dataclasses.asdict(record))

    try:
        serve(name, Path(data) if data else None, int(port) if port else None, ready)
    except BrokerError as error:
        answer({"error": error.message, "kind": type(error).__name__, "log": str(error.log_path or "")})
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
