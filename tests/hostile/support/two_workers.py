"""A namespace with two worker processes, honest work for them, and measurements of the CPU that they need."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from threading import Event
from typing import IO, Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from conversations import Kafka
from conversations.protocol.command import Begin, Send
from conversations.protocol.declarations import ServiceDeclaration
from conversations.protocol.topics import COMMANDS, QUEUE, STATE
from tests.bad_input.support.forging import Forged, Known, stranger
from tests.bad_input.support.kafka_log import KafkaPlace
from tests.bad_input.support.services import PARTITIONS
from tests.hostile.support import trading_services as trade
from tests.hostile.support.attacker import Attacker

ROOT = Path(__file__).resolve().parents[3]
PATIENCE = 240.0
"""Most seconds that the work of a window may take. If honest dialogs take longer, something holds them up."""
LOOK = 0.05
CHUNKS = 24
"""Number of turns into which the records of a window are divided. In each turn, honest records are followed by hostile records."""
JSON = "application/json"


class Stopped(AssertionError):
    """A worker ended, or honest work was not finished in time."""


@dataclass(frozen=True)
class Window:
    """Measurements of both processes while some work was done."""

    seconds: float
    messages: int
    """Number of messages in honest dialogs."""
    hostile: int
    """Number of the attacker's records that the broker accepted."""
    cpu: dict[str, float]
    """Seconds of CPU by process. The CPU that an idle process needs in the same time is subtracted."""
    steps: dict[str, int]
    """Number of transactions by process."""
    peak: int
    """Largest memory of the shop's process so far, in bytes."""


@dataclass(frozen=True)
class Pace:
    """The speed of a window."""

    breath: float = 0.25
    """Pause after each turn, in seconds. With it, the records arrive as steady traffic and not all at once."""
    rest: float = 6.0
    """Seconds at the end of a window, in which acknowledgements, second attempts and RESENDs follow."""


class Child:
    """One worker process."""

    def __init__(self, service: str, kafka: Kafka, directory: Path) -> None:
        self.service = service
        directory.mkdir(parents=True)
        self._log = directory / "log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.hostile.support.worker_process", service, kafka.bootstrap, kafka.namespace, str(directory / "state")],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, cwd=ROOT,
            )  # fmt: skip

    def facts(self) -> dict[str, Any]:
        """Return the facts of the worker; wait until it is ready.

        Raises:
            Stopped: the worker ended.
        """
        with contextlib.suppress(BrokenPipeError):
            self._in.write("?\n")
            self._in.flush()
        line = self._out.readline()
        if not line:
            raise Stopped(f"the worker of {self.service!r} ended, code {self._process.wait()}: {self.last_words()}")
        found: dict[str, Any] = json.loads(line)
        return found

    @property
    def _in(self) -> IO[str]:
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def _out(self) -> IO[str]:
        assert self._process.stdout is not None
        return self._process.stdout

    def stop(self) -> int:
        """Let the worker stop cleanly, and return its exit code."""
        with contextlib.suppress(BrokenPipeError):
            self._in.close()
        try:
            code = self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._out.close()
        return code

    def last_words(self) -> str:
        """Return the end of the worker's log."""
        return self._log.read_text(errors="replace")[-2_000:]


class World:
    """A new namespace with worker processes for ``shop`` and ``web``."""

    def __init__(self, bootstrap: str, directory: Path, seed: str, pace: Pace) -> None:
        services = [trade.shop().declaration(), trade.web().declaration(), ServiceDeclaration(trade.GHOST)]
        self.place = KafkaPlace(bootstrap, services, older=False)
        self.kafka = self.place.kafka
        admin = AdminClient({"bootstrap.servers": bootstrap})
        for deleted in admin.delete_topics([self.queue(trade.GHOST)]).values():
            deleted.result()
        self._random, self._pace, self._pause = Random(seed), pace, Event()
        self._producer = Producer({"bootstrap.servers": bootstrap})
        self.children = {name: Child(name, self.kafka, directory / name) for name in ("shop", "web")}
        self.dialogs: list[Known] = []
        self.sent = 0
        """Number of orders in each of these dialogs."""

    def facts(self) -> dict[str, dict[str, Any]]:
        """Return the facts of both workers."""
        return {name: child.facts() for name, child in self.children.items()}

    def idle(self, seconds: float) -> dict[str, float]:
        """Return the CPU seconds that each process spends per second without work."""
        before = self.facts()
        self._pause.wait(seconds)
        return {name: (now["cpu"] - before[name]["cpu"]) / seconds for name, now in self.facts().items()}

    def window(
        self, dialogs: int, orders: int, hostile: int, attacker: Attacker | None, idle: dict[str, float]
    ) -> Window:
        """Do honest work, hostile work or both, and measure from the first record until all work is finished.

        Raises:
            Stopped: a worker ended, or the work was not finished within ``PATIENCE``.
        """
        self._settled(lambda: True, "nothing is under way")
        honest = self._orders(dialogs, orders)
        records = attacker.draws.records(hostile) if attacker is not None else iter(())
        taken = attacker.sent if attacker is not None else 0
        before, began = self.facts(), time.monotonic()
        for number in range(CHUNKS):
            for record in honest[len(honest) * number // CHUNKS : len(honest) * (number + 1) // CHUNKS]:
                self._produce(record)
            if attacker is not None:
                for record in islice(records, None if number == CHUNKS - 1 else hostile // CHUNKS):
                    attacker.send(record)
            self._pause.wait(self._pace.breath)
        assert self._producer.flush(PATIENCE) == 0
        if attacker is not None:
            attacker.flush()
        ends = attacker.ends if attacker is not None else {}
        self._settled(lambda: self._done(before["web"]["over"] + dialogs, ends), "all is done")
        self._pause.wait(self._pace.rest)
        after, seconds = self.facts(), time.monotonic() - began
        return Window(
            seconds, dialogs * orders, (attacker.sent if attacker is not None else 0) - taken,
            {name: after[name]["cpu"] - before[name]["cpu"] - idle[name] * seconds for name in after},
            {name: max(1, after[name]["steps"] - before[name]["steps"]) for name in after},
            after["shop"]["peak"],
        )  # fmt: skip

    def _orders(self, dialogs: int, orders: int) -> list[Forged]:
        """Return the commands of new dialogs. They are in order within each dialog, and the dialogs take turns."""
        now = time.time_ns() // 1_000
        found = [stranger(now, self._random, number % PARTITIONS) for number in range(dialogs)]
        self.dialogs += found
        self.sent = orders
        commands = []
        for n in range(orders):
            body = json.dumps({"n": n, "last": n == orders - 1}).encode()
            for known in found:
                send = Send("Order", JSON, body)
                commands.append(known.command(Begin("shop", "Trade"), send) if n == 0 else known.command(send))
        return commands

    def _produce(self, record: Forged) -> None:
        self._producer.produce(self.place.topic("web", COMMANDS), record.value, record.key, record.partition)
        self._producer.poll(0)

    def _done(self, over: int, ends: dict[int, int]) -> bool:
        facts = self.facts()
        positions = {int(number): at for number, at in facts["shop"]["positions"].items()}
        return facts["web"]["over"] >= over and all(positions.get(number, 0) >= at for number, at in ends.items())

    def _settled(self, done: Callable[[], bool], what: str) -> None:
        """Wait until ``done`` is true and no worker has work under way, in two checks in a row."""
        deadline, quiet = time.monotonic() + PATIENCE, 0
        while quiet < 2:
            facts = self.facts()
            quiet = quiet + 1 if done() and not any(it["busy"] for it in facts.values()) else 0
            if time.monotonic() > deadline:
                raise Stopped(f"not within {PATIENCE:g} s: {what}; {facts}")
            self._pause.wait(LOOK)

    def wrong(self) -> list[str]:
        """Return a line for each wrong honest dialog. In a right one, both sides have every order and every receipt once, in order."""
        expected, found = list(range(self.sent)), []
        states = {name: self.place.states(name) for name in ("shop", "web")}
        for known in self.dialogs:
            name = str(known.conversation)
            shop, web = states["shop"].get(name, {}), states["web"].get(name, {})
            if (shop.get("orders"), web.get("receipts"), web.get("error")) != (expected, expected, None):
                found.append(f"dialog {name}: the shop has {shop}, the web {web}")
        return found

    def rows(self, service: str) -> tuple[int, int]:
        """Return the number of rows in a service's state topic, and their bytes."""
        kept: dict[bytes, int] = {}
        for record in self.place.read(self.place.topic(service, STATE)):
            key, value = record.key() or b"", record.value()
            kept[key] = 0 if value is None else len(key) + len(value)
            if value is None:
                del kept[key]
        return len(kept), sum(kept.values())

    def queue(self, service: str) -> str:
        """Return the name of the service's queue topic."""
        return self.place.topic(service, QUEUE)

    @contextlib.contextmanager
    def running(self) -> Iterator[dict[str, int]]:
        """Stop the workers at the end of the ``with`` block. Then the yielded dict has their exit codes."""
        codes: dict[str, int] = {}
        try:
            yield codes
        finally:
            codes.update({name: child.stop() for name, child in self.children.items()})
