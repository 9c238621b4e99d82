"""`python -m tests.spark.chaos_speak`: kills the driver of `conversations spark speak` again and again, and counts what is heard.

Rows of many dialogs lie in files. A driver in a process of its own says them, a file per batch; at random moments of its
work it is killed (SIGKILL), with its JVM, and started again. Meanwhile 2 % of the records of both services come a second
time, some of them much later. At the end every dialog must have heard every line once and in order, and nothing else.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Annotated, Any, NamedTuple

import typer
from confluent_kafka import Producer

from conversations.config import Kafka
from conversations.kafka.follow import Follower
from conversations.kafka.offsets import Place
from conversations.protocol import rows
from conversations.protocol.partition_row import decode_partition
from conversations.protocol.topics import COMMANDS, QUEUE, service_topic
from conversations_ops.broker import EmbeddedBroker
from conversations_ops.operate.state import tables
from tests.acceptance.support.command_line import ROOT
from tests.spark.support.killing import SHORT_LIVED
from tests.spark.support.listening_services import LISTENER, READER, Story, commands, heard, refusals, wait_for, working
from tests.support.waiting import until

REPEATED = 0.02
"""Share of the records that come again."""
LATER = 0.5
"""Share of those that come again at the end."""
NOISE = ("noise", b"1")
"""Header of a record that was put on the wire by the test."""
LONGEST = 20
"""Lines of a dialog, on average."""


class Verdict(NamedTuple):
    """What came of a run."""

    rows: int
    dialogs: int
    kills: int
    """Drivers that were killed while they spoke."""
    batches_cut: int
    """Kills that hit a batch which was begun and not finished."""
    repeated: int
    """Commands that a driver wrote more than once."""
    injected: int
    """Records that came again for other reasons."""
    wrong: list[str]
    """What is not as it must be."""

    @property
    def fine(self) -> bool:
        return not self.wrong


# -- the rows ------------------------------------------------------------------------------------------------------------


def write_rows(directory: Path, count: int, files: int, random: Random) -> list[Story]:
    """Write rows of dialogs that are mixed with each other, file after file; return what is to be heard."""
    directory.mkdir()
    names = [f"d{number}" for number in range(max(count // LONGEST, 1))]
    said = [random.choice(names) for _ in range(count)]
    last = Counter(said)
    numbers: Counter[str] = Counter()
    started = int(time.time()) - files - 60
    for file in range(files):
        lines = []
        for name in said[file * count // files : (file + 1) * count // files]:
            body = {"dialog": name, "number": numbers[name], "pad": "x" * random.randrange(200)}
            numbers[name] += 1
            end = numbers[name] == last[name]
            lines.append({"dialog": name, "number": body["number"], "type": "Line", "body": body, "end": end})
        random.shuffle(lines)  # a batch is sorted by whoever says it
        path = directory / f"{file:05}.json"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        os.utime(path, (started + file, started + file))
    return sorted(Story(name, tuple(range(count)), True) for name, count in last.items())


# -- the driver ----------------------------------------------------------------------------------------------------------


class Driver:
    """`conversations spark speak` in a process group of its own, with its JVM."""

    def __init__(self, kafka: Kafka, out: Path) -> None:
        self.checkpoint, self.log = out / "checkpoint", out / "driver.log"
        arguments = [
            "--bootstrap", kafka.bootstrap, "--namespace", kafka.namespace, "--cores", "2", "--service", READER, "--to", LISTENER,
            "--contract", "tests.spark.support.listening_services:SPEECH", "--job", "chaos", "--from-json", str(out / "rows"),
            "--checkpoint", str(self.checkpoint), "--files", "1", "--json",
        ]  # fmt: skip
        environment = {
            **os.environ, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_DIRS": str(out / "spark"),
            "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={out} {SHORT_LIVED['JAVA_TOOL_OPTIONS']}",
        }  # fmt: skip
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "spark_jobs.speak", *arguments], cwd=ROOT,
                env=environment, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    @property
    def over(self) -> bool:
        """Whether it has ended by itself."""
        return self.process.poll() is not None

    def kill(self) -> bool:
        """SIGKILL it and its JVM; say whether a batch was under way."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(20)
        return _newest(self.checkpoint / "offsets") > _newest(self.checkpoint / "commits")

    def finish(self, seconds: float) -> str:
        """Wait for its own end; return what is wrong with it."""
        code = self.process.wait(seconds)
        return f"the driver ended with {code}: {self.log.read_text()[-2_000:]}" if code else ""


def _newest(directory: Path) -> int:
    found = [int(path.name) for path in directory.glob("*") if path.name.isdecimal()]
    return max(found, default=-1)


# -- the wire ------------------------------------------------------------------------------------------------------------


class Repeats:
    """Writes some records a second time: at once, or when everything was said."""

    def __init__(self, kafka: Kafka, random: Random) -> None:
        self._kafka, self._random = kafka, random
        self._topics = [service_topic(kafka.namespace, *it) for it in ((READER, COMMANDS), (LISTENER, QUEUE))]
        self._producer: Any = Producer({"bootstrap.servers": kafka.bootstrap})
        self._later: list[Any] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="repeats", daemon=True)
        self.count = 0
        self._last: dict[Place, int] = {}

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Repeat records while the block runs."""
        self._thread.start()
        try:
            yield
        finally:
            self._over.set()
            self._thread.join()

    def finish(self) -> None:
        """Repeat what was kept for the end."""
        self._over.set()
        self._thread.join()
        self._random.shuffle(self._later)
        for record in self._later:
            self._again(record)
        assert self._producer.flush(60) == 0

    def taken(self) -> bool:
        """Whether the services have taken everything that came again."""
        positions = {service: _positions(self._kafka, service) for service in (READER, LISTENER)}
        return all(
            positions[topic.split(".")[1]][topic, number] > offset for (topic, number), offset in self._last.items()
        )

    def _run(self) -> None:
        with Follower(self._kafka, self._topics) as follower:
            while not self._over.is_set():
                for record in follower.poll(0.1):
                    if NOISE in (record.headers() or ()) or self._random.random() >= REPEATED:
                        continue
                    if self._random.random() < LATER:
                        self._later.append(record)
                    else:
                        self._again(record)
                self._producer.poll(0)

    def _again(self, record: Any) -> None:
        headers = [*(record.headers() or ()), NOISE]
        self._producer.produce(
            record.topic(), record.value(), record.key(), record.partition(), self._noted, headers=headers
        )
        self.count += 1

    def _noted(self, error: object, message: Any) -> None:
        assert error is None, error
        self._last[message.topic(), message.partition()] = message.offset()


def _positions(kafka: Kafka, service: str) -> dict[Place, int]:
    """Up to where a service has taken the partitions of its commands and its queue."""
    found: dict[Place, int] = {}
    for number, table in tables(kafka, service, [rows.PARTITION]).items():
        row = decode_partition(table[rows.PARTITION])
        found[service_topic(kafka.namespace, service, COMMANDS), number] = row.commands
        found[service_topic(kafka.namespace, service, QUEUE), number] = row.queue
    return found


# -- the run -------------------------------------------------------------------------------------------------------------


class Options(NamedTuple):
    """How much, and how bad."""

    rows: int
    files: int
    kills: int
    partitions: int
    pause: float
    """A driver lives at most so many seconds after it has begun to speak."""
    seed: int


def run(kafka: Kafka, out: Path, options: Options) -> Verdict:
    """Say the rows of many drivers' lives; judge what was heard."""
    random = Random(options.seed)
    expected = write_rows(out / "rows", options.rows, options.files, random)
    lives = Lives(kafka, out, options, random)
    repeats = Repeats(kafka, Random(options.seed + 1))
    with working(kafka, options.partitions), repeats.running():
        wrong = lives.live()
        if not wrong:
            wait_for(kafka, options.rows, len(expected), 60 + options.rows / 500)
            repeats.finish()
            until(repeats.taken, "all repetitions are taken", 60, pause=0.2)
        complaints = ([wrong] if wrong else []) + judge(kafka, expected)
    if lives.kills < options.kills:
        complaints.append(f"only {lives.kills} of {options.kills} kills fitted: give it more rows")
    written = Counter(command.command_id for command, noise in commands(kafka) if not noise)
    again = sum(count - 1 for count in written.values())
    return Verdict(options.rows, len(expected), lives.kills, lives.cut, again, repeats.count, complaints)


class Lives:
    """One driver after the other: all but the last are killed."""

    def __init__(self, kafka: Kafka, out: Path, options: Options, random: Random) -> None:
        self._kafka, self._out, self._options, self._random = kafka, out, options, random
        self.kills = self.cut = 0

    def live(self) -> str:
        """Kill drivers at random moments of their work, and let the last one finish; return what is wrong with it."""
        topic = service_topic(self._kafka.namespace, READER, COMMANDS)
        with Follower(self._kafka, [topic]) as follower:
            driver = Driver(self._kafka, self._out)
            try:
                while self.kills < self._options.kills:
                    until(lambda: driver.over or _speaks(follower), "a driver speaks", 120, pause=0)  # noqa: B023 - called here
                    # Not for anything to happen: the moment itself is what is random.
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        driver.process.wait(self._random.uniform(0, self._options.pause))
                    if driver.over:
                        break
                    self.cut += driver.kill()
                    self.kills += 1
                    while follower.poll(0.2):
                        pass  # what the dead have said
                    driver = Driver(self._kafka, self._out)
                return driver.finish(120 + self._options.rows / 200)
            finally:
                if not driver.over:
                    driver.kill()


def _speaks(follower: Follower) -> bool:
    return any(NOISE not in (record.headers() or ()) for record in follower.poll(0.05))


def judge(kafka: Kafka, expected: list[Story]) -> list[str]:
    """Say what is wrong with what was heard."""
    found, wrong = heard(kafka), []
    if found != expected:
        stories = Counter(story.dialog for story in found)
        lines = {story.dialog: story for story in found}
        twice = [name for name, count in stories.items() if count > 1]
        lost = [story.dialog for story in expected if story.dialog not in lines]
        other = [it for it in expected if it.dialog in lines and lines[it.dialog] != it]
        wrong.append(
            f"{len(twice)} dialogs were begun twice, {len(lost)} not at all, {len(other)} heard something else"
        )
        wrong += [f"{it.dialog}: expected {len(it.numbers)}, heard {lines[it.dialog]}" for it in other[:5]]
    times: dict[bytes, set[int]] = {}
    for command, _ in commands(kafka):
        times.setdefault(command.command_id, set()).add(command.issued_at)
    if moved := sum(len(moments) > 1 for moments in times.values()):
        wrong.append(f"{moved} commands were written with another time than before")
    refused = {name: count for name, count in refusals(kafka).items() if not name.endswith("after-end")}
    return wrong + [f"{count} dead letters of {name}" for name, count in refused.items()]


# -- the command line ----------------------------------------------------------------------------------------------------

app = typer.Typer(add_completion=False)


@app.command()
def chaos(
    rows_: Annotated[int, typer.Option("--rows", min=100, help="Messages to be said.")] = 100_000,
    kills: Annotated[int, typer.Option(min=0, help="How often the driver is killed.")] = 10,
    partitions: Annotated[int, typer.Option(min=1, help="Of both services.")] = 4,
    seed: Annotated[int, typer.Option(help="Decides what is said and when it is killed; drawn if left out.")] = -1,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Kill the driver of a stream that speaks, again and again, and prove that every row is heard once and in order."""
    seed = secrets.randbelow(1 << 31) if seed < 0 else seed
    options = Options(rows_, max(8 * kills, 20), kills, partitions, 4.0, seed)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as out, EmbeddedBroker() as broker:
        verdict = run(Kafka(broker.bootstrap, namespace="chaos-speak"), Path(out), options)
    seconds = round(time.monotonic() - begun, 1)
    if as_json:
        typer.echo(json.dumps({**verdict._asdict(), "seed": seed, "seconds": seconds, "fine": verdict.fine}))
    else:
        typer.echo(
            f"{verdict.rows} rows of {verdict.dialogs} dialogs said in {seconds} s; {verdict.kills} drivers killed, "
            f"{verdict.batches_cut} in the middle of a batch; {verdict.repeated} commands written again, "
            f"{verdict.injected} records repeated on the wire; seed {seed}"
        )
        typer.echo("\n".join(verdict.wrong) or "every row was heard once, in order")
    raise typer.Exit(0 if verdict.fine else 1)


if __name__ == "__main__":
    app()
