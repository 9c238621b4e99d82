"""Two releases side by side on a real Kafka, forward and back, under load.

Nothing is set aside, no dialog ends, and the next release handles what is held.
"""

import os
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event

import pytest

from conversations import Client, Kafka
from conversations.kafka.admin import apply
from conversations.kafka.follow import Follower
from conversations.protocol import letters
from conversations_ops.operate.parked import parked_messages
from tests.acceptance.services import releases
from tests.acceptance.services.releases import FIRST, SECOND, Cancel, FirstOrder, SecondOrder, services
from tests.acceptance.support.command_line import Running
from tests.acceptance.support.operator import Terminal
from tests.support.waiting import until

pytestmark = [pytest.mark.acceptance, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(900)]

DIALOGS = int(os.environ.get("RELEASES_DIALOGS", "12"))
"""Number of dialogs that each stage begins."""
LOAD = int(os.environ.get("RELEASES_LOAD", "100"))
"""Number of orders that are sent while the releases of one stage start and stop."""


class World:
    """The clients of both releases, the processes, and the files of the services."""

    def __init__(self, kafka: Kafka, out: Path) -> None:
        self.kafka, self.out = kafka, out
        self.sent: dict[str, int] = {}
        """Number of messages sent to the shop, by dialog."""

    @contextmanager
    def running(self, target: str, release: int) -> Iterator[Running]:
        variables = {"RELEASE": str(release)}
        slot = f"{target}{release}"
        with Running(self.kafka, self.out, f"releases:{target}", "--slot", slot, variables=variables) as run:
            yield run.ready()

    def begin(self, client: Client, release: int) -> None:
        for _ in range(DIALOGS):
            with client.begin_dialog("shop", FIRST if release == 1 else SECOND) as dialog:
                dialog.send(FirstOrder(n=0) if release == 1 else SecondOrder(n=0, currency="CHF"))
            self.sent[dialog.id] = 1

    @contextmanager
    def load(self, client: Client, release: int) -> Iterator[None]:
        """Send orders on all dialogs in turn, until the block has ended and at least ``LOAD`` orders are sent."""
        over, before = Event(), sum(self.sent.values())

        def send() -> None:
            while not over.is_set() or sum(self.sent.values()) < before + LOAD:
                self.order(client, release)

        with ThreadPoolExecutor(1) as pool:
            sending = pool.submit(send)
            try:
                yield
            finally:
                over.set()
            sending.result()

    def order(self, client: Client, release: int) -> None:
        """Send one more order on every dialog."""
        for name, number in self.sent.items():
            with client.dialog(name) as dialog:
                dialog.send(FirstOrder(n=number) if release == 1 else SecondOrder(n=number, currency="CHF"))
            self.sent[name] += 1

    def cancel(self, client: Client) -> None:
        """Send a message of the new type on every other dialog."""
        for name in list(self.sent)[::2]:
            with client.dialog(name) as dialog:
                dialog.send(Cancel(n=self.sent[name]))
            self.sent[name] += 1

    def handled(self, name: str) -> dict[str, list[int]]:
        found: dict[str, list[int]] = defaultdict(list)
        path = self.out / name
        for line in path.read_text().splitlines() if path.exists() else ():
            conversation, n, _ = line.split(" ")
            found[conversation].append(int(n))
        return found

    def settled(self) -> bool:
        """Return True if every message has been handled or waits in a parked dialog, on both sides."""
        orders, receipts = self.handled("orders"), self.handled("receipts")
        waits = sum(1 + it.behind for it in parked_messages(self.kafka, "shop"))
        back = sum(1 + it.behind for it in parked_messages(self.kafka, "desk"))
        count = sum(map(len, orders.values()))
        return count + waits == sum(self.sent.values()) and sum(map(len, receipts.values())) + back == count

    def reasons(self) -> set[str]:
        """Return the reasons of all dead letters."""
        topics = [f"{self.kafka.namespace}.{name}.dead-letter" for name in ("desk", "shop")]
        with Follower(self.kafka, topics) as follower:
            return {dict(it.headers() or ())[letters.REASON].decode() for it in follower.to_the_end(60)}


def test_two_releases_work_side_by_side_forward_and_back(kafka: Kafka, tmp_path: Path) -> None:
    first, second = services(1), services(2)
    world, terminal = World(kafka, tmp_path), Terminal(kafka, tmp_path)
    apply(kafka, [it.declaration() for it in first], 4, 1)
    old, new = Client(first[0], kafka), Client(second[0], kafka)
    with old, new, ExitStack() as late, world.running("shop", 1):
        world.begin(old, 1)
        with ExitStack() as early:
            early.enter_context(world.running("desk", 1))
            with world.load(old, 1):
                lines = apply(kafka, [it.declaration() for it in second])
                assert any("peers hold messages of the new type Cancel" in line for line in lines)
                releases.publish(kafka)
                early.enter_context(world.running("shop", 2))
                late.enter_context(world.running("desk", 2))
            world.begin(old, 1)
            world.order(old, 1)
            until(world.settled, "all is handled or held, side by side", 240)
        # Back: only release 1 of the shop runs. It holds what it does not know.
        world.begin(new, 2)
        world.cancel(new)
        world.order(new, 2)
        until(world.settled, "the old release handles or holds all", 240)
        assert parked_messages(kafka, "shop")
        # Forward: release 2 of the shop joins, and release 1 leaves. An operator redrives.
        with world.load(new, 2):
            late.enter_context(world.running("shop", 2))
        until(world.settled, "both releases of the shop", 240)
    with world.running("shop", 2), world.running("desk", 2):
        with world.load(new, 2):
            redriven(terminal)
        until(lambda: sum(map(len, world.handled("receipts").values())) == sum(world.sent.values()), "all", 480)
    whole = {name: list(range(count)) for name, count in world.sent.items()}
    assert {name: world.handled("orders")[name] for name in whole} == whole
    assert {name: world.handled("receipts")[name] for name in whole} == whole
    assert not (tmp_path / "disorder").exists()
    assert world.reasons() == {letters.UNFIT}


def redriven(terminal: Terminal) -> None:
    """Give all held messages back, as an operator does."""
    for service in ("shop", "desk"):
        if parked_messages(terminal.kafka, service):
            file = str(terminal.out / f"{service}.json")
            assert terminal("redrive", "plan", "--service", service, "-o", file)[0] == 0
            assert terminal("redrive", "start", file, "--reason", "release 2 is there")[0] == 0
