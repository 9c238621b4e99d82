"""Carries a chaos run of two clusters out: dialogs both ways, and processes, brokers and a network that fail meanwhile."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from random import Random

from conversations import Client, Service
from conversations.config import Kafka
from conversations.errors import LogError, NotAccepted
from conversations.protocol.identifiers import RANDOM_BITS, uuid7
from conversations_ops.demo.screen import Progress, Screen
from tests.chaos.processes import Fleet
from tests.chaos.remote.clusters import EMEA, HOME, OTHER, SERVICES, Side, prepare
from tests.chaos.remote.forwarding import Fault, Forwarders
from tests.chaos.remote.network import Network
from tests.chaos.remote.planted import targets
from tests.chaos.remote.services import ITEMS, LEFT, TOPIC, Said, left_1, right_1
from tests.chaos.remote.watch import Watch
from tests.chaos.run import TICK, Stalled

BREATH = 8.0
"""Seconds without progress after which nobody is killed until there is some, unless a cluster is away."""
SETTLING = 6.0
"""Seconds after the last message in which late copies may still arrive."""
PATIENCE = timedelta(seconds=35)


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a run is to be like; times are in seconds."""

    length: int
    kill_every: float
    kill_brokers_every: float
    away: float
    away_at: tuple[float, float]
    """When each of the clusters is away, after the start."""
    calm_after: float
    """When nobody is killed any more, so that a run ends on a slow machine, too."""
    within: float
    faults: tuple[Fault, ...]
    share: float
    workers: int
    forwarders: int
    partitions: int
    seed: int
    at_once: int
    """Number of dialogs of each side that may be unfinished at the same time."""


class Beginner(threading.Thread):
    """Begins the dialogs of one side, not more than some ahead of the dialogs that have ended."""

    def __init__(self, kafka: Kafka, service: Service[Said], peer: str, ids: list[str], watch: Watch, at_once: int) -> None:  # fmt: skip
        super().__init__(name=f"beginning at {service.name}", daemon=True)
        self._kafka, self._service, self._peer = kafka, service, peer
        self._ids, self._watch, self._at_once = ids, watch, at_once
        self.stopping = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        """Begin all dialogs."""
        try:
            with Client(self._service, self._kafka, timeout=PATIENCE) as client:
                for begun, name in enumerate(self._ids):
                    while 2 * (begun - self._at_once) > self._watch.over and not self.stopping.wait(TICK):
                        pass
                    while not self.stopping.is_set() and not self._begin(client, name):
                        pass
        except BaseException as error:  # noqa: BLE001 - carried to the thread that looks
            self.failure = error

    def _begin(self, client: Client, name: str) -> bool:
        try:
            with client.begin_dialog(self._peer, ITEMS, id=name) as dialog:
                dialog.set_timer(timedelta(0))
        except NotAccepted:
            return False  # the broker is away
        return True


class Run:
    """One run, on two clusters that are up."""

    def __init__(self, sides: dict[str, Side], namespace: str, dialogs: int, directory: Path, options: Options, screen: Screen) -> None:  # fmt: skip
        self._sides, self._options, self._screen, self._directory = sides, options, screen, directory
        self._namespace, self._notes = namespace, os.environ[TOPIC]
        self._random = Random(f"remote {options.seed}")
        now = time.time_ns() // 1_000
        ids = [str(uuid7(now, self._random.getrandbits(RANDOM_BITS))) for _ in range(dialogs)]
        self._ids = {HOME: ids[::2], EMEA: ids[1::2]}
        self._kafkas = {name: side.kafka(namespace) for name, side in sides.items()}
        self.fleets = [self._fleet(name) for name in sides]
        harm = ["--share", str(options.share), "--faults", ",".join(options.faults)]
        self.forwarders = Forwarders(
            {OTHER[name]: kafka for name, kafka in self._kafkas.items()}, options.forwarders, harm, options.seed, directory
        )  # fmt: skip
        self._counts: Counter[str] = Counter()
        self._kill_at = self._kill_broker_at = self._away_until = 0.0

    def _fleet(self, name: str) -> Fleet:
        here = self._directory / name
        here.mkdir()
        service = SERVICES[name]
        return Fleet(self._kafkas[name], here, self._options.workers, self._random, {service: targets()[service]})

    @property
    def counts(self) -> dict[str, int]:
        """What was done, and what happened by itself."""
        return dict(sum((it.counts for it in self.fleets), self._counts) + self.forwarders.counts)

    def run(self) -> None:
        """Do it all, write ``plan.json`` for the checker, and stop all processes.

        Raises:
            Stalled, LogError: it could not be carried out.
        """
        prepare(self._sides, self._namespace, self._notes, self._options.partitions)
        self._write_plan()
        routes = {name: (side.proxied, side.far) for name, side in self._sides.items()}
        network = Network(routes, self._options.seed, self._directory)
        with contextlib.ExitStack() as stack:
            stack.callback(lambda: self._counts.update(network.close()))
            count = sum(map(len, self._ids.values()))
            watch = stack.enter_context(contextlib.closing(Watch(self._kafkas, self._notes, count, self._options.length)))  # fmt: skip
            beginners = [
                Beginner(self._kafkas[name], left_1() if SERVICES[name] == LEFT else right_1(), SERVICES[OTHER[name]], self._ids[name], watch, self._options.at_once)
                for name in self._sides
            ]  # fmt: skip
            stack.callback(self._stop, beginners)
            for each in beginners:
                each.start()
            self._until_done(watch, beginners, network)

    def _stop(self, beginners: list[Beginner]) -> None:
        for side in self._sides.values():
            side.settle()
        for each in beginners:
            each.stopping.set()
        for fleet in self.fleets:
            self._counts["killed while stopping"] += fleet.stop()
        self.forwarders.stop()
        for each in beginners:
            each.join(PATIENCE.total_seconds())

    def _until_done(self, watch: Watch, beginners: list[Beginner], network: Network) -> None:
        started = time.monotonic()
        self._kill_at, self._kill_broker_at = (
            started + self._options.kill_every,
            started + self._options.kill_brokers_every,
        )
        away = sorted(zip(self._options.away_at, self._random.sample(list(self._sides), 2), strict=True))
        total = 2 * self._options.length * sum(map(len, self._ids.values()))
        with self._screen.progress(
            f"{total:,} messages on {total // 2 // self._options.length:,} dialogs, handled:", total
        ) as progress:
            while not watch.done or away:
                self._tick(watch, beginners)
                after = time.monotonic() - started
                while away and after >= away[0][0]:
                    network.away(away.pop(0)[1], self._options.away)
                    self._away_until = time.monotonic() + self._options.away
                    self._counts["clusters away"] += 1
                if after < self._options.calm_after:
                    self._harm(watch)
                elif not self._counts["calm before the end"]:
                    self._counts["calm before the end"] = 1
                    network.calm()
                self._tell(progress, watch, after)
                if after > self._options.within:
                    raise Stalled(
                        f"not done after {after:.0f} s: {watch.handled:,} of {total:,} messages, {watch.over:,} ended"
                    )
        network.calm()
        until = time.monotonic() + SETTLING
        while time.monotonic() < until:
            self._tick(watch, beginners)

    def _tell(self, progress: Progress, watch: Watch, after: float) -> None:
        progress.at(
            watch.handled,
            f"{after:.0f} s, {watch.over:,} dialogs ended, {self.counts.get('killed', 0):,} workers killed",
        )

    def _tick(self, watch: Watch, beginners: list[Beginner]) -> None:
        for fleet in self.fleets:
            fleet.tend()
        self.forwarders.tend()
        watch.look(TICK)
        failures = [it.failure for it in beginners] + [it.failure for it in self._sides.values()]
        for failure in filter(None, failures):
            raise LogError(repr(failure)) from failure

    def _harm(self, watch: Watch) -> None:
        """Kill a process of a worker or forwarder, or a broker, when it is time."""
        now = time.monotonic()
        up = all(side.is_up for side in self._sides.values())
        if (
            not up
        ):  # the time begins when the broker has started again: that takes seconds, or a minute on a busy machine
            self._kill_broker_at = now + self._options.kill_brokers_every
        elif now >= self._kill_broker_at:
            self._random.choice(list(self._sides.values())).kill()
            self._counts["brokers killed"] += 1
        if now < self._kill_at:
            return
        self._kill_at = now + self._options.kill_every
        if now > max(watch.moved_at, self._away_until) + BREATH:
            self._counts["kills put off"] += 1
            return
        workers = [(fleet, process) for fleet in self.fleets for process in fleet.processes]
        chosen = self._random.randrange(len(workers) + len(self.forwarders.running))
        if chosen < len(workers):
            fleet, process = workers[chosen]
            fleet.kill_one(process)
        else:
            self.forwarders.kill(list(self.forwarders.running)[chosen - len(workers)])

    def _write_plan(self) -> None:
        plan = {
            "namespace": self._namespace, "notes": self._notes, "length": self._options.length, "dialogs": self._ids,
            "services": SERVICES, "clusters": [HOME, EMEA],
        }  # fmt: skip
        (self._directory / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
