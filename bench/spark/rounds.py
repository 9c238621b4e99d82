"""Fills a queue, and lets one Spark session run queries over it in turn, round after round."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from bench import quiet, topics
from bench.children import Child, RunFailed
from bench.ground import Ground
from bench.spark import subject
from bench.spark.subject import Contents, expected
from bench.workload import Job, Workload

SLOWEST = 2_000
"""Records per second below which a query counts as stuck."""
PATIENCE = 60.0


@dataclass
class Runs:
    """The results of the queries over one queue."""

    contents: Contents
    speeds: dict[str, list[float]] = field(default_factory=dict)
    """Records per second of each round."""
    state_bytes: dict[str, int] = field(default_factory=dict)
    busy: list[float] = field(default_factory=list)
    """Share of the processors that other programs used before a round."""
    failures: dict[str, str] = field(default_factory=dict)

    def to_dict(self, base: str) -> dict[str, Any]:
        """Return the results to keep.

        Each query is compared with the query ``base``. The result is the lowest ratio of a round, the ratio of the medians, and the
        highest ratio of a round.
        """
        cases = {
            name: {
                "median_records_per_second": round(median(speeds)),
                "ratio": self._ratio(name, base),
                "state_mb": round(self.state_bytes.get(name, 0) / 1e6, 1),
                "samples": [round(it) for it in speeds],
            }
            for name, speeds in self.speeds.items()
            if speeds
        }
        return {**asdict(self.contents), "cases": cases}

    def _ratio(self, name: str, base: str) -> list[float] | None:
        ours, theirs = self.speeds[name], self.speeds.get(base)
        if not theirs:
            return None
        each = [a / b for a, b in zip(ours, theirs, strict=False)]
        return [round(it, 3) for it in (min(each), median(ours) / median(theirs), max(each))]


@contextmanager
def session(ground: Ground, load: Workload) -> Iterator[tuple[Child, Contents]]:
    """Fill a queue and start a session to read it.

    Raises:
        RunFailed: Spark did not start.
    """
    space = ground.space()
    try:
        with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as directory:
            job = Job(subject.CONTENDER, ground.bootstrap, space, directory, load)
            contents = subject.filled(job)
            with Child("bench.spark.driver", job.to_json(), json.dumps(asdict(contents))) as child:
                child.await_start()
                yield child, contents
    finally:
        topics.drop(ground.bootstrap, space)


def measure(ground: Ground, names: Sequence[str], load: Workload, rounds: int) -> Runs:
    """Run each query once to verify the number of its rows, and then in ``rounds`` measured rounds.

    Raises:
        RunFailed: Spark did not start.
    """
    screen = ground.screen
    screen.tell(f"filling {load.messages:,} messages, {load.dialogs:,} dialogs")
    with session(ground, load) as (child, contents):
        runs = Runs(contents, {name: [] for name in names})
        limit = PATIENCE + contents.records / SLOWEST
        for name in names:
            screen.tell(f"{name}: counting its rows")
            _verify(child, name, runs, limit)
            screen.advance()
        for number in range(rounds):
            runs.busy.append(quiet.settle(ground.patience))
            for name in names:
                if name not in runs.failures:
                    screen.tell(f"round {number + 1} of {rounds}, {name}")
                    _time(child, name, runs, limit)
                screen.advance()
    for name, speeds in runs.speeds.items():
        if speeds:
            screen.say(f"{name}, {load.dialogs:,} dialogs: {median(speeds):,.0f} records/s")
    for name, why in runs.failures.items():
        screen.warn(f"{name} failed: {why}")
    return runs


def _verify(child: Child, name: str, runs: Runs, limit: float) -> None:
    try:
        rows = child.ask("count", limit, name=name)["rows"]
    except RunFailed as error:
        runs.failures[name] = str(error)
        return
    wanted = expected(name, runs.contents)
    if rows != wanted:
        runs.failures[name] = f"it made {rows:,} rows instead of {wanted:,}"


def _time(child: Child, name: str, runs: Runs, limit: float) -> None:
    try:
        told = child.ask("time", limit, name=name)
    except RunFailed as error:
        runs.failures[name] = str(error)
        return
    runs.speeds[name].append(told["records"] / told["seconds"])
    runs.state_bytes[name] = told.get("state_bytes", 0)
