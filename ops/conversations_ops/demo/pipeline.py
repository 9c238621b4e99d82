"""Runs the last part of the demo: Spark, in its own process, makes the archive, the audit, and the sums for each aircraft and day."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from threading import Timer
from typing import Any

from conversations_ops.demo.failing import DemoFailed
from conversations_ops.demo.flights import Flight

PATIENCE = 900
"""Seconds that Spark may take. It takes about one minute on a laptop, and more than five on a machine that many programs share."""
LEFT_OUT = "SparkUnavailable"
STEP = "step: "
"""Beginning of the lines on stderr that report the progress."""

Day = tuple[str, str]
"""Tail number of an aircraft, and a day."""
Flown = tuple[int, int]
"""Number of flights, and their minutes in the air."""


@dataclass(frozen=True)
class Pipeline:
    """The results of Spark, or the reason why Spark did not run."""

    left_out: str = ""
    archived: int = 0
    """Number of messages in the archive."""
    audit: dict[str, Any] = field(default_factory=dict)
    """The result that ``conversations spark delivery-audit --json`` prints."""
    begun: int = 0
    ended: int = 0
    """Numbers of dialogs that were begun and ended, from the metrics."""
    days: int = 0
    """Number of pairs of an aircraft and a day for which Spark has sums."""
    mismatches: tuple[str, ...] = ()
    seconds: float = 0.0


def run_pipeline(bootstrap: str, directory: Path, flights: Iterable[Flight], say: Callable[[str], None]) -> Pipeline:
    """Let Spark read the topics, and compare its sums with the file. ``say`` is called with each line of progress.

    Raises:
        DemoFailed: Spark failed, or took too long.
    """
    command = [sys.executable, "-P", "-m", "spark_jobs.demo", str(directory), "--bootstrap", bootstrap, "--json"]
    # Spark writes the result to a file. A pipe could fill up, because this process reads only stderr while Spark runs.
    with (
        TemporaryFile("w+", encoding="utf-8") as result,
        subprocess.Popen(command, stdout=result, stderr=subprocess.PIPE, text=True) as process,
    ):
        late = Timer(PATIENCE, process.kill)
        late.start()
        try:
            rest = _relayed(process, say)
            process.wait()
            result.seek(0)
            found = _read(result.read(), rest)
        except BaseException:
            process.kill()
            raise
        finally:
            late.cancel()
    if found.get("kind") == LEFT_OUT:
        return Pipeline(left_out=found["error"])
    if "error" in found:
        raise DemoFailed(
            f"Spark's part failed, or took more than {PATIENCE} s: {found['error']}\nTo leave Spark out: --no-spark"
        )
    flown = {(aircraft, day): (legs, minutes) for aircraft, day, legs, minutes in found["utilisation"]}
    return Pipeline(
        archived=found["archived"], audit=found["audit"], begun=_sum(found, "begun"), ended=_sum(found, "ended"), days=len(flown),
        mismatches=tuple(differences(flown, utilisation(flights))), seconds=found["seconds"],
    )  # fmt: skip


def _sum(found: dict[str, Any], name: str) -> int:
    return sum(row[name] for row in found["metrics"])


def _relayed(process: subprocess.Popen[str], say: Callable[[str], None]) -> str:
    """Pass the progress lines of stderr to ``say``, and return the last 20 other lines of stderr."""
    rest = []
    for line in process.stderr or ():
        if line.startswith(STEP):
            say(line.removeprefix(STEP).rstrip())
        else:
            rest.append(line)
    return "".join(rest[-20:])


def _read(result: str, rest: str) -> dict[str, Any]:
    if "No module named 'pyspark'" in rest:
        return {"kind": LEFT_OUT, "error": "PySpark is not installed: pip install 'kafka-dialogs[spark]'"}
    try:
        return dict(json.loads(result.splitlines()[-1]))
    except (IndexError, ValueError):
        return {"error": rest, "kind": ""}


def utilisation(flights: Iterable[Flight]) -> dict[Day, Flown]:
    """Add up the flights and minutes of each aircraft on each day, with plain code over the rows of the file."""
    found: dict[Day, Flown] = {}
    for flight in flights:
        if not flight.cancelled:
            day = flight.aircraft, flight.scheduled.date().isoformat()
            legs, minutes = found.get(day, (0, 0))
            found[day] = legs + 1, minutes + (flight.air_minutes or 0)
    return found


def differences(found: dict[Day, Flown], wanted: dict[Day, Flown]) -> Iterator[str]:
    """Compare the sums of each aircraft and day. Yield a text for each pair if Spark's sums differ from the sums of the file."""
    for day in sorted(found.keys() | wanted.keys()):
        if found.get(day) != wanted.get(day):
            yield f"{day[0]} on {day[1]}: Spark has {found.get(day)}, the file {wanted.get(day)} (flights, minutes)"
