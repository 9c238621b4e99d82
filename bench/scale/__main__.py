"""The command line of the scale benchmark: ``python -m bench.scale --help``."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from bench import topics
from bench.scale import subject
from bench.stopwatch import MARK
from bench.topics import Filling
from bench.workload import Job, Workload
from conversations import Kafka
from conversations_ops.broker import EmbeddedBroker

ROOT = Path(__file__).resolve().parents[2]
Made = Callable[[Kafka, int], Iterator[Filling]]

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def scale(
    dialogs: Annotated[int, typer.Option(min=1, help="Open dialogs.")] = 1_000_000,
    tombstones: Annotated[int, typer.Option(min=1, help="Closed dialogs that are still remembered.")] = 5_000_000,
    versions: Annotated[int, typer.Option(min=1, help="Versions of each row in the uncompacted topic.")] = 10,
    partitions: Annotated[int, typer.Option(min=1, help="Partitions, all of one worker.")] = 4,
    only: Annotated[str, typer.Option(metavar="A,B", help="Only these cases: open, versions, tombstones.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON; progress goes to stderr.")] = False,
) -> None:
    """Measure how long one worker needs to take up a lot of state, and how much memory that takes.

    Each case fills the state topic of a service, and then starts a worker twice. The first worker has an empty directory,
    so it copies everything from the topic. The second worker has the local copy that the first worker left.
    """
    cases = cases_of(dialogs, versions, tombstones)
    chosen = only.split(",") if only else list(cases)
    with EmbeddedBroker() as broker:
        found = {name: measure(name, broker.bootstrap, cases[name], partitions) for name in chosen}
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    for name, runs in found.items():
        for run in runs:
            typer.echo(
                f"{name:10}  {run['local']:8}  {run['seconds']:6.1f} s (CPU {run['cpu_seconds']:.1f})  "
                f"{run['resident_mb']:5.0f} MB resident, {run['peak_mb']:.0f} at most"
            )


def cases_of(dialogs: int, versions: int, tombstones: int) -> dict[str, Made]:
    """Return for each case the function that makes the rows of the state topic."""
    return {
        "open": lambda kafka, count: subject.endpoint_rows(kafka, dialogs, 1, count),
        "versions": lambda kafka, count: subject.endpoint_rows(kafka, dialogs, versions, count),
        "tombstones": lambda kafka, count: subject.tombstone_rows(kafka, tombstones, count),
    }


def measure(name: str, bootstrap: str, made: Made, partitions: int) -> list[dict[str, Any]]:
    """Fill the state topic, then open its partitions twice."""
    space = f"scale-{name}-{time.time_ns() // 1_000_000}"
    kafka = Kafka(bootstrap, namespace=space)
    subject.declare(kafka, partitions)
    typer.echo(f"{name}: filling", err=True)
    topics.fill(bootstrap, subject.partition_rows(kafka, partitions))
    topics.fill(bootstrap, made(kafka, partitions))
    runs = []
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        job = Job("scale", bootstrap, space, directory, Workload(partitions=partitions))
        for local in ("none", "complete"):
            typer.echo(f"{name}: opening, local copy: {local}", err=True)
            runs.append({"local": local, **_opened(job)})
    topics.drop(bootstrap, space)
    return runs


def _opened(job: Job) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "bench.scale.opening", job.to_json()],
        cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True, timeout=900,
    )  # fmt: skip
    line = next(line for line in done.stdout.splitlines() if line.startswith(MARK))
    told: dict[str, Any] = json.loads(line.removeprefix(MARK))
    return told


if __name__ == "__main__":
    app()
