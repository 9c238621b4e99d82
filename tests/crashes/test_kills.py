"""A worker process killed at each moment that matters: nothing is lost, nothing twice, all in order."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Self
from uuid import uuid4

import pytest

from conversations import Client, Kafka, WorkerSettings
from conversations.crew import Crew, kafka_worker
from conversations.kafka.admin import apply
from conversations.kafka.offsets import ends_of
from conversations.kafka.restore import BoundedReader
from conversations.protocol import rows
from conversations.protocol.partition_row import PartitionRow, decode_partition
from conversations.protocol.topics import DEAD_LETTER, QUEUE, STATE, service_topic
from tests.acceptance.support.command_line import ROOT
from tests.crashes.support.counting_services import COUNTING, Number, counter, echoer
from tests.support.forms import python_form
from tests.support.waiting import until

pytestmark = [python_form, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(180)]

KILLED = -signal.SIGKILL


class Scene:
    """A counter that works in this process, and echoers in processes that die."""

    def __init__(self, kafka: Kafka, out: Path, partitions: int) -> None:
        self.kafka, self.out, self.partitions = kafka, out, partitions
        self.orders = out / "orders"
        self.orders.mkdir()
        self.counter = counter()
        self.started: list[MortalProcess] = []
        self.sent: dict[str, int] = {}
        """How many numbers went into each dialog."""
        apply(kafka, [self.counter.declaration(), echoer(out).declaration()], partitions, 1)

    def order(self, point: str) -> None:
        """Have a worker die when it next comes to this point."""
        (self.orders / point).touch()

    def is_done(self, point: str) -> bool:
        return (self.orders / f"{point}.done").exists()

    def mortal(self, slot: str = "one", *, batch: int = 5_000) -> MortalProcess:
        mortal = MortalProcess(self, slot, batch)
        self.started.append(mortal)
        return mortal

    def count(self, client: Client, dialogs: int, numbers: int) -> None:
        """Send numbers in new dialogs."""
        for _ in range(dialogs):
            with client.begin_dialog("echoer", COUNTING) as dialog:
                for n in range(numbers):
                    dialog.send(Number(n=n))
            self.sent[dialog.id] = numbers

    def go_on(self, client: Client, numbers: int) -> None:
        """Send further numbers in all dialogs."""
        for name, before in self.sent.items():
            with client.dialog(name) as dialog:
                for n in range(before, before + numbers):
                    dialog.send(Number(n=n))
            self.sent[name] = before + numbers

    # -- what Kafka says ---------------------------------------------------------------------------------------------

    def records(self, service: str, kind: str) -> list[tuple[int, bytes, bytes | None]]:
        """Committed records of a topic."""
        topic = service_topic(self.kafka.namespace, service, kind)
        ends = ends_of(self.kafka, [(topic, partition) for partition in range(self.partitions)])
        found: list[tuple[int, bytes, bytes | None]] = []
        for (_, partition), end in ends.items():
            reader = BoundedReader(self.kafka, topic, partition, 0, end)
            while not reader.done:
                found += [(partition, key, value) for key, value in reader.read(10_000)]
            reader.close()
        return found

    def state(self, service: str) -> dict[tuple[int, bytes], bytes]:
        """Rows of the state topic as they are now."""
        newest = {(partition, key): value for partition, key, value in self.records(service, STATE)}
        return {where: value for where, value in newest.items() if value is not None}

    def seen(self, service: str) -> dict[str, list[int]]:
        """The numbers each dialog's group has in its state."""
        codec = self.counter.state
        found = {}
        for (_, key), value in self.state(service).items():
            if key[:1] == rows.GROUP:
                group = rows.decode_group(value)
                found[key.partition(b"\0")[2].decode()] = codec.decode(group.state, group.version).numbers
        return found

    def partition_rows(self) -> dict[int, PartitionRow]:
        """Of the echoer."""
        state = self.state("echoer")
        return {number: decode_partition(value) for (number, key), value in state.items() if key == rows.PARTITION}

    def is_complete(self) -> bool:
        heard = self.seen("counter")
        return all(len(heard.get(name, ())) >= numbers for name, numbers in self.sent.items())

    def check(self) -> None:
        """Wait for the last echo; then everything was taken once and in order on both sides."""
        until(self.is_complete, "every number is echoed", 90)
        expected = {name: list(range(numbers)) for name, numbers in self.sent.items()}
        assert self.seen("counter") == expected
        assert self.seen("echoer") == expected
        assert self.records("echoer", DEAD_LETTER) == self.records("counter", DEAD_LETTER) == []


class MortalProcess:
    """One life of a worker process."""

    def __init__(self, scene: Scene, slot: str, batch: int) -> None:
        self.log = scene.out / f"{slot}-{uuid4().hex}.log"
        kafka = scene.kafka
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable, "-m", "tests.crashes.support.dying_worker", kafka.bootstrap, kafka.namespace, slot,
                    scene.orders, scene.out / f"state-{slot}", str(batch),
                ],
                cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=log, stderr=log,
            )  # fmt: skip

    def dies(self) -> None:
        """Wait for the SIGKILL it gives itself."""
        assert self.process.wait(60) == KILLED, self.log.read_text()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(20)

    def stop(self) -> None:
        """Stop it in order."""
        self.process.terminate()
        assert self.process.wait(30) == 0, self.log.read_text()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()


@pytest.fixture
def scene(kafka_bootstrap: str, tmp_path: Path) -> Iterator[Scene]:
    yield from _scene(kafka_bootstrap, tmp_path, 1)


@pytest.fixture
def wide_scene(kafka_bootstrap: str, tmp_path: Path) -> Iterator[Scene]:
    """With two partitions."""
    yield from _scene(kafka_bootstrap, tmp_path, 2)


def _scene(bootstrap: str, out: Path, partitions: int) -> Iterator[Scene]:
    made = Scene(Kafka(bootstrap, namespace=f"k{uuid4().hex[:10]}"), out, partitions)
    worker = kafka_worker(made.counter, made.kafka, WorkerSettings())
    try:
        with Crew([worker], made.kafka):
            yield made
    finally:
        for mortal in made.started:
            mortal.kill()


@pytest.fixture
def client(scene: Scene) -> Iterator[Client]:
    with Client(scene.counter, scene.kafka) as made:
        yield made


# -- at each moment ------------------------------------------------------------------------------------------------


def test_killed_while_its_handler_runs(scene: Scene, client: Client) -> None:
    scene.order("kill-7")
    scene.count(client, 10, 20)
    scene.mortal(batch=20).dies()
    scene.mortal()
    scene.check()


@pytest.mark.parametrize("moment", ["committing-before", "committing-open", "committing-after", "applying"])
def test_killed_around_a_commit(scene: Scene, client: Client, moment: str) -> None:
    """Before anything is produced, with the transaction open, committed and not known, and not applied to the local copy."""
    scene.count(client, 10, 10)
    with scene.mortal(batch=20) as first:
        until(scene.is_complete, "a local copy with something in it")
        scene.order(moment)
        scene.go_on(client, 10)
        first.dies()
    scene.mortal()
    scene.check()


@pytest.mark.parametrize("moment", ["starting-before", "starting-open", "starting-after", "restoring"])
def test_killed_while_it_takes_its_partition_up(scene: Scene, client: Client, moment: str) -> None:
    """It begins from nothing, between two slices of its state; and around the transaction that marks the start."""
    scene.count(client, 30, 3)
    with scene.mortal("first"):
        until(scene.is_complete, "a state to be restored")
    scene.go_on(client, 3)
    scene.order(moment)
    scene.mortal("second").dies()
    scene.mortal("second")
    scene.check()


@pytest.mark.parametrize("moment", ["revoking-before", "revoking-open", "revoking-after", "revoked"])
def test_killed_while_it_gives_its_partitions_back(scene: Scene, client: Client, moment: str) -> None:
    scene.count(client, 10, 10)
    first = scene.mortal(batch=20)
    until(scene.is_complete, "at work")
    scene.order(moment)
    scene.go_on(client, 20)
    first.process.terminate()
    first.dies()
    scene.mortal()
    scene.check()


def test_killed_with_rows_that_wait(scene: Scene, client: Client) -> None:
    """Its handler does not return, so all of its dialog waits; the next process handles it in order."""
    scene.order("stop-3")
    scene.count(client, 3, 50)
    first = scene.mortal()

    def waiting() -> int:
        return sum(key[:1] == rows.WAITING for _, key in scene.state("echoer"))

    # At least: the counter acknowledges the first three echoes when it finds the time, and that waits too.
    until(lambda: waiting() >= 3 * 47, "everything behind the three handlers waits")
    first.kill()
    (scene.orders / "stop-3").unlink()
    scene.go_on(client, 5)
    scene.mortal()
    scene.check()
    until(lambda: waiting() == 0, "no row is left")


# -- counting deaths -------------------------------------------------------------------------------------------------


def test_deaths_in_quick_succession_are_counted_until_all_from_before_is_settled(scene: Scene, client: Client) -> None:
    scene.count(client, 1, 5)
    counted = []
    for _ in range(3):
        scene.order("kill-1")
        scene.mortal().dies()
        (row,) = scene.partition_rows().values()
        counted.append((row.unclean_starts, row.clean))
    assert counted == [(0, False), (1, False), (2, False)]
    last = scene.mortal()
    scene.check()
    until(lambda: scene.partition_rows()[0].unclean_starts == 0, "the bound is passed")
    last.stop()
    assert scene.partition_rows()[0].clean
    with scene.mortal():
        until(lambda: not scene.partition_rows()[0].clean, "the start is committed")
        assert scene.partition_rows()[0].unclean_starts == 0


def test_of_two_workers_one_dies_and_only_its_partition_is_suspect_where_it_goes(
    wide_scene: Scene, kafka_bootstrap: str
) -> None:
    scene = wide_scene
    for point in ("kill-1", "stop-2"):
        scene.order(point)
    left, right = scene.mortal("left"), scene.mortal("right")
    until(lambda: "rows restored" in left.log.read_text() and "rows restored" in right.log.read_text(), "both work")
    with Client(scene.counter, scene.kafka) as client:
        scene.count(client, 8, 5)
    until(lambda: scene.is_done("kill-1"), "one of them dies")
    until(lambda: sorted(row.unclean_starts for row in scene.partition_rows().values()) == [0, 1], "taken over")
    assert [mortal.process.poll() for mortal in (left, right)].count(None) == 1
    (scene.orders / "stop-2").unlink()
    for mortal in (left, right):
        mortal.kill()
    scene.mortal("third")
    scene.check()
    until(lambda: not any(row.unclean_starts for row in scene.partition_rows().values()), "all is settled")


# -- by a record -----------------------------------------------------------------------------------------------------


@pytest.mark.timeout(400)
@pytest.mark.parametrize("order", ["decode-500-fault", "decode-500-exit", "commit-500-kill"])
def test_a_record_that_ends_every_process_that_takes_it_is_set_aside(
    scene: Scene, client: Client, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    """After five of them at most; what was before it and behind it is handled, in order."""
    monkeypatch.setenv("DEADLY", order)
    scene.count(client, 2, 5)
    with client.begin_dialog("echoer", COUNTING) as dialog:
        dialog.send(Number(n=500))
    scene.count(client, 2, 5)
    until(lambda: len(scene.records("echoer", QUEUE)) >= 21, "everything is in the queue")
    deaths = 0
    while not scene.is_complete() or not scene.records("echoer", DEAD_LETTER):
        assert deaths <= 5
        with scene.mortal() as mortal:
            until(
                lambda: (
                    mortal.process.poll() is not None or (scene.is_complete() and scene.records("echoer", DEAD_LETTER))
                ),
                "it dies, or everything is handled",
                pause=0.5,
            )
            deaths += mortal.process.poll() is not None
    assert 2 <= deaths <= 5
    (letter,) = scene.records("echoer", DEAD_LETTER)
    assert b'"n":500' in (letter[2] or b"").replace(b" ", b"")
    seen = scene.seen("echoer")
    assert seen.pop(dialog.id, None) is None
    assert seen == {name: list(range(numbers)) for name, numbers in scene.sent.items()}
