"""Throughput by the number of dialogs that share the messages."""

from __future__ import annotations

from typing import Any

from bench import sweep
from bench.ground import Ground
from bench.part import Found, Part, Sheet
from bench.workload import Workload

DIALOGS = (3_000, 30_000, 300_000, 1_000_000)
MESSAGES = 900_000
EACH = 3
"""Least number of messages of a dialog. So the largest number of dialogs has more messages in all."""
SLOWEST = 1_000
OPEN = "median_open_per_second"


def measure(ground: Ground) -> Found:
    """Run all rounds. The messages go to the dialogs in turn."""
    count = ground.plan.count
    loads = [Workload(count(max(MESSAGES, EACH * it)), count(it)) for it in DIALOGS]
    return sweep.measure(ground, [(load.dialogs, load) for load in loads], SLOWEST)


def sheets(found: Found) -> list[Sheet]:
    """Return tables for all messages, for those after the first of each dialog, and for memory."""
    note = (
        f"{found['messages']:,} messages, but at least {EACH} to a dialog. They go to the dialogs in turn. This is the worst case for a cache of recently used dialogs. "
        f"Medians of {found['rounds']} rounds."
    )
    later = (
        "This table leaves out the first messages, which begin the dialogs: the time starts when the number of handled messages equals "
        "the number of dialogs."
    )
    memory = "The largest resident memory of the process. Ours keeps endpoints in memory up to the setting `limits.cached_bytes`."
    return [
        sweep.sheet(found, "dialogs", [note]),
        sweep.sheet(found, "dialogs, after they are open", [later], OPEN),
        sweep.memory(found, "dialogs", [memory]),
    ]


def draw(found: Found, figure: Any) -> None:
    """Draw a line for each contender."""
    sweep.draw(found, figure, "Messages per second by number of dialogs")


PART = Part("dialogs", "Throughput by number of dialogs", minutes=25, measure=measure, sheets=sheets, draw=draw)
