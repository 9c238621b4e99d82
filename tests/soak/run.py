"""Carries a soak out: bursts and silences, restarts in both, figures after each silence, a verdict at the end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from conversations import Kafka, Service
from conversations.durations import SECOND
from conversations.errors import LogError
from conversations.kafka.admin import apply
from conversations.protocol.command import Tick, decode_command
from conversations.protocol.declarations import ServiceDeclaration
from conversations.protocol.rows import LETTER
from conversations.protocol.topics import DEAD_LETTER
from conversations_ops.demo.screen import Screen
from conversations_ops.settings.given import periods
from tests.chaos.checker.check import check
from tests.chaos.checker.files import read_notes, read_plan
from tests.chaos.checker.records import Record
from tests.chaos.checker.topics import KINDS as TOPICS
from tests.chaos.checker.verdict import Verdict
from tests.chaos.operators import Operators
from tests.chaos.processes import TARGETS as CHAOS
from tests.chaos.processes import Fleet
from tests.chaos.sending import Sender
from tests.chaos.services import ledger_1, teller_1
from tests.chaos.watch import Held, Off, Watch
from tests.soak.figures import Sample, files_of, grown, memory_of
from tests.soak.recorder import Recorder
from tests.soak.services import TARGETS, asker, desk
from tests.soak.story import Ends, Story

TICK = 0.05
TRIES = 4
STANDSTILL = 150.0
"""Seconds a burst may take after its last message was sent."""
LONG = 5
"""Every so many silences one is longer than a day of the product."""
AUDIT = 900.0
"""Seconds the audit may take."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a soak is to be like."""

    seconds: float
    factor: float
    seed: int
    messages: int
    """Of one burst, entries and receipts."""
    dialogs: int
    others: int
    """Dialogs of other kinds in one burst."""
    partitions: int
    kill_every: float
    """Seconds between two restarts in a burst, by SIGKILL or SIGTERM."""
    audit: bool


@dataclass
class Outcome:
    """What a soak came to."""

    seconds: float = 0.0
    bursts: int = 0
    messages: int = 0
    others: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    samples: list[Sample] = field(default_factory=list)
    line: str = "no verdict"
    wrong: list[str] = field(default_factory=list)


class Soak:
    """One soak, on a broker that is up and whose data is in ``directory``."""

    def __init__(self, options: Options, kafka: Kafka, directory: Path, screen: Screen) -> None:
        self.options, self._kafka, self._directory, self._screen = options, kafka, directory, screen
        self._periods = periods()
        self._random = Random(f"soak {options.seed}")
        self._records = directory / "records"
        self._records.mkdir()
        os.environ["CHAOS_RECORDS"] = str(self._records)
        self._story = Story(options.seed, kafka, options.partitions, self._records, options.factor)
        self.fleet = Fleet(kafka, directory, 1, Random(f"fleet {options.seed}"), {**CHAOS, **TARGETS})
        self._ends = Ends(kafka.namespace)
        self._seen = 0
        self._restart_at = 0.0
        self._pause = threading.Event()
        self.outcome = Outcome()

    def run(self) -> Outcome:
        """Do it all, stop the workers in order, and judge."""
        services: list[Service[Any]] = [teller_1(), ledger_1(), asker(), desk()]
        self._apply([it.declaration() for it in services])
        names = [f"{self._kafka.namespace}.{it.name}.{kind}" for it in services for kind in TOPICS]
        began = time.monotonic()
        recorder = Recorder(self._kafka.bootstrap, [*names, f"{self._kafka.namespace}.events"])
        try:
            with recorder.running():
                while self.outcome.bursts == 0 or time.monotonic() - began < self.options.seconds:
                    self._burst(recorder)
                    self._silence()
                    self._measure(recorder, began)
                self.outcome.seconds = time.monotonic() - began
                late = self.fleet.stop()
                self._judge(recorder)
        finally:
            self.fleet.kill_all()
        if late:
            self.outcome.wrong.append(f"{late} workers had to be killed while stopping")
        self.outcome.counts += self.fleet.counts
        self.outcome.wrong += [f"a worker ended by itself, {n} times: {text}" for text, n in self.fleet.ends.items()]
        self.outcome.wrong += grown(self.outcome.samples)
        if self.options.audit:
            self.outcome.wrong += self._audited()
        return self.outcome

    def _apply(self, declarations: list[ServiceDeclaration]) -> None:
        """Make the topics; again where a slow machine's broker does not answer in time."""
        for left in reversed(range(TRIES)):
            try:
                apply(self._kafka, declarations, self.options.partitions, 1, periods=self._periods)
            except LogError:
                if not left:
                    raise
            else:
                return

    # -- bursts ------------------------------------------------------------------------------------------------------------

    def _burst(self, recorder: Recorder) -> None:
        """Say a plan and dialogs of other kinds, restart workers meanwhile, and wait until all of it is over."""
        options = self.options
        plan = self._story.burst(options.messages, options.dialogs)
        operators, known = Operators(self._kafka, plan), set[Held | Off]()
        watch = Watch(self._kafka, plan)
        sender = Sender(self._kafka, plan, options.messages, lambda: watch.answered)
        self.outcome.bursts += 1
        self._restart_at = time.monotonic() + options.kill_every
        with contextlib.closing(watch), sender.running(), operators.running():
            self._story.others(options.others, self._random, self._periods)
            deadline = time.monotonic() + STANDSTILL
            while not (watch.done() and self._others_over(recorder)):
                self._look(recorder, watch, operators, known)
                self._restart()
                if time.monotonic() > deadline:
                    self.outcome.wrong.append(self._unfinished(watch, len(plan.closing)))
                    break
            if (failure := sender.failure or operators.failure) is not None:
                raise failure
        self.outcome.messages, self.outcome.others = self._story.messages, len(self._story.kinds)
        self.outcome.counts += operators.counts

    def _unfinished(self, watch: Watch, dialogs: int) -> str:
        open_still = self._ends.wrong(self._story.kinds)[:3]
        return f"burst {self.outcome.bursts}: {watch.over} of {dialogs} dialogs over in {STANDSTILL:g} s; {open_still}"

    def _look(self, recorder: Recorder, watch: Watch, operators: Operators, known: set[Held | Off]) -> None:
        self.fleet.tend()
        watch.look(TICK)
        for what in watch.news:
            if what not in known:
                known.add(what)
                operators.todo.put(what)
        watch.news.clear()
        if recorder.failure is not None:
            raise recorder.failure

    def _others_over(self, recorder: Recorder) -> bool:
        new = recorder.records[self._seen :]
        self._seen += len(new)
        for record in new:
            self._ends.take((record.topic, record.partition), record.key or b"", record.value)
        return self._ends.over(self._story.kinds) == len(self._story.kinds)

    # -- restarts, silences ------------------------------------------------------------------------------------------------

    def _restart(self) -> None:
        if time.monotonic() < self._restart_at:
            return
        self._restart_at = time.monotonic() + self.options.kill_every
        if self._random.random() < 0.5:
            self.fleet.kill()
            return
        able = [it for it in self.fleet.processes if it.running and it.status.get("joined") and not it.stopping]
        if able:
            stopped = self._random.choice(able)
            stopped.stopping = True
            stopped.signal(signal.SIGTERM)
            self.fleet.counts["restarted in order"] += 1

    def _silence(self) -> None:
        """Say nothing until the queues have ticked and forgotten; now and then for longer than a day of the product."""
        it = self._periods
        lasts = it.start_within + it.grace + 3 * it.tick_after + it.step
        if self.outcome.bursts % LONG == 0:
            lasts = max(lasts, it.command_life + it.grace + it.step)
        until = time.monotonic() + min(lasts / SECOND, self.options.seconds / 3)
        restart_at = (time.monotonic() + until) / 2
        while time.monotonic() < until:
            self.fleet.tend()
            self._pause.wait(TICK)
            if time.monotonic() > restart_at:
                self._restart()
                restart_at = until

    # -- the verdict ---------------------------------------------------------------------------------------------------------

    def _measure(self, recorder: Recorder, began: float) -> None:
        count, size = files_of([self._directory])
        # Letters are open for 90 days, longer than a soak: they grow with the dead letters, which `_judge` compares them to.
        state = sum(not key.startswith(LETTER) for key in recorder.state_keys())
        pids = [it.pid for it in self.fleet.processes if it.pid is not None]
        sample = {"memory MB": memory_of(pids), "rows": float(state), "files": float(count), "disk MB": size}
        self.outcome.samples.append(sample)
        days = (time.monotonic() - began) * self.options.factor / 86_400
        told = " · ".join(f"{name} {value:.0f}" for name, value in sample.items())
        done = f"{self.outcome.messages:,} messages, {self.outcome.others:,} other dialogs"
        self._screen.say(
            f"  {time.monotonic() - began:4.0f} s, day {days:.1f}: burst {self.outcome.bursts}, {done} · {told} · "
            f"killed {self.fleet.counts['killed']}, restarted {self.fleet.counts['restarted in order']}"
        )

    def _judge(self, recorder: Recorder) -> None:
        log = recorder.log()
        self._others_over(recorder)
        self.outcome.wrong += self._ends.wrong(self._story.kinds)
        self._story.write()
        verdict = Verdict()
        plan = read_plan(self._records)
        check(log, plan, read_notes(self._records, plan, verdict), verdict)
        self.outcome.line = verdict.lines()[0]
        self.outcome.wrong += [str(it) for it in verdict.violations]
        self.outcome.counts["ticks"] = sum(map(_is_tick, log.records))
        letters = sum(key.startswith(LETTER) for key in recorder.state_keys())
        written = sum(it.topic.endswith(f".{DEAD_LETTER}") for it in log.records)
        self.outcome.counts["letters open"] = letters
        if letters > written:
            self.outcome.wrong.append(f"{letters} letters are open, {written} dead letters were ever written")

    def _audited(self) -> list[str]:
        """Let Spark's delivery audit read what the topics still have: it must find nothing."""
        self._screen.say("Auditing with Spark ...")
        where = ["--bootstrap", self._kafka.bootstrap, "--namespace", self._kafka.namespace]
        command = [sys.executable, "-m", "spark_jobs.delivery_audit", *where, "--json"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=AUDIT, check=False)
        except subprocess.TimeoutExpired:
            return [f"the audit took more than {AUDIT:g} s"]
        try:
            facts = json.loads(done.stdout)
        except ValueError:
            return [f"the audit failed, code {done.returncode}: {done.stderr.strip()[-2_000:]}"]
        found = [f"audit: {each['fault']}: {each['conversation_id']}: {each['what']}" for each in facts["listed"]]
        self.outcome.line += f"\nAudit: dialogs {facts['totals']['dialogs']:,}, faults {facts['faults']:,}"
        return found if facts["faults"] == 0 or found else [f"audit: {facts['faults']} faults"]


def _is_tick(record: Record) -> bool:
    if not record.topic.endswith(".commands"):
        return False
    return any(isinstance(it, Tick) for it in decode_command(record.value or b"").operations)
