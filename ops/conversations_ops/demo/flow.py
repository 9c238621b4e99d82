"""Sends the flights of the demo to services that run already: ``python -m conversations_ops.demo.flow``.

``conversations demo`` starts its own Kafka and its own services. This program needs both, and is for the containers of docker-compose.yml. The
variables ``CONVERSATIONS_BOOTSTRAP`` and ``CONVERSATIONS_NAMESPACE`` choose the Kafka.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence

from conversations import Client, Kafka
from conversations.errors import ConversationError, LogError
from conversations.protocol.topics import DEFAULT_NAMESPACE
from conversations_ops.console.exit_codes import Exit
from conversations_ops.demo.flights import NoFlights, read_flights
from conversations_ops.demo.operations import operations
from conversations_ops.demo.sending import Sender
from conversations_ops.printable import lines

SHOWN = 3
"""Number of different errors that are shown."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Send flights, each once. Return 0 after the last flight, 1 if Kafka did not accept one, 2 if there is no address or no data."""
    parser = argparse.ArgumentParser(prog="python -m conversations_ops.demo.flow", description=__doc__)
    parser.add_argument("--flights", type=int, help="number of flights to send (default: all of January 2013)")
    asked = parser.parse_args(arguments)
    bootstrap = os.environ.get("CONVERSATIONS_BOOTSTRAP", "")
    if not bootstrap:
        parser.error("set CONVERSATIONS_BOOTSTRAP to the address of Kafka")
    kafka = Kafka(bootstrap, namespace=os.environ.get("CONVERSATIONS_NAMESPACE", DEFAULT_NAMESPACE))
    try:
        flights = read_flights()[: asked.flights]
    except NoFlights as error:
        sys.stderr.write(f"error: {error}\n")
        return Exit.USAGE
    failed = ""
    with Client(operations, kafka) as client:
        sender = Sender(client, flights)
        try:
            asyncio.run(sender.send_all(lambda: False))
        except* (ConversationError, LogError) as group:
            failed = "; ".join(sorted({str(it) for it in group.exceptions})[:SHOWN])
    sys.stdout.write(f"sent {sender.sent} of {len(flights)} flights\n")
    if failed:
        sys.stderr.write(f"error: {lines(failed)}\n")
    return Exit.HUMAN if failed else Exit.FINE


if __name__ == "__main__":
    sys.exit(main())
