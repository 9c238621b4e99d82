"""The part of the benchmark in which all dialogs of an initiator break, and new dialogs carry on.

Each dialog has one item that its target has answered. Then the target's side breaks, and the initiator sends one more item, which the target
does not accept. Then the initiator's side breaks too. The initiator asks what was accepted, begins a new dialog, and sends the item again.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from uuid import UUID

from bench import bars, quiet, topics, verify
from bench.children import Child, RunFailed
from bench.ground import Ground
from bench.part import Found, Part, Sheet
from bench.resending.services import ITEMS, SINK, SOURCE, Item, sink, source
from bench.scale.subject import HOUR
from bench.serving import difference
from bench.topics import Filling
from bench.workload import BODY_BYTES, PARTITIONS, Job, Workload
from conversations import Client, Kafka
from conversations.bodies import codec_of
from conversations.kafka.admin import apply
from conversations.protocol.command import Command, Send, encode_command
from conversations.protocol.contract import as_message_type
from conversations.protocol.envelope import (
    Envelope,
    Kind,
    Prefix,
    encode,
)
from conversations.protocol.topics import COMMANDS, QUEUE, partition_of, service_topic
from conversations.testing.said import said

DIALOGS = 10_000
BROKEN = -9719
"""A system error of the class after which messages are sent again."""
PATIENCE = 600.0
TEXT = "x" * BODY_BYTES
Kinds = dict[Kind, list[float]]
"""When the envelopes of each kind were appended, in seconds."""


class Run:
    """One run on topics of its own."""

    def __init__(self, ground: Ground, dialogs: int) -> None:
        self._ground, self._dialogs = ground, dialogs
        self.space = ground.space()
        self._kafka = Kafka(ground.bootstrap, namespace=self.space)
        self._ids: list[str] = []

    def measure(self) -> dict[str, Any]:
        """Break all dialogs, and wait until each item that is sent again is answered.

        Raises:
            RunFailed: a process failed, or an answer is missing.
        """
        count = self._dialogs
        apply(self._kafka, [source().declaration(), sink().declaration()], partitions=PARTITIONS, replication=1)
        bootstrap = self._ground.bootstrap
        with ExitStack() as stack:
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-"))
            children = [stack.enter_context(self._child(name, directory)) for name in (SOURCE, SINK)]
            for child in children:
                child.await_start()
            self._begin()
            self._await(SOURCE, lambda kinds: len(kinds[Kind.MESSAGE]) >= count, "the first answers")
            topics.fill(bootstrap, self._errors(of_initiator=False))  # in the queue before the second items
            topics.fill(bootstrap, self._items())
            self._await(SINK, lambda kinds: len(kinds[Kind.MESSAGE]) >= 2 * count, "the second items")
            busy = quiet.settle(self._ground.patience)
            before = [child.ask("figures") for child in children]
            topics.fill(bootstrap, self._errors(of_initiator=True))
            kinds = self._await(
                SOURCE, lambda kinds: len(kinds[Kind.MESSAGE]) >= 2 * count, "the answers on new dialogs"
            )
            used = sum(
                difference(child.ask("figures"), old)["cpu_seconds"]
                for child, old in zip(children, before, strict=True)
            )
        verdict = verify.numbered(self._ground.bootstrap, self.space, SOURCE, 2 * count)
        if not verdict.good:
            raise RunFailed(f"the answers are wrong: {verdict}")
        seconds = max(kinds[Kind.MESSAGE]) - min(kinds[Kind.ERROR])
        return {
            "seconds": seconds,
            "per_second": round(count / seconds),
            "cpu_us": round(1e6 * used / count),
            "busy_before": busy,
        }

    def _child(self, name: str, directory: str) -> Child:
        job = Job(name, self._ground.bootstrap, self.space, directory, Workload())
        return Child("bench.resending.services", job.to_json())

    def _begin(self) -> None:
        openings = [(Client.new_id(), Item(n=0, text=TEXT)) for _ in range(self._dialogs)]
        with Client(source(), self._kafka) as client:
            failed = [it for it in client.begin_dialogs(SINK, ITEMS, openings) if it.error is not None]
        if failed:
            raise RunFailed(f"{len(failed)} dialogs did not begin: {failed[0].error}")
        self._ids = [name for name, _ in openings]

    def _errors(self, *, of_initiator: bool) -> Iterator[Filling]:
        """Break the sides of the initiator, or those of the target."""
        ours, theirs = (SINK, SOURCE) if of_initiator else (SOURCE, SINK)
        topic, now = service_topic(self.space, theirs, QUEUE), time.time_ns() // 1_000
        for name in self._ids:
            prefix = Prefix(
                UUID(name).bytes, not of_initiator, ITEMS.name, ours, theirs, name, not of_initiator, now + HOUR, now + 24 * HOUR
            )  # fmt: skip
            value = encode(
                Envelope(prefix, Kind.ERROR, -1, -1, -1, sent_at=now, code=BROKEN, description="to measure it")
            )
            yield topic, partition_of(name.encode(), PARTITIONS), name.encode(), value, None

    def _items(self) -> Iterator[Filling]:
        topic, now = service_topic(self.space, SOURCE, COMMANDS), time.time_ns() // 1_000
        codec = codec_of(as_message_type(Item))
        send = Send(codec.name, codec.content_type, codec.encode(Item(n=1, text=TEXT)))
        for name in self._ids:
            command = Command(os.urandom(16), UUID(name).bytes, True, name, "", "bench", now, (send,))
            yield topic, partition_of(name.encode(), PARTITIONS), name.encode(), encode_command(command), None

    def _await(self, service: str, condition: Callable[[Kinds], bool], what: str) -> Kinds:
        """Read the queue of a service again and again until a condition is true.

        Raises:
            RunFailed: it takes too long.
        """
        deadline = time.monotonic() + PATIENCE
        while not condition(kinds := self._kinds(service)):
            if time.monotonic() > deadline:
                counts = {kind.name: len(dates) for kind, dates in kinds.items() if dates}
                raise RunFailed(f"{what} are not there after {PATIENCE:g} s: {counts}")
            time.sleep(0.5)
        return kinds

    def _kinds(self, service: str) -> Kinds:
        found: Kinds = {kind: [] for kind in Kind}
        for message in topics.read(self._ground.bootstrap, service_topic(self.space, service, QUEUE), PARTITIONS):
            found[said(message.value()).kind].append(message.timestamp()[1] / 1e3)
        return found


def measure(ground: Ground) -> Found:
    """Run all rounds."""
    dialogs = ground.plan.count(DIALOGS)
    found: Found = {"rounds": 0, "dialogs": dialogs, "samples": [], "failures": [], "disturbed": False}
    ground.screen.expect(ground.plan.rounds)
    for number in range(ground.plan.rounds):
        ground.screen.tell(f"round {number + 1}: {dialogs:,} dialogs")
        run = Run(ground, dialogs)
        try:
            found["samples"].append(run.measure())
            found["rounds"] += 1
        except RunFailed as error:
            found["failures"].append(str(error))
        finally:
            topics.drop(ground.bootstrap, run.space)
        ground.screen.advance()
    if found["samples"]:
        found["median_per_second"] = round(statistics.median(it["per_second"] for it in found["samples"]))
        found["median_cpu_us"] = round(statistics.median(it["cpu_us"] for it in found["samples"]))
        found["disturbed"] = any(it["busy_before"] > quiet.QUIET for it in found["samples"])
    return found


def sheets(found: Found) -> list[Sheet]:
    """Return a table with one row."""
    if not found["samples"]:
        return []
    per_second = [it["per_second"] for it in found["samples"]]
    row = (
        f"{found['dialogs']:,}",
        f"{found['median_per_second']:,} ({min(per_second):,}-{max(per_second):,})",
        f"{found['median_cpu_us']:,}",
    )
    note = (
        f"Each dialog breaks with {BROKEN}, and the one item that its target has not accepted is sent again on a new dialog. The time begins with the "
        "first error in the queue of the initiator, and ends with the last answer on a new dialog. The CPU time is that of both services. "
        f"Medians of {found['rounds']} rounds; in brackets: the slowest and the fastest round."
    )
    return [Sheet(("dialogs", "renewed dialogs/s", "CPU us/dialog"), [row], [note])]


def draw(found: Found, figure: Any) -> None:
    """Draw a bar."""
    figure.set_size_inches(10.5, 1.4)
    samples = [it["per_second"] for it in found["samples"]]
    rows = [bars.Bar("broken and renewed", found["median_per_second"], samples, bars.OURS)]
    bars.horizontal(figure.subplots(), rows, "Dialogs that break and carry on: per second")


PART = Part("resending", "Dialogs that break and carry on", minutes=6, measure=measure, sheets=sheets, draw=draw)
