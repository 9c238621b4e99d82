"""Two adjacent brokers, and a link that is cut: ``python examples/service_broker/adjacent.py``. It needs Java 17 or newer.

The situation is from the text on Service Broker about its protocols. Each of two brokers has one side of a dialog. What the initiator sends waits with
its broker until the other broker has put it into the queue of the target, and has acknowledged it. The connection between them may come and
go meanwhile: the dialog does not notice it.

Here each broker is a Kafka, and the connection is a pair of forwarders. The program stops both, sends more, and prints what each view shows. Then it
starts them again.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from conversations import Client, Contract, Dialog, Kafka, Reader, Service, local
from conversations.kafka.admin import add_route, apply
from conversations.kafka.follow import Follower
from conversations.protocol.envelope import Kind, decode
from conversations.protocol.routes import Cluster
from conversations_ops.broker import EmbeddedBroker

PATIENCE = 60.0
"""Seconds after which the program gives up."""
LOOK = 0.1
"""Seconds between two looks at something that will come."""
LARGE = "scan" * 500_000


class Item(BaseModel):
    number: int


class Receipt(BaseModel):
    number: int
    scan: str = ""
    """A picture of the item. Item 5 has a large one, which goes in fragments among the small receipts."""


ITEMS = Contract("Items", sent_by_initiator=[Item], sent_by_target=[Receipt], lifetime=timedelta(days=1))

initiator = Service("initiator", initiates=[ITEMS])
target = Service("target", accepts=[ITEMS])
received: list[int] = []
"""The items that the target has handled, in order."""
receipts: list[int] = []
"""The receipts that the initiator has handled."""
scans: dict[int, int] = {}
"""Bytes of the pictures that the initiator has got, by item."""
handles: set[str] = set()
"""The handles of the target's sides, with which a reader asks about them."""


@target.on(Item)
def receive(item: Item, dialog: Dialog) -> None:
    """Note an item, and answer it. The acknowledgement travels with the answer."""
    received.append(item.number)
    handles.add(dialog.handle)
    dialog.send(Receipt(number=item.number, scan=LARGE if item.number == 5 else ""))


@initiator.on(Receipt)
def note(receipt: Receipt, _: Dialog) -> None:
    """Note a receipt."""
    receipts.append(receipt.number)
    if receipt.scan:
        scans[receipt.number] = len(receipt.scan)


class Brokers:
    """The two brokers, and what their views show of one dialog."""

    def __init__(self, here: Kafka, there: Kafka, cache: Path) -> None:
        self.here, self.there, self._cache = here, there, cache

    def command(self, kafka: Kafka, *arguments: str) -> list[str]:
        """Return the command line of a command on one of the brokers."""
        return [sys.executable, "-m", "conversations", *arguments, "--bootstrap", kafka.bootstrap]

    def run(self, kafka: Kafka, *arguments: str) -> dict[str, Any]:
        """Run a command, and return what it prints as JSON.

        Raises:
            RuntimeError: the command failed.
        """
        done = subprocess.run(
            [*self.command(kafka, *arguments), "--json"], capture_output=True, text=True, check=False, timeout=PATIENCE,
            env={**os.environ, "CONVERSATIONS_CACHE": str(self._cache)},
        )  # fmt: skip
        found = json.loads(done.stdout) if done.stdout else {"error": done.stderr}
        if "error" in found:
            raise RuntimeError(f"{' '.join(arguments)}: {found['error']}")
        return dict(found)

    def apply(self) -> None:
        """Create the topics of both services, and tell each broker where the other service lives.

        On the command line, these are ``conversations apply`` and ``conversations route add``.
        """
        apply(self.here, [initiator.declaration()], 1, 1)
        apply(self.there, [target.declaration()], 1, 1)
        add_route(self.here, "target", Cluster("over-there", self.there.bootstrap, self.there.namespace, 1), 1)
        add_route(self.there, "initiator", Cluster("over-here", self.here.bootstrap, self.here.namespace, 1), 1)

    @contextmanager
    def link(self) -> Iterator[None]:
        """Connect the brokers in both directions until the end of the block."""
        ways = [(self.here, "over-there"), (self.there, "over-here")]
        commands = [self.command(kafka, "forward", name, "--log-level", "error") for kafka, name in ways]
        forwarders = [subprocess.Popen(it, stdout=subprocess.DEVNULL) for it in commands]
        try:
            yield
        finally:
            for forwarder in forwarders:
                forwarder.terminate()
            for forwarder in forwarders:
                forwarder.wait(PATIENCE)

    def causes(self, dialog: str) -> list[str]:
        """Return why the dialog does not go on, as ``conversations why`` tells it on the broker of the initiator."""
        return [it["cause"] for it in self.run(self.here, "why", dialog)["causes"]]

    def transmitted_again(self) -> set[int]:
        """Return the items that are more than once in the transmission topic."""
        with Follower(self.here, [f"{self.here.namespace}.over-there.transmission"]) as follower:
            envelopes = [decode(record.value() or b"") for record in follower.to_the_end(PATIENCE)]
        found = Counter(Item.model_validate_json(it.body).number for it in envelopes if it.kind is Kind.MESSAGE)
        return {number for number, count in found.items() if count > 1}

    def fragments(self) -> int:
        """Return the number of fragments in which the large receipt went."""
        with Follower(self.there, [f"{self.there.namespace}.over-here.transmission"]) as follower:
            return max(decode(record.value() or b"").fragments for record in follower.to_the_end(PATIENCE))


def await_true(condition: Callable[[], object], what: str) -> None:
    """Look again and again until a condition is true.

    Raises:
        TimeoutError: it takes too long.
    """
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not happen within {PATIENCE:g} s")
        time.sleep(LOOK)


def send(client: Client, dialog: str, numbers: list[int]) -> None:
    """Send items on a dialog."""
    for number in numbers:
        with client.dialog(dialog) as block:
            block.send(Item(number=number))


def numbers(found: list[int]) -> str:
    """Return numbers as text."""
    return " ".join(map(str, found)) or "none"


@contextmanager
def brokers() -> Iterator[Brokers]:
    """Start two brokers, run a service on each, and tell each where the other service is."""
    with ExitStack() as stack:
        here, there = (Kafka(stack.enter_context(EmbeddedBroker()).bootstrap) for _ in range(2))
        cache = stack.enter_context(tempfile.TemporaryDirectory())
        found = Brokers(here, there, Path(cache))
        found.apply()
        stack.enter_context(local(initiator, kafka=here))
        stack.enter_context(local(target, kafka=there))
        yield found


def tour() -> None:
    """Send while the link is there, while it is cut, and after that."""
    with (
        brokers() as both,
        Client(initiator, both.here) as client,
        Reader(initiator, both.here) as sender,
        Reader(target, both.there) as receiver,
    ):
        with client.begin_dialog("target", ITEMS) as block:
            block.send(Item(number=1))
        dialog = block.id

        def tell(when: str) -> None:
            (handle,) = handles
            sent, there = sender.dialog(dialog).sent, receiver.dialog(handle).received
            print(
                f"{when:<19}initiator: {sent.sequenced} sent, {sent.unacknowledged} unacknowledged   target: {there.handled} handled"
            )

        with both.link():
            send(client, dialog, [2, 3])
            await_true(lambda: receipts == [1, 2, 3], "the first receipts")
            await_true(lambda: not sender.dialog(dialog).sent.unacknowledged, "the acknowledgement")
            tell("the link is there")
        send(client, dialog, [4, 5, 6])
        # After four seconds without an acknowledgement, the initiator transmits again; then after 8, 16, 32 and always 64.
        await_true(lambda: both.transmitted_again() >= {4, 5, 6}, "a second transmission")
        tell("the link is cut")
        print(f"  transmitted again  items {numbers(sorted(both.transmitted_again()))}")
        print(f"  why              {', '.join(both.causes(dialog))}")
        with both.link():
            await_true(lambda: len(receipts) >= 6, "the other receipts")
            await_true(lambda: not sender.dialog(dialog).sent.unacknowledged, "the acknowledgement")
            tell("the link is back")
        print(f"the target has     {numbers(received)}")
        print(f"the receipts       {numbers(receipts)}")
        for number, size in scans.items():
            print(f"  receipt {number}        {size:,} bytes, in {both.fragments()} fragments")


if __name__ == "__main__":
    tour()
