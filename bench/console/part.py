"""The part of the benchmark that measures the pages of the web console over a million dialogs and a hundred thousand failed messages."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

from bench import quiet, topics
from bench.children import RunFailed, result_of, work
from bench.console.planting import BEHIND, Planted
from bench.console.visits import journeys, measured, site
from bench.ground import Ground
from bench.part import Found, Part, Sheet
from bench.screen import Screen
from conversations import Kafka

DIALOGS, LETTERS = 1_000_000, 100_000
REQUESTS = 101
"""Requests of each page. The first one is reported apart."""
LIMIT = 3_600.0
"""Seconds that making the read model may take."""
IDLE = 20.0
"""Seconds during which the processor time of an idle console is measured."""
GOAL = 200
"""Milliseconds within which 95 of 100 answers of each page must be there."""


def measured_part(ground: Ground) -> Found:
    """Fill a namespace, make its read model, and ask for the pages. The number of rounds does not matter."""
    dialogs, letters = (ground.plan.count(number, least) for number, least in ((DIALOGS, 2_000), (LETTERS, 200)))
    found: Found = {"rounds": 1, "failures": []}
    try:
        kafka = Kafka(ground.bootstrap, namespace=ground.space())
        found |= measure(Planted(kafka, dialogs, letters), ground.screen, REQUESTS, ground.patience)
    except RunFailed as error:
        found["failures"].append(str(error))
    return found


def measure(planted: Planted, screen: Screen, requests: int, patience: float) -> Found:
    """Fill a namespace, make its read model, and ask for ``requests`` pages of each kind.

    Raises:
        RunFailed: the read model is not complete, or a page is not as it must be.
    """
    visits = 17
    screen.expect(visits + 2)
    screen.tell(f"writing {planted.dialogs:,} dialogs")
    planted.declare()
    topics.fill_dated(planted.kafka.bootstrap, planted.records())
    screen.advance()
    found: Found = {"dialogs": planted.dialogs, "letters": planted.letters, "behind": BEHIND, "pages": {}}
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        cache = Path(name)
        directory = cache / "read-model"
        directory.mkdir()
        found["disturbed"] = quiet.settle(patience) > quiet.QUIET
        found["load"] = os.getloadavg()[0]
        screen.tell("making the read model")
        kafka = planted.kafka
        command = [sys.executable, "-m", "bench.console.catching_up", kafka.bootstrap, kafka.namespace, str(directory)]
        found["catching_up"] = result_of(work(command, LIMIT))
        screen.advance()
        with site(kafka, cache) as console:
            time.sleep(min(2.0, patience))  # the first look at Kafka, after which the console is idle
            found["idle_cpu"] = console.idle_cpu(IDLE if patience else 1.0)
            for kind, pages in journeys(planted, requests).items():
                screen.tell(kind)
                found["pages"][kind] = measured(console, pages)
                screen.advance()
            found["console_peak_mb"] = console.peak_mb()
    topics.drop(kafka.bootstrap, kafka.namespace)
    return found


def sheets(found: Found) -> list[Sheet]:
    """Return a table of the pages, and one of the read model."""
    if "console_peak_mb" not in found:
        return []
    pages = [
        (name, *(f"{it[key]:.0f}" for key in ("p50_ms", "p95_ms", "max_ms", "first_ms")))
        for name, it in found["pages"].items()
    ]
    late = [name for name, it in found["pages"].items() if it["p95_ms"] > GOAL]
    asked = next(iter(found["pages"].values()))["count"]
    size = (
        f"{found['dialogs']:,} dialogs, {found['letters']:,} failed messages with {found['behind']} records behind each, "
        f"{found['letters'] // 5:,} open letters and {found['letters'] // 2:,} events, in two services of 4 partitions. "
        f"{asked} requests of each page, on varied ids, words and positions."
    )
    goal = (
        f"Slower than {GOAL} ms at p95: {', '.join(late)}." if late else f"Every page answers within {GOAL} ms at p95."
    )
    it = found["catching_up"]
    reading = (
        f"{it['records']:,}", f"{it['seconds']:.0f}", f"{it['records'] / it['seconds']:,.0f}", f"{it['cpu_seconds']:.0f}",
        f"{it['peak_mb']:.0f}", f"{it['file_mb']:.0f}", f"{it['again_seconds']:.2f}",
    )  # fmt: skip
    idle = (
        f"The console has {found['console_peak_mb']:.0f} MB at most, and uses {100 * found['idle_cpu']:.1f} % of one processor while nothing "
        f"happens. The load of the machine was {found['load']:.1f}."
    )
    return [
        Sheet(("page", "p50 ms", "p95 ms", "max ms", "first ms"), pages, [size, goal]),
        Sheet(
            ("records read", "seconds", "per second", "CPU seconds", "peak MB", "file MB", "seconds of the next look"), [reading], [idle]
        ),
    ]  # fmt: skip


PART = Part("console", "The web console over a million dialogs", minutes=12, measure=measured_part, sheets=sheets)
