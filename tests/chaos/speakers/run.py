"""Carries a chaos run of speakers out: worker processes and a web server that are killed, three speakers, and readers."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from conversations import Client
from conversations.config import Kafka
from conversations.kafka.admin import apply
from conversations.kafka.follow import Follower
from conversations_ops.demo.screen import Screen
from tests.chaos.processes import Fleet
from tests.chaos.run import BREATH, STANDSTILL, TICK, Stalled
from tests.chaos.speakers.reading import Reading
from tests.chaos.speakers.services import (
    DESK,
    HEARD,
    SHOP,
    STOP,
    TALK,
    TARGETS,
    TOLD,
    Ask,
    desk_1,
    shop_1,
    topic,
)
from tests.chaos.speakers.speaking import Speaker, WebServer, by_hook, by_terminal

DATED = {"message.timestamp.type": "LogAppendTime"}
PATIENCE = 40.0
SERVER_KILLS = 5
"""The web server is killed once while so many workers are."""
TERMINAL_KILLS = 0.25
"""Share of the processes of the terminal that are killed."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a run is to be like."""

    seconds: float
    """How long all of them speak."""
    dialogs: int
    kill_every: float
    workers: int
    partitions: int
    seed: int


class Watch:
    """Follows what the handlers note."""

    def __init__(self, kafka: Kafka) -> None:
        self._follower = Follower(kafka, [topic(HEARD), topic(TOLD)])
        self.heard: Counter[str] = Counter()
        self.told: Counter[str] = Counter()
        self.handles: dict[str, str] = {}
        self.over: set[str] = set()
        """Dialogs whose handlers have stopped speaking."""

    def look(self, timeout: float) -> None:
        """Take what is new."""
        for record in self._follower.poll(timeout):
            dialog, note = (record.key() or b"").decode(), json.loads(record.value() or b"")
            if record.topic() == topic(HEARD):
                self.heard[dialog] += 1
                self.over |= {dialog} if note["over"] else set()
            else:
                self.told[dialog] += 1
                self.handles[dialog] = note["handle"]

    def close(self) -> None:
        """Stop following."""
        self._follower.close()


class Run:
    """One run, on a broker that is up."""

    def __init__(self, kafka: Kafka, directory: Path, options: Options, screen: Screen) -> None:
        self._kafka, self._directory, self._options, self._screen = kafka, directory, options, screen
        random = Random(f"speakers {options.seed}")
        self.fleet = Fleet(kafka, directory, options.workers, random, TARGETS)
        self._server = WebServer(kafka, directory)
        self.speakers = [by_hook(self._server), by_terminal(kafka, Random(f"terminal {options.seed}"), TERMINAL_KILLS)]
        self.reading = Reading(kafka, directory)
        self._ids: list[str] = []
        self._kill_at = self._moved_at = 0.0
        self._killed, self._breath = 0, threading.Event()

    @property
    def counts(self) -> dict[str, int]:
        """What was done."""
        repeated = {f"{it.speaker}: {why}": count for it in self.speakers for why, count in sorted(it.repeated.items())}
        return {**self.fleet.counts, **repeated, "views": self.reading.views}

    def run(self) -> None:
        """Do it all, write ``plan.json`` for the checker, and stop the workers in order.

        Raises:
            Stalled, LogError: it could not be carried out.
        """
        self._make_topics()
        watch = Watch(self._kafka)
        try:
            self._begin()
            for thread in self._threads:
                thread.start()
            self._kill_at = self._moved_at = time.monotonic()
            self._speak(watch)
            self._listen(watch)
            self._end()
            self.fleet.counts["killed while stopping"] = self.fleet.stop()
        finally:
            for thread in self._threads:
                thread.stopping.set()
            self.fleet.kill_all()
            for thread in self._threads:
                if thread.is_alive():
                    thread.join(STANDSTILL)
            self._server.kill()
            watch.close()
            self._write_plan()

    @property
    def _threads(self) -> list[Speaker | Reading]:
        return [*self.speakers, self.reading]

    def _make_topics(self) -> None:
        partitions = self._options.partitions
        admin = AdminClient({"bootstrap.servers": self._kafka.bootstrap, "log_level": 2})
        new = [NewTopic(topic(name), partitions, 1, config=DATED) for name in (TOLD, HEARD)]
        for future in admin.create_topics(new).values():
            future.result(PATIENCE)
        apply(self._kafka, [desk_1().declaration(), shop_1().declaration()], partitions, 1)

    def _begin(self) -> None:
        with Client(desk_1(), self._kafka) as client:
            for _ in range(self._options.dialogs):
                with client.begin_dialog(SHOP, TALK) as dialog:
                    dialog.send(Ask(n=0))
                self._ids.append(dialog.id)
                self.reading.dialogs[dialog.id] = f"{dialog.id}:target"

    def _speak(self, watch: Watch) -> None:
        """Let all speak until the time is over, counted from the moment at which each dialog has begun."""
        until = float("inf")
        with self._screen.progress(f"{len(self._ids)} dialogs, heard:", 100) as progress:
            while time.monotonic() < until:
                self._tick(watch)
                if until == float("inf") and len(watch.handles) == len(self._ids):
                    until = time.monotonic() + self._options.seconds
                left = max(until - time.monotonic(), 0.0)
                share = 0 if left == float("inf") else int(100 * (1 - left / self._options.seconds))
                progress.at(share, f"{watch.heard.total():,} heard, {self.fleet.counts['killed']:,} kills")

    def _listen(self, watch: Watch) -> None:
        """Let nobody begin to speak, and wait until all that was said is heard."""
        Path(os.environ[STOP]).touch()
        for speaker in self.speakers:
            speaker.stopping.set()

        def heard_all() -> bool:
            if any(speaker.is_alive() for speaker in self.speakers) or len(watch.over) < len(self._ids):
                return False
            said = sum((it.accepted for it in self.speakers), watch.told)
            return all(watch.heard[dialog] >= said[dialog] for dialog in self._ids)

        while not heard_all():
            self._tick(watch)

    def _end(self) -> None:
        """End the dialogs, and wait until the readers have told all ends."""
        with Client(desk_1(), self._kafka) as client:
            for name in self._ids:
                with client.dialog(name) as dialog:
                    dialog.end()
        deadline = time.monotonic() + STANDSTILL
        while len(self.reading.over) < 2 * len(self._ids):
            if time.monotonic() > deadline:
                raise Stalled(
                    f"{len(self.reading.over)} of {2 * len(self._ids)} sides have ended after {STANDSTILL:g} s"
                )
            self._check_threads()
            self.fleet.tend()
            self._breath.wait(TICK)

    def _tick(self, watch: Watch) -> None:
        before = watch.heard.total()
        self.fleet.tend()
        self._server.tend()
        watch.look(TICK)
        for speaker in self.speakers:
            speaker.handles.update(watch.handles)
        self._check_threads()
        now = time.monotonic()
        if watch.heard.total() > before:
            self._moved_at = now
        elif now - self._moved_at > STANDSTILL:
            raise Stalled(f"nothing was heard for {STANDSTILL:g} s; {watch.heard.total():,} before")
        self._kill(now)

    def _kill(self, now: float) -> None:
        if now < self._kill_at:
            return
        self._kill_at = now + self._options.kill_every
        if now > self._moved_at + BREATH:
            self.fleet.counts["kills put off"] += 1
            return
        self._killed += 1
        self.fleet.kill()
        if self._killed % SERVER_KILLS == 0:
            self._server.kill()
            self.fleet.counts["web servers killed"] += 1

    def _check_threads(self) -> None:
        for thread in self._threads:
            if thread.failure is not None:
                raise thread.failure

    def _write_plan(self) -> None:
        plan = {
            "namespace": self._kafka.namespace, "desk": DESK, "shop": SHOP, "told": topic(TOLD), "heard": topic(HEARD),
            "dialogs": self._ids, "accepted": {it.speaker: dict(it.accepted) for it in self.speakers},
        }  # fmt: skip
        (self._directory / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
