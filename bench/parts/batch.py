"""Throughput by the number of messages in a transaction."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bench import sweep
from bench.ground import Ground
from bench.part import Found, Part, Sheet
from bench.workload import Workload

BATCHES = (100, 1_000, 5_000, 20_000)
SLOWEST = 500


def measure(ground: Ground) -> Found:
    """Run all rounds."""
    load = ground.plan.scaled(Workload())
    return sweep.measure(ground, [(batch, replace(load, batch=batch)) for batch in BATCHES], SLOWEST)


def sheets(found: Found) -> list[Sheet]:
    """Return a table with a row for each size."""
    note = (
        f"{found['messages']:,} messages on {found['dialogs']:,} dialogs. The first column is a maximum: a transaction takes "
        "the messages that have arrived, up to this number. "
        f"Medians of {found['rounds']} rounds."
    )
    return [sweep.sheet(found, "messages per transaction", [note])]


def draw(found: Found, figure: Any) -> None:
    """Draw a line for each contender."""
    sweep.draw(found, figure, "Messages per second by messages per transaction")


PART = Part("batch", "Throughput by size of batch", minutes=8, measure=measure, sheets=sheets, draw=draw)
