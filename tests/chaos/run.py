"""Carries a chaos run out: a broker, worker processes, a plan to be sent, and everything that goes wrong meanwhile."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from conversations.config import Kafka
from conversations.errors import LogError
from conversations.kafka.admin import apply
from conversations.kafka.offsets import Place
from conversations.protocol.topics import COMMANDS, QUEUE, service_topic
from conversations_ops.broker import EmbeddedBroker
from conversations_ops.demo.screen import Progress, Screen
from tests.chaos.operators import Operators
from tests.chaos.plan import Injected, Plan
from tests.chaos.processes import Fleet, Process
from tests.chaos.sending import Sender
from tests.chaos.services import LEDGER, TELLER, ledger_1, teller_1
from tests.chaos.watch import Held, Off, Watch
from tests.chaos.wire import Wire

TICK = 0.05
STANDSTILL = 120.0
"""Seconds without progress after which a run has failed."""
FROZEN = 8.0
"""Seconds a worker is stopped: longer than its session (3 s), so that it wakes up as a zombie."""
AHEAD = 0.08
"""Share of all entries that may be under way: the work lasts as long as the faults."""
SETTLING = 120.0
QUIET = 8.0
"""Seconds without a new record after which there will be none: an acknowledgement waits 5 s for something to go with."""
BREATH = 8.0
"""Seconds without progress after which nobody is killed until there is some: on a machine that is slow in starting processes
nothing would ever move."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a run is to be like."""

    messages: int
    dialogs: int
    kill_every: float
    workers: int
    partitions: int
    seed: int
    poison: float
    """Share of the dialogs with an entry that fails until its policy, or an operator, does something about it."""
    audit: bool
    """Spark's delivery audit reads all topics too."""


@dataclass
class Result:
    """What happened."""

    seconds: float
    counts: dict[str, int]
    injected: Injected
    wrong: list[str]
    """What the driver itself noticed."""
    ends: dict[str, int]
    """What workers that ended by themselves said about it, and how often."""


class Stalled(Exception):
    """Nothing moves any more."""


class Chaos:
    """One run, on a broker that is up."""

    def __init__(self, options: Options, kafka: Kafka, directory: Path, broker: EmbeddedBroker, screen: Screen) -> None:
        self.options, self._kafka, self._screen = options, kafka, screen
        self.plan = Plan(
            options.seed, options.messages, options.dialogs, kafka.namespace, options.partitions, options.poison
        )
        self._operators = Operators(kafka, self.plan)
        self._known: set[Held | Off] = set()
        self.injected = Injected()
        self.records = directory / "records"
        self.records.mkdir()
        self.plan.write(self.records, self.injected)
        os.environ["CHAOS_RECORDS"] = str(self.records)
        self.fleet = Fleet(kafka, directory, options.workers, Random(f"fleet {options.seed}"))
        self._broker = broker
        self._kill_at, self._moved_at = float("inf"), time.monotonic()
        self._frozen: tuple[Process, float] | None = None
        self._outage: Outage | None = None
        self._due = self._schedule()

    def _schedule(self) -> list[tuple[float, Callable[[], bool]]]:
        """What happens once a share of the entries is answered; asked again until it says that it has happened."""
        numbers = range(1, self.options.workers + 1)
        replaced = [(0.35 + 0.15 * (number - 1), self._replacing(number)) for number in numbers]
        return sorted(
            [
                (0.12, lambda: self._freeze(LEDGER)),
                (0.22, lambda: self._freeze(TELLER)),
                *replaced,
                (0.65, self._restart_broker),
                (0.82, lambda: self._freeze(LEDGER)),
            ],
            key=lambda due: due[0],
        )

    # -- the run ------------------------------------------------------------------------------------------------

    def run(self) -> Result:
        """Do it all, and stop the workers in order.

        Raises:
            Stalled, LogError: it could not be carried out.
        """
        apply(self._kafka, [teller_1().declaration(), ledger_1().declaration()], self.options.partitions, 1)
        topics = [
            service_topic(self._kafka.namespace, name, kind) for name in (TELLER, LEDGER) for kind in (QUEUE, COMMANDS)
        ]
        wire = Wire(self._kafka, topics, self.options.partitions, Random(f"wire {self.options.seed}"), self.injected)
        watch = Watch(self._kafka, self.plan)
        unanswerable = self.plan.entries - self.plan.answerable
        ahead = max(200, int(AHEAD * self.plan.entries)) + unanswerable
        sender = Sender(self._kafka, self.plan, ahead, lambda: watch.answered)
        started = time.monotonic()
        try:
            with contextlib.closing(watch), wire.running(), sender.running(), self._operators.running():
                self._until_done(watch, sender, wire)
                wire.finish()
                self._settle(watch, wire)
                seconds = time.monotonic() - started
                late = self.fleet.stop()
                watch.to_the_end(SETTLING)
        finally:
            self._clean_up()
            self.plan.write(self.records, self.injected)
        counts = {
            **self.fleet.counts, **self._operators.counts, "killed while stopping": late, "commands repeated": sender.repeated,
        }  # fmt: skip
        return Result(seconds, counts, self.injected, watch.differences(), dict(self.fleet.ends))

    def _clean_up(self) -> None:
        if self._outage is not None:
            self._outage.join()
        self.fleet.kill_all()

    def _until_done(self, watch: Watch, sender: Sender, wire: Wire) -> None:
        seen = (0, 0)
        title = f"{2 * self.plan.entries:,} messages on {self.options.dialogs:,} dialogs, answered:"
        with self._screen.progress(title, self.plan.answerable) as progress:
            while not watch.done():
                self._tick(watch, progress)
                outage = self._outage.failure if self._outage else None
                for failure in (sender.failure, wire.failure, self._operators.failure, outage):
                    if failure is not None:
                        raise failure
                now = watch.answered, watch.over
                if now != seen:
                    self._moved_at, seen = time.monotonic(), now
                elif time.monotonic() - self._moved_at > STANDSTILL:
                    raise Stalled(
                        f"nothing has moved for {STANDSTILL:g} s: {now[0]:,} answered, {now[1]:,} dialogs over"
                    )

    def _tick(self, watch: Watch, progress: Progress | None = None) -> None:
        """Look after processes, do harm that is due, and see how far it is."""
        self.fleet.tend()
        with contextlib.suppress(LogError) if self._outage is not None else contextlib.nullcontext():
            watch.look(TICK)
        self._harm(watch.answered / max(1, self.plan.answerable))
        self._report(watch)
        if progress is not None:
            counts = self.fleet.counts
            progress.at(watch.answered, f"{watch.over:,} dialogs over, {counts['killed']:,} kills")

    def _report(self, watch: Watch) -> None:
        """Let the operators know, once, of what waits for them."""
        for what in watch.news:
            if what not in self._known:
                self._known.add(what)
                self._operators.todo.put(what)
        watch.news.clear()

    def _settle(self, watch: Watch, wire: Wire) -> None:
        """Wait until the services have read every record, late acknowledgements of each other included."""
        deadline = time.monotonic() + SETTLING
        quiet_since, seen = time.monotonic(), dict[Place, int]()
        while time.monotonic() < quiet_since + QUIET:
            self._tick(watch)
            if wire.failure is not None:
                raise wire.failure
            wanted = {place: max(offset, wire.last.get(place, 0)) for place, offset in self.injected.farthest().items()}
            wanted = {**wire.last, **wanted}
            left = [place for place, offset in wanted.items() if watch.read_to.get(place, 0) <= offset]
            if left or watch.owing or wanted != seen:
                quiet_since, seen = time.monotonic(), wanted
            if time.monotonic() > deadline:
                raise Stalled(
                    f"within {SETTLING:g} s there was no end of records; not read in {left}, and {len(watch.owing)} endpoints "
                    "still owed an acknowledgement or were owed one"
                )

    # -- harm ---------------------------------------------------------------------------------------------------

    def _harm(self, share: float) -> None:
        now = time.monotonic()
        if share >= 1:
            self._kill_at = float("inf")
        elif self._kill_at == float("inf") and share > 0:
            self._kill_at = now + self.options.kill_every
        elif now >= self._kill_at:
            if now < self._moved_at + BREATH:
                self.fleet.kill()
            else:
                self.fleet.counts["kills put off"] += 1
            self._kill_at = now + self.options.kill_every
        if self._frozen is not None and now >= self._frozen[1]:
            self.fleet.thaw(self._frozen[0])
            self._frozen = None
        if self._outage is not None:
            if self._outage.begun.is_set():
                self.fleet.release_all()
            if not self._outage.is_alive() and self._outage.failure is None:
                self._outage = None
        if self._due and share >= self._due[0][0] and self._due[0][1]():
            del self._due[0]

    def _freeze(self, service: str) -> bool:
        if self._frozen is None and (process := self.fleet.freeze(service)) is not None:
            self._frozen = process, time.monotonic() + FROZEN
            return True
        return False

    def _replacing(self, number: int) -> Callable[[], bool]:
        def replace() -> bool:
            self.fleet.replace(number)
            return True

        return replace

    def _restart_broker(self) -> bool:
        if self._frozen is not None:
            return False
        self.fleet.counts["broker restarts"] += 1
        self.fleet.hold_all()
        self._outage = Outage(self._broker)
        self._outage.start()
        return True


class Outage(threading.Thread):
    """The broker stops in order, is away for a while, and comes back.

    While it goes down no worker may ask for a commit. A lone broker that stops between the promise of a commit and its
    markers gives the leadership of its partitions up, takes them for deleted, and notes the transaction as completed: in
    the partitions it stays open and is undone later, although the worker was told otherwise. With replicas the markers
    are written by the next leader.
    """

    SETTLING = 1.0
    """Seconds for the markers of what was promised before."""
    AWAY = 2.0

    def __init__(self, broker: EmbeddedBroker) -> None:
        super().__init__(name="outage", daemon=True)
        self._broker = broker
        self.begun = threading.Event()
        """The broker is away: the workers may see it."""
        self.failure: BaseException | None = None

    def run(self) -> None:
        """Let it happen."""
        pause = threading.Event()
        try:
            pause.wait(self.SETTLING)
            self._broker.stop()
            self.begun.set()
            pause.wait(self.AWAY)
            self._broker.start()
        except BaseException as error:  # noqa: BLE001 - carried to the thread that waits
            self.failure = error
