"""Throughput by the number of dialogs that the messages are dealt out to."""

from __future__ import annotations

from typing import Any

from bench import sweep
from bench.ground import Ground
from bench.part import Found, Part, Sheet
from bench.workload import Workload

DIALOGS = (3_000, 30_000, 300_000)
MESSAGES = 900_000
SLOWEST = 1_000
OPEN = "median_open_per_second"


def measure(ground: Ground) -> Found:
    """Run all rounds; the same number of messages each, in turn to every dialog."""
    count = ground.plan.count
    messages = count(MESSAGES)
    return sweep.measure(ground, [(count(it), Workload(messages, count(it))) for it in DIALOGS], SLOWEST)


def sheets(found: Found) -> list[Sheet]:
    """All messages, and those after the first of each dialog."""
    note = (
        f"{found['messages']:,} messages, dealt out in turn: the worst case for anything that keeps what was used last. "
        f"Medians of {found['rounds']} rounds."
    )
    later = "Without the first message of each dialog, which begins it: from when so many messages were handled as there are dialogs."
    return [sweep.sheet(found, "dialogs", [note]), sweep.sheet(found, "dialogs, once open", [later], OPEN)]


def draw(found: Found, figure: Any) -> None:
    """Two lines."""
    sweep.draw(found, figure, "Messages per second by number of dialogs")


PART = Part("dialogs", "Throughput by number of dialogs", minutes=12, measure=measure, sheets=sheets, draw=draw)
