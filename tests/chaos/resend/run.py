"""Carries a chaos run of resends out: a broker, worker processes that are killed, dialogs that are begun, and what breaks them."""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from random import Random

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from conversations import Client
from conversations.config import Kafka
from conversations.errors import NotAccepted
from conversations.kafka.admin import apply
from conversations_ops.demo.screen import Screen
from tests.chaos.processes import Fleet
from tests.chaos.resend.breaking import Breaking
from tests.chaos.resend.plan import Plan
from tests.chaos.resend.services import (
    HANDLED,
    ITEMS,
    PACE,
    SINK,
    TARGETS,
    TOLD,
    sink_1,
    source_1,
    topic,
)
from tests.chaos.resend.watch import Watch
from tests.chaos.run import BREATH, STANDSTILL, TICK, Stalled

PATIENCE = timedelta(seconds=35)
AT_ONCE = 1_200
"""Number of dialogs that may be unfinished at the same time."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a run is to be like."""

    kill_every: float
    workers: int
    partitions: int
    seed: int


class Sender(threading.Thread):
    """Begins the dialogs of a plan, not more than ``AT_ONCE`` ahead of the finished dialogs."""

    def __init__(self, kafka: Kafka, plan: Plan, watch: Watch) -> None:
        super().__init__(name="sending", daemon=True)
        self._kafka, self._plan, self._watch = kafka, plan, watch
        self.stopping = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        """Begin all dialogs."""
        try:
            with Client(source_1(), self._kafka, timeout=PATIENCE) as client:
                for begun, name in enumerate(self._plan.ids):
                    while begun - self._watch.finished > AT_ONCE and not self.stopping.wait(TICK):
                        pass
                    if self.stopping.is_set():
                        return
                    self._begin(client, name)
        except BaseException as error:  # noqa: BLE001 - carried to the thread that waits
            self.failure = error

    def _begin(self, client: Client, name: str) -> None:
        deadline = time.monotonic() + STANDSTILL
        while True:
            try:
                with client.begin_dialog(SINK, ITEMS, id=name, lifetime=self._plan.lifetimes.get(name)) as dialog:
                    dialog.set_timer(PACE)
            except NotAccepted:
                if time.monotonic() > deadline:
                    raise
            else:
                return


class Run:
    """One run, on a broker that is up."""

    def __init__(self, kafka: Kafka, plan: Plan, directory: Path, options: Options, screen: Screen) -> None:
        self._kafka, self._plan, self._options, self._screen = kafka, plan, options, screen
        random = Random(f"harm {options.seed}")
        self.fleet = Fleet(kafka, directory, options.workers, random, TARGETS)
        self.breaking = Breaking(kafka, plan, options.partitions, random)
        self._moved_at = self._kill_at = 0.0

    @property
    def counts(self) -> dict[str, int]:
        """What was done."""
        return {**self.fleet.counts, **self.breaking.counts}

    def run(self) -> None:
        """Do it all, and stop the workers in order.

        Raises:
            Stalled, LogError: it could not be carried out.
        """
        self._make_topics()
        watch = Watch(self._kafka, self._plan)
        sender = Sender(self._kafka, self._plan, watch)
        try:
            with contextlib.closing(watch):
                sender.start()
                self._until_done(watch, sender)
                self.fleet.counts["killed while stopping"] = self.fleet.stop()
        finally:
            sender.stopping.set()
            self.fleet.kill_all()
            sender.join()

    def _make_topics(self) -> None:
        partitions = self._options.partitions
        admin = AdminClient({"bootstrap.servers": self._kafka.bootstrap})
        new = [NewTopic(topic(name), partitions, 1) for name in (TOLD, HANDLED)]
        for future in admin.create_topics(new).values():
            future.result(PATIENCE.total_seconds())
        apply(self._kafka, [source_1().declaration(), sink_1().declaration()], partitions, 1)

    def _until_done(self, watch: Watch, sender: Sender) -> None:
        seen = (0, 0)
        items = len(self._plan.ids) * self._plan.length
        self._moved_at, self._kill_at = time.monotonic(), time.monotonic() + self._options.kill_every
        with self._screen.progress(f"{items:,} items on {len(self._plan.ids):,} dialogs, decided:", items) as progress:
            while not watch.done:
                self.fleet.tend()
                for first, number, dialog in watch.look(TICK):
                    self.breaking.told(first, number, dialog)
                self.breaking.tick()
                self._kill()
                if sender.failure is not None:
                    raise sender.failure
                progress.at(
                    watch.decided, f"{watch.finished:,} dialogs finished, {self.fleet.counts['killed']:,} kills"
                )
                now = watch.told, watch.decided
                if now != seen:
                    self._moved_at, seen = time.monotonic(), now
                elif time.monotonic() - self._moved_at > STANDSTILL:
                    raise Stalled(
                        f"nothing has moved for {STANDSTILL:g} s: {watch.told:,} told, {watch.decided:,} decided"
                    )
        self.breaking.finish()

    def _kill(self) -> None:
        now = time.monotonic()
        if now < self._kill_at:
            return
        self._kill_at = now + self._options.kill_every
        if now < self._moved_at + BREATH:
            self.fleet.kill()
        else:
            self.fleet.counts["kills put off"] += 1
