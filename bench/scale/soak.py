"""Measures whether the memory of a worker stays constant: ``python -m bench.scale.soak --help``."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Annotated, Any
from uuid import uuid4

import typer

from bench import topics
from bench.contenders import our_loop
from bench.scale import subject
from bench.topics import Filling
from bench.workload import Job, Workload
from conversations import Kafka
from conversations.protocol.envelope import (
    Prefix,
    encode_end,
    encode_long,
    encode_message,
    encode_prefix,
    message_run,
)
from conversations.protocol.topics import QUEUE, partition_of, service_topic
from conversations_ops.broker import EmbeddedBroker

ROOT = Path(__file__).resolve().parents[2]
HOUR = subject.HOUR
PER_DIALOG = 5
"""Messages of a dialog before its END."""
SLICE = 0.5
"""Seconds of traffic that are made at a time."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def soak(
    minutes: Annotated[float, typer.Option(min=0.1, help="Minutes of traffic.")] = 30,
    rate: Annotated[int, typer.Option(min=1, help="Messages per second, on dialogs of 5 messages and an END.")] = 2_000,
    partitions: Annotated[int, typer.Option(min=1, help="Partitions, all of one worker.")] = 4,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON; progress goes to stderr.")] = False,
) -> None:
    """Let one worker handle short dialogs for a long time and watch how much memory it takes.

    A dialog that is over is remembered for more than an hour of log time, and takes 18 bytes. So memory grows a little.
    """
    with EmbeddedBroker() as broker, tempfile.TemporaryDirectory(prefix="bench-") as directory:
        kafka = Kafka(broker.bootstrap, namespace="soak")
        subject.declare(kafka, partitions)
        job = Job("soak", broker.bootstrap, "soak", directory, Workload(partitions=partitions))
        with subprocess.Popen(
            [sys.executable, "-m", "bench.scale.soaking", job.to_json()],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        ) as worker:  # fmt: skip
            made = _traffic(job, minutes * 60, rate)
            told, _ = worker.communicate()
    found = _judged([json.loads(line) for line in told.splitlines()], made)
    typer.echo(json.dumps(found, indent=2) if as_json else _told(found))


def _traffic(job: Job, seconds: float, rate: int) -> int:
    began, made = time.monotonic(), 0
    while (passed := time.monotonic() - began) < seconds:
        dialogs = int(rate * passed / PER_DIALOG) - made
        if dialogs > 0:
            topics.fill(job.bootstrap, (record for _ in range(dialogs) for record in _dialog(job)))
            made += dialogs
            typer.echo(f"{passed:.0f} s, {made * PER_DIALOG:,} messages\r", err=True, nl=False)
        time.sleep(SLICE)  # a benchmark's own pace, not a wait for something
    return made * PER_DIALOG


def _dialog(job: Job) -> Iterator[Filling]:
    name, now = uuid4(), time.time_ns() // 1_000
    key = str(name).encode()
    prefix = encode_prefix(
        Prefix(name.bytes, True, "Orders", our_loop.ASKING, our_loop.ANSWERING, str(name), False, now + HOUR, now + 24 * HOUR)
    )  # fmt: skip
    run, sent_at = message_run("Order", "application/octet-stream"), encode_long(now)
    values = [encode_message(prefix, number, -1, sent_at, run, b"x" * 100) for number in range(PER_DIALOG)]
    values.append(encode_end(prefix, PER_DIALOG, -1, sent_at))
    topic = service_topic(job.space, our_loop.ANSWERING, QUEUE)
    partition = partition_of(key, job.workload.partitions)
    for value in values:
        yield topic, partition, key, value, None


def _judged(samples: list[dict[str, Any]], made: int) -> dict[str, Any]:
    """Compare the memory in the second third of the time, when every cache is full, with the memory in the last third."""
    third = len(samples) // 3
    parts = [median(sample["resident_mb"] for sample in samples[start : start + third]) for start in (third, 2 * third)]
    last = samples[-1]
    return {
        "minutes": round(last["seconds"] / 60, 1), "messages": made, "handled": last["handled"],
        "tombstones": last["tombstones"], "resident_mb": {"second_third": parts[0], "last_third": parts[1]},
        "peak_mb": last["peak_mb"], "samples": [[round(s["seconds"]), round(s["resident_mb"])] for s in samples],
    }  # fmt: skip


def _told(found: dict[str, Any]) -> str:
    middle, late = found["resident_mb"]["second_third"], found["resident_mb"]["last_third"]
    return (
        f"{found['minutes']} minutes, {found['handled']:,} of {found['messages']:,} messages handled, "
        f"{found['tombstones']:,} dialogs remembered; resident: {middle:.0f} MB in the second third, {late:.0f} MB in "
        f"the last, {found['peak_mb']:.0f} MB at most"
    )


if __name__ == "__main__":
    app()
