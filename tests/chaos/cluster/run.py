"""Carries a run on a cluster out: brokers, the network between all, worker processes, a plan to be sent, a plan of faults."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from time import monotonic

from confluent_kafka import KafkaException

from conversations.config import Kafka
from conversations.errors import LogError
from conversations.kafka.admin import apply
from conversations_ops.broker import BrokerError
from conversations_ops.demo.screen import Progress, Screen
from tests.chaos.cluster.arrivals import Arrivals
from tests.chaos.cluster.beside import Beside
from tests.chaos.cluster.compacting import let_it_be_compacted
from tests.chaos.cluster.faults import Kind, draw
from tests.chaos.cluster.harm import Harm
from tests.chaos.cluster.markers import write_missing
from tests.chaos.cluster.nodes import NODES, Nodes
from tests.chaos.cluster.proxy import Proxy
from tests.chaos.plan import Injected, Plan
from tests.chaos.processes import Fleet, Process
from tests.chaos.run import Result
from tests.chaos.sending import Sender
from tests.chaos.services import ledger_1, teller_1
from tests.chaos.watch import Watch

TICK = 0.05
LONGER = 60.0
"""Seconds for which what is not done in time is still waited for: what is done late is told apart from what never is."""
QUIET = 8.0
"""Seconds without anything new after which there will be nothing: an acknowledgement waits 5 s for something to go with."""
BACK = 120.0
"""Seconds brokers may take to be one cluster again."""
AHEAD = 20
"""Entries that may be sent before their time."""
SETTLING = 60.0
NOTED_EVERY = 5.0
"""Seconds between two lines, among those of the faults, about how far it is."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a run is to be like."""

    messages: int
    dialogs: int
    seconds: float
    """How long things go wrong."""
    kinds: tuple[Kind, ...]
    workers: int
    partitions: int
    seed: int
    within: float
    """Seconds after the last fault within which everything must be done."""
    spark: bool
    """A stream and the archive run beside it."""


class ClusterRun:
    """One run, on nodes that are up, behind a proxy.

    Args:
        directory: for the workers' log and state, the records, and what Spark writes.
    """

    def __init__(self, options: Options, nodes: Nodes, proxy: Proxy, directory: Path, screen: Screen) -> None:
        self.options, self._nodes, self._proxy, self._screen = options, nodes, proxy, screen
        namespace = f"chaos{options.seed}"
        self.kafka = Kafka(nodes.direct, namespace=namespace)
        """Past the proxy, for whoever watches."""
        clients = Kafka(nodes.bootstrap, namespace=namespace)
        self.plan = Plan(options.seed, options.messages, options.dialogs, namespace, options.partitions, 0.0)
        self.records = directory / "records"
        self.records.mkdir()
        self.plan.write(self.records, Injected())
        os.environ["CHAOS_RECORDS"] = str(self.records)
        self.fleet = Fleet(clients, directory, options.workers, Random(f"fleet {options.seed}"))
        self.faults = draw(
            options.seed, options.seconds, options.kinds, [process.name for process in self.fleet.processes]
        )
        self._log = (directory / "faults.log").open("a", encoding="utf-8", buffering=1)
        self.harm = Harm(self.faults, nodes, proxy, self.fleet, directory / "old", self._note)
        self.beside = Beside(clients, directory, enabled=options.spark)
        self._clients = clients
        self._progress: Progress | None = None
        self._note_at = 0.0
        self.finished_after: float | None = None
        """Seconds from the end of the last fault to the last thing that was done."""

    def _note(self, line: str) -> None:
        self._log.write(f"{line}\n")

    def run(self) -> Result:
        """Do it all, and stop the workers in order.

        Raises:
            LogError, BrokerError: it could not be carried out.
        """
        self._apply()
        title = f"{2 * self.plan.entries:,} messages on {self.options.dialogs:,} dialogs, answered:"
        started = monotonic()
        wrong: list[str] = []
        watch = Watch(self.kafka, self.plan)
        # A cluster may be without a quorum for as long as things go wrong: clients do not give up before.
        patience = self.options.seconds + BACK + self.options.within + LONGER
        sender = Sender(self._clients, self.plan, AHEAD, self._due, patience)
        try:
            with contextlib.closing(watch), Arrivals(self.kafka) as arrivals, sender.running(), self.beside.running():
                with self._screen.progress(title, self.plan.answerable) as self._progress:
                    self._while_it_lasts(watch, sender)
                    self._mend()
                    wrong += self._finish(watch, arrivals, sender)
                wrong += self.beside.finish(self.options.within + LONGER)
                late = self.fleet.stop()
                watch.to_the_end(SETTLING)
        finally:
            self.fleet.kill_all()
        counts = {
            **self.harm.counts, **self.fleet.counts, **self._nodes.counts, **self._proxy.counts, **self.beside.counts,
            "killed while stopping": late, "commands repeated": sender.repeated,
        }  # fmt: skip
        if not wrong:
            wrong += watch.differences()
        if self._proxy.strangers:
            wrong.append(f"brokers that do not say who they are: {dict(self._proxy.strangers)}")
        return Result(monotonic() - started, counts, Injected(), wrong, dict(self.fleet.ends))

    def _apply(self) -> None:
        """Make the topics; a cluster that has just begun, on a busy machine, may need to be asked twice."""
        deadline = monotonic() + BACK
        while True:
            try:
                apply(
                    self.kafka,
                    [teller_1().declaration(), ledger_1().declaration()],
                    self.options.partitions,
                    len(NODES),
                )
                let_it_be_compacted(self.kafka)
            except (LogError, KafkaException) as error:
                if monotonic() > deadline:
                    raise BrokerError(f"the topics cannot be made: {error}") from error
            else:
                return

    def _due(self) -> int:
        """How many entries may have been sent by now: all, spread over the time in which things go wrong."""
        return int(self.plan.entries * self.harm.elapsed / self.options.seconds)

    def _while_it_lasts(self, watch: Watch, sender: Sender) -> None:
        self.harm.tick()  # what is so from the start
        self._await_workers(watch, sender)
        self.harm.start()
        while self.harm.elapsed < self.options.seconds or self.harm.left:
            self.harm.tick()
            self._look(watch, sender)

    def _await_workers(self, watch: Watch, sender: Sender) -> None:
        """Wait until every partition is at work, and Spark: while they start, nothing that goes wrong harms them."""
        deadline = monotonic() + BACK
        while monotonic() < deadline and not (
            self.beside.at_work and sum(map(_at_work, self.fleet.processes)) == 2 * self.options.partitions
        ):
            self._look(watch, sender)

    def _mend(self) -> None:
        self.harm.mend()
        started = monotonic()
        self._nodes.await_all(BACK)
        self._screen.say(f"Everything is mended; brokers took {monotonic() - started:.0f} s. What is left is done now.")

    def _finish(self, watch: Watch, arrivals: Arrivals, sender: Sender) -> Iterator[str]:
        """Wait until all is done; tell what was not, or not in time."""
        started = quiet_since = markers_at = monotonic()
        seen: object = None
        while monotonic() < quiet_since + QUIET:
            self._look(watch, sender)
            if monotonic() > markers_at:
                self._write_missing_markers()
                markers_at = monotonic() + NOTED_EVERY
            arrivals.look()
            unread, now = arrivals.unread(watch.read_to), monotonic()
            done = watch.done() and sender.done and not unread and not watch.owing
            state = dict(arrivals.last), dict(watch.read_to), len(watch.owing)
            if not done or state != seen:
                quiet_since, seen = now, state
            if now > started + self.options.within + LONGER:
                yield (
                    f"stalled: {now - started:.0f} s after the last fault {watch.answered:,} of {self.plan.answerable:,} are answered, "
                    f"{watch.over:,} of {len(self.plan.closing):,} dialogs over, sent {sender.sent:,}; not read: {unread}; "
                    f"{len(watch.owing)} endpoints owe or are owed an acknowledgement"
                )
                return
        self.finished_after = quiet_since - started
        if self.finished_after > self.options.within:
            yield f"stalled: all was done {self.finished_after:.0f} s after the last fault, not within {self.options.within:g} s"

    def _write_missing_markers(self) -> None:
        """Do what an operator does about a transaction that is complete for its coordinator, and open in a partition."""
        with contextlib.suppress(KafkaException, OSError):
            for marker in write_missing(self._nodes, self.kafka.namespace):
                self.harm.counts["markers that Kafka left out"] += 1
                self._note(f"written, as Kafka left it out: {marker}")

    def _look(self, watch: Watch, sender: Sender) -> None:
        """Look after processes, and see how far it is."""
        self.fleet.tend()
        self._nodes.tend()
        self.beside.tend()
        with contextlib.suppress(LogError):
            watch.look(TICK)
        if sender.failure is not None:
            raise sender.failure
        if self.harm.elapsed >= self._note_at:
            self._note_at = self.harm.elapsed + NOTED_EVERY
            at_work = {process.name: _at_work(process) for process in self.fleet.processes}
            self._note(
                f"{self.harm.elapsed:6.1f} s  sent {sender.sent:,}, answered {watch.answered:,}, partitions: {at_work}"
            )
        if self._progress is not None:
            kills = self.fleet.counts["killed"]
            note = f"{self.harm.elapsed:.0f} s, {watch.over:,} dialogs over, {kills:,} kills"
            self._progress.at(watch.answered, note)


def _at_work(process: Process) -> int:
    """How many partitions a process has, as it last said."""
    return len(process.status.get("partitions", ()))
