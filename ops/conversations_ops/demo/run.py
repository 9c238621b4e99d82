"""Runs the demo: starts a broker and both services, sends the flights, injects the faults and reads the outcome."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from conversations.kafka.follow import Follower
from conversations.kafka.offsets import Place, positions_of
from conversations.protocol.topics import DEAD_LETTER, STATE, service_topic
from conversations_ops.demo.aircraft_log import aircraft_log
from conversations_ops.demo.by_hand import console, wait
from conversations_ops.demo.check import Comparison, check
from conversations_ops.demo.clusters import HANGAR, Clusters, Crossing, Forwarders, forwarding, started
from conversations_ops.demo.expected import Expected, expected
from conversations_ops.demo.failing import DemoFailed
from conversations_ops.demo.flights import Flight, data_file, read_flights
from conversations_ops.demo.mending import Held, Operator
from conversations_ops.demo.operations import operations
from conversations_ops.demo.outcome import Outcome, letter_of
from conversations_ops.demo.pipeline import Pipeline, run_pipeline
from conversations_ops.demo.replay import Replayer
from conversations_ops.demo.screen import Progress, Screen
from conversations_ops.demo.sending import Sending, sending_of
from conversations_ops.demo.workers import Worker, Workers
from conversations_ops.host.foreground import logged_to

SERVICES = (operations.name, aircraft_log.name)
WORKERS = 2
ONE_SIDE = "Spark's archive reads one cluster, and each cluster has one side of every dialog"
"""Why Spark does not run on two clusters."""
DUPLICATED = 0.02
"""Share of the records on the wire that are appended a second time."""
KILL_AT = 0.4
"""Share of all replies. When this share has arrived, a worker is killed."""
STANDSTILL = 60.0
"""Seconds. If there is no progress for this time, the demo fails."""
DRAINING = 60.0
"""Maximum seconds for reading the remaining records at the end."""
LOOK_EVERY = 0.3
"""Seconds between two requests for the condition of the workers."""


@dataclass
class Faults:
    """The faults of a run, and their effects."""

    duplicates: list[tuple[Place, int]] = field(default_factory=list)
    """Topic, partition and offset of each record that was appended a second time."""
    read: int = 0
    """Number of duplicates that the services have read and committed."""
    killed: Worker | None = None
    killed_after: int = 0
    """Number of replies when the worker was killed."""
    back_after: float | None = None
    """Seconds from the kill until a new process worked in place of the killed worker; None until then."""
    crashes: int = 0
    """Number of processes that the supervisor started again."""
    forwarder_killed: int | None = None
    """Process id of the forwarder that was killed; None if there are no forwarders."""
    counted: int = 0
    """Number of duplicates, from the counts of the worker processes. The count of a killed process is lost."""


@dataclass
class Mending:
    """The operator's decisions about the held messages. Each message is about a flight that never arrived."""

    edited: Held
    redriven: dict[str, int]
    """Number of redriven letters, by outcome."""
    seconds: float
    """Seconds from the edit to the end of the redrive, including the start of the new release."""


@dataclass
class Result:
    """All data of the report."""

    flights: Sequence[Flight]
    expected: dict[str, Expected]
    outcome: Outcome
    faults: Faults
    mending: Mending
    comparison: Comparison
    pipeline: Pipeline
    seconds: float
    """Seconds from the sending of the first flight to the arrival of the last summary."""
    crossings: list[Crossing]
    """What has crossed between two clusters; empty with one cluster."""
    kept: Path | None
    logs: list[Path]
    """The logs of the workers."""


def demonstrate(
    screen: Screen, *, faults: bool, keep: bool, spark: bool = True, by_hand: bool = False, clusters: int = 1
) -> Result:
    """Start one or two brokers, and run the demo on them. With ``by_hand``, a person redrives the held flights in the web console.

    Raises:
        NoFlights: the data are not installed.
        BrokerError, LogError, DemoFailed: the demo could not be carried out.
    """
    data = data_file()  # a missing file is reported before anything starts
    with ThreadPoolExecutor(1) as pool, _directory(screen, keep=keep) as directory, logged_to(directory / "demo.log"):
        reading = pool.submit(_read, data)
        screen.say("Starting Kafka ..." if clusters == 1 else "Starting two Kafkas ...")
        with started(clusters, directory if keep else None) as places, contextlib.ExitStack() as until_the_end:
            flights, wanted = reading.result()
            forwarders = until_the_end.enter_context(forwarding(places, directory))
            _tell_places(screen, places, forwarders)
            with _workers(places, directory, keep=keep) as workers:
                screen.say(f"{WORKERS} worker processes run {SERVICES[0]}, {WORKERS} more run {SERVICES[1]}")
                operator = Operator(places.aircraft_log, directory, screen.say)
                demo = Demo(places, forwarders, workers, (flights, wanted), screen, operator)
                if by_hand:
                    demo.hand_over(lambda: until_the_end.enter_context(console(places.aircraft_log, directory)))
                seconds = demo.run(faults=faults)
            demo.faults.crashes, demo.faults.counted = workers.restarts, workers.duplicates
            crossings = forwarders.crossed(demo.faults.duplicates)
            pipeline = Pipeline(left_out=ONE_SIDE if places.several else "--no-spark was given")
            if spark and not places.several:
                screen.say(
                    "The workers have stopped. Spark archives the messages, audits them, and adds up the flights ..."
                )
                bootstrap = places.operations.bootstrap
                pipeline = run_pipeline(bootstrap, directory / "archive", flights, screen.say)
        return Result(
            flights, wanted, demo.outcome, demo.faults, demo.mending, check(wanted, demo.outcome, crossings), pipeline, seconds,
            crossings, directory if keep else None, workers.logs,
        )  # fmt: skip


def _tell_places(screen: Screen, places: Clusters, forwarders: Forwarders) -> None:
    if not places.several:
        screen.say(f"Kafka is ready at {places.operations.bootstrap}; starting the workers ...")
        return
    screen.say(f"{SERVICES[0]} is on the cluster home, at {places.operations.bootstrap}")
    screen.say(f"{SERVICES[1]} is on the cluster {HANGAR}, at {places.aircraft_log.bootstrap}")
    screen.say(f"{forwarders.count} forwarders carry the messages; starting the workers ...")


def _read(data: Path) -> tuple[list[Flight], dict[str, Expected]]:
    flights = read_flights(data)
    return flights, expected(flights)


@contextlib.contextmanager
def _directory(screen: Screen, *, keep: bool) -> Iterator[Path]:
    if keep:
        directory = Path(tempfile.mkdtemp(prefix="conversations-demo-"))
        screen.say(f"Everything is kept in {directory}")
        yield directory
        return
    with tempfile.TemporaryDirectory(prefix="conversations-demo-", ignore_cleanup_errors=True) as name:
        yield Path(name)


@contextlib.contextmanager
def _workers(places: Clusters, directory: Path, *, keep: bool) -> Iterator[Workers]:
    workers = Workers(places, directory, WORKERS, keep=keep)
    try:
        workers.await_health()
        yield workers
    finally:
        try:
            workers.stop()  # stop before Kafka stops, also after a failure, because the stop takes much longer without Kafka
        except BaseException:
            workers.kill()
            raise


class Demo:
    """One run of the demo, on a broker and workers that are already running."""

    mending: Mending

    def __init__(
        self, clusters: Clusters, forwarders: Forwarders, workers: Workers,
        data: tuple[Sequence[Flight], dict[str, Expected]], screen: Screen, operator: Operator,
    ) -> None:  # fmt: skip
        self._flights, wanted = data
        self.outcome = Outcome()
        self.faults = Faults()
        self._clusters, self._forwarders = clusters, forwarders
        self._workers, self._screen, self._operator = workers, screen, operator
        self._open_console: Callable[[], Callable[[], None]] | None = None
        """Opens the web console, in which a person redrives; None if the demo does it."""
        self._aircraft = len(wanted)
        self._held = {aircraft for aircraft, each in wanted.items() if each.held is not None}
        self._edited = next(aircraft for aircraft, each in wanted.items() if each.edited)
        self._replies = sum(len(each.logged) for each in wanted.values())
        self._killed_at = self._look_at = 0.0

    def hand_over(self, open_console: Callable[[], Callable[[], None]]) -> None:
        """Let a person redrive. ``open_console`` opens the web console, and returns a function that raises if it has ended."""
        self._open_console = open_console

    def run(self, *, faults: bool) -> float:
        """Send the flights, inject the faults, act as an operator, and wait for all summaries. Return the seconds for all this.

        Raises:
            LogError, DemoFailed: the demo could not be carried out.
        """
        home = self._clusters.operations
        replayers = [
            Replayer(kafka, queues, DUPLICATED if faults else 0.0, Random(2013))
            for kafka, queues in self._clusters.queues()
        ]
        states = [service_topic(home.namespace, operations.name, STATE)]
        with (
            Follower(home, states) as desks,
            _stopped(replayers),
            sending_of(home, self._flights) as sending,
        ):
            if faults:
                for replayer in replayers:
                    replayer.start()
            started = time.monotonic()
            sending.start()
            self._watch(desks, sending, self._aircraft - len(self._held), faults=faults)
            self._await_worker()
            self._mend()
            self._watch(desks, sending, self._aircraft, faults=False)
            seconds = time.monotonic() - started
            if faults:
                self._settle(replayers)
            self.outcome.desks.take(desks.to_the_end(DRAINING))
        self._read_letters()
        self.outcome.waiting = len(self._operator.held())
        return seconds

    def _mend(self) -> None:
        """Act as an operator: edit one held flight, start the next release, and redrive the other held flights."""
        self.outcome.held = held = self._await_held()
        self._screen.say(
            f"{len(held)} aircraft wait behind a flight that departed and never arrived: {sum(it.behind for it in held)} flights "
            "wait there. All other aircraft are done. An operator finds the arrival of one flight, and enters it:"
        )
        started = time.monotonic()
        edited = next(it for it in held if it.aircraft == self._edited)
        self._operator.edit(edited)
        turn = "it is your turn." if self._open_console else "the operator redrives:"
        self._screen.say(
            f"The next release of aircraft-log counts such flights as diverted. Its workers start, then {turn}"
        )
        self._workers.replace()
        redriven = self._by_hand(self._open_console) if self._open_console else self._operator.redrive()["outcomes"]
        self.mending = Mending(edited, redriven, time.monotonic() - started)

    def _by_hand(self, open_console: Callable[[], Callable[[], None]]) -> dict[str, int]:
        """Wait until a person has redriven the held flights in the web console. Return their number, by outcome."""
        left = len(self._operator.held())
        self._screen.say(
            f"{left} aircraft still wait. Open the link below, look at Held, make a plan for the group, and start it. The demo goes on "
            "when no flight is held."
        )
        wait(lambda: len(self._operator.held()), [open_console(), self._workers.check])
        return {"handled": left}

    def _await_held(self) -> list[Held]:
        """Wait until every flight that must be held has had its last attempt. Return the held flights."""
        deadline = time.monotonic() + STANDSTILL
        while len(held := self._operator.held()) < len(self._held):
            self._workers.check()
            if time.monotonic() > deadline:
                raise DemoFailed(
                    f"Only {len(held)} of {len(self._held)} flights are held after {STANDSTILL:g} s.{self._workers.last_words()}"
                )
        return held

    def _watch(self, follower: Follower, sending: Sending, aircraft: int, *, faults: bool) -> None:
        """Follow the state of ``operations`` until enough aircraft have a summary. ``aircraft`` is the number that is enough."""
        desks = self.outcome.desks
        title = f"{len(self._flights):,} flights of {self._aircraft:,} aircraft, answered:"
        moved_at, seen = time.monotonic(), (0, 0)
        with self._screen.progress(title, self._replies) as progress:
            while desks.finished < aircraft:
                desks.take(follower.poll(0.1))
                sending.check()
                self._workers.check()
                self._forwarders.check()
                progress.at(desks.replies, f"{desks.finished:,} summaries")
                if faults:
                    self._harm(progress)
                now = (desks.replies, desks.finished)
                if now != seen:
                    moved_at, seen = time.monotonic(), now
                elif time.monotonic() - moved_at > STANDSTILL:
                    raise DemoFailed(
                        f"Nothing has moved for {STANDSTILL:g} s: {desks.replies:,} replies, {desks.finished:,} summaries."
                        + self._workers.last_words()
                    )

    def _harm(self, progress: Progress) -> None:
        """Kill a worker when enough flights are answered. Later, note the time when a new process works in its place."""
        faults, desks = self.faults, self.outcome.desks
        if time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + LOOK_EVERY
        if faults.killed is None:
            if desks.replies >= KILL_AT * self._replies:
                faults.killed = self._workers.kill_one(aircraft_log.name)
                faults.killed_after = desks.replies
                faults.forwarder_killed = self._forwarders.kill_one()
                self._killed_at = time.monotonic()
                progress.at(desks.replies, "a worker was killed")
        else:
            self._look_for_another(faults.killed)

    def _look_for_another(self, killed: Worker) -> None:
        """If a new process works in place of the killed worker, note the time."""
        if self.faults.back_after is None and any(
            worker.slot == killed.slot and worker.service == killed.service
            and worker.pid != killed.pid and worker.state == "running"
            for worker in self._workers.look()
        ):  # fmt: skip
            self.faults.back_after = time.monotonic() - self._killed_at

    def _settle(self, replayers: Sequence[Replayer]) -> None:
        """Append the late duplicates, and wait until the services have read all duplicates."""
        for replayer in replayers:
            replayer.finish()
        self.faults.duplicates = places = [place for replayer in replayers for place in replayer.places]
        deadline = time.monotonic() + DRAINING
        while self.faults.read < len(places) or self._is_down():
            if time.monotonic() > deadline:
                raise DemoFailed(
                    f"{len(places) - self.faults.read} duplicates were not read within {DRAINING:g} s."
                    + self._workers.last_words()
                )
            time.sleep(0.1)
            taken = {
                place: at
                for service in SERVICES
                for place, at in positions_of(self._clusters.of(service), service).items()
            }
            self.faults.read = sum(offset < taken.get(place, 0) for place, offset in places)

    def _await_worker(self) -> None:
        """Wait until a new process works in place of the killed worker."""
        deadline = time.monotonic() + STANDSTILL
        while self._is_down():
            if time.monotonic() > deadline:
                raise DemoFailed(f"No new worker started in place of the killed one.{self._workers.last_words()}")
            time.sleep(LOOK_EVERY)

    def _is_down(self) -> bool:
        if self.faults.killed is not None:
            self._look_for_another(self.faults.killed)
        return self.faults.killed is not None and self.faults.back_after is None

    def _read_letters(self) -> None:
        for service in SERVICES:
            kafka = self._clusters.of(service)
            with Follower(kafka, [service_topic(kafka.namespace, service, DEAD_LETTER)]) as follower:
                self.outcome.letters += [letter_of(service, record) for record in follower.to_the_end(DRAINING)]


@contextlib.contextmanager
def _stopped(replayers: Sequence[Replayer]) -> Iterator[None]:
    try:
        yield
    finally:
        for replayer in replayers:
            replayer.stop()
