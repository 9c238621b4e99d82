"""A namespace with two workers in processes of their own, honest work for them, and what they spend on it."""

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
"""Seconds a window may take: honest dialogs that are not over by then are stopped by somebody."""
LOOK = 0.05
CHUNKS = 24
"""Honest and hostile records take turns so often."""
JSON = "application/json"


class Stopped(AssertionError):
    """A worker ended, or honest work did not come to its end."""


@dataclass(frozen=True)
class Window:
    """What two processes spent while some work was done."""

    seconds: float
    messages: int
    """Of honest dialogs."""
    hostile: int
    """Records of the attacker that the broker took."""
    cpu: dict[str, float]
    """Seconds of CPU by process, less what an idle one of a quiet world spends in this time."""
    steps: dict[str, int]
    """Transactions by process."""
    peak: int
    """Bytes of memory that the shop ever had by then."""


@dataclass(frozen=True)
class Pace:
    """How fast a window is."""

    breath: float = 0.25
    """Seconds from one turn to the next, so that steps are those of steady traffic and not of one burst."""
    rest: float = 6.0
    """Seconds at its end, in which what was sent has its acknowledgements, second attempts and questions for gaps."""


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
        """What it did and has; waits until it is ready.

        Raises:
            Stopped: it ended.
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
        """Let it stop in order; return its exit code."""
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
        """End of its log."""
        return self._log.read_text(errors="replace")[-2_000:]


class World:
    """A namespace of its own with ``shop`` and ``web``."""

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
        """Orders of each of them."""

    def facts(self) -> dict[str, dict[str, Any]]:
        """What its workers did and have."""
        return {name: child.facts() for name, child in self.children.items()}

    def idle(self, seconds: float) -> dict[str, float]:
        """Say what each process spends in a second in which nothing happens."""
        before = self.facts()
        self._pause.wait(seconds)
        return {name: (now["cpu"] - before[name]["cpu"]) / seconds for name, now in self.facts().items()}

    def window(
        self, dialogs: int, orders: int, hostile: int, attacker: Attacker | None, idle: dict[str, float]
    ) -> Window:
        """Do honest work, hostile work or both, from the first record to the moment everything is settled.

        Raises:
            Stopped: a worker ended, or not all of it was done in ``PATIENCE``.
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
        """Commands of new dialogs, each dialog's in order, those of all of them mixed."""
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
        """Wait until something is so, and no worker has anything under way, twice in a row."""
        deadline, quiet = time.monotonic() + PATIENCE, 0
        while quiet < 2:
            facts = self.facts()
            quiet = quiet + 1 if done() and not any(it["busy"] for it in facts.values()) else 0
            if time.monotonic() > deadline:
                raise Stopped(f"not in {PATIENCE:g} s: {what}; {facts}")
            self._pause.wait(LOOK)

    def wrong(self) -> list[str]:
        """What is not right of honest dialogs: each has every order and every receipt once, and in order."""
        expected, found = list(range(self.sent)), []
        states = {name: self.place.states(name) for name in ("shop", "web")}
        for known in self.dialogs:
            name = str(known.conversation)
            shop, web = states["shop"].get(name, {}), states["web"].get(name, {})
            if (shop.get("orders"), web.get("receipts"), web.get("error")) != (expected, expected, None):
                found.append(f"dialog {name}: the shop has {shop}, the web {web}")
        return found

    def rows(self, service: str) -> tuple[int, int]:
        """Count the rows of a service's state, and their bytes."""
        kept: dict[bytes, int] = {}
        for record in self.place.read(self.place.topic(service, STATE)):
            key, value = record.key() or b"", record.value()
            kept[key] = 0 if value is None else len(key) + len(value)
            if value is None:
                del kept[key]
        return len(kept), sum(kept.values())

    def queue(self, service: str) -> str:
        """Name of its queue."""
        return self.place.topic(service, QUEUE)

    @contextlib.contextmanager
    def running(self) -> Iterator[dict[str, int]]:
        """Stop its workers behind the block; the exit codes are in what it yields by then."""
        codes: dict[str, int] = {}
        try:
            yield codes
        finally:
            codes.update({name: child.stop() for name, child in self.children.items()})
