"""Handlers that wait 5 ms before they answer: 1, 16 or 256 at the same time, ``def`` and ``async def``."""

from __future__ import annotations

from typing import Any

from bench import bars
from bench.cases import Case
from bench.contenders.roster import waiting
from bench.ground import Ground
from bench.part import Found, Part, Sheet
from bench.plan import Plan
from bench.rounds import Rounds, ratio
from bench.workload import Workload

MESSAGES = {1: 1_500, 16: 20_000, 256: 100_000}
"""Number of messages for each concurrency: some seconds of work."""
KINDS = ("def", "async")
SLOWEST = 20
"""A run counts as stuck if it handles fewer messages per second than this number times the concurrency."""


def cases_of(plan: Plan) -> list[Case]:
    """Return a case for each kind with each concurrency."""
    return [
        Case(f"{kind} {concurrency}", waiting(kind), _workload(plan, concurrency), concurrency, SLOWEST * concurrency)
        for concurrency in MESSAGES
        for kind in KINDS
    ]


def _workload(plan: Plan, concurrency: int) -> Workload:
    messages = plan.count(MESSAGES[concurrency], 2 * concurrency)
    return Workload(messages, min(Workload.dialogs, messages))


def measure(ground: Ground) -> Found:
    """Run all rounds."""
    outcome = Rounds(ground, cases_of(ground.plan)).run(ground.plan.rounds)
    pairs = {kind: {c: ratio(outcome.samples, f"{kind} {c}", f"{kind} 1") for c in MESSAGES} for kind in KINDS}
    times = {f"{kind} {c}": found for kind in KINDS for c, found in pairs[kind].items() if found}
    return {**outcome.to_dict(), "times_one": times}


def sheets(found: Found) -> list[Sheet]:
    """Return a table with a row for each kind and concurrency."""
    rows = []
    for name, it in found["cases"].items():
        kind, concurrency = name.split()
        ratios = found["times_one"].get(name)
        rows.append((
            f"`{'async def' if kind == 'async' else 'def'}`", concurrency, f"{it['median_messages_per_second']:,}",
            f"{it['median_messages_per_second'] / (200 * int(concurrency)):.0%}",
            f"{ratios[1]:.0f}" if ratios else "", f"{it['median_cpu_us_per_message']:.0f}", f"{it['late']:.0%}",
        ))  # fmt: skip
    note = (
        "Each handler waits 5 ms, so the most that is possible is 200 messages per second, times the concurrency. Late: the share of "
        "messages that became waiting rows, because their handlers had not finished when the step committed. "
        f"Medians of {found['rounds']} rounds, state in RocksDB."
    )
    headings = (
        "handler",
        "concurrency",
        "messages/s",
        "of the possible",
        "times concurrency 1",
        "CPU us/message",
        "late",
    )
    return [Sheet(headings, rows, [note])]


def draw(found: Found, figure: Any) -> None:
    """Draw a bar for each kind and concurrency."""
    figure.set_size_inches(10.5, 3.6)
    rows = [
        bars.Bar(
            name.replace("async", "async def") + " at a time",
            it["median_messages_per_second"],
            [sample["messages_per_second"] for sample in it["samples"]],
            bars.OURS_LIGHT if name.startswith("async") else bars.OURS,
        )
        for name, it in reversed(found["cases"].items())
    ]
    bars.horizontal(figure.subplots(), rows, "Handlers that wait 5 ms: messages per second")


PART = Part("waiting", "Handlers that wait 5 ms", minutes=6, measure=measure, sheets=sheets, draw=draw)
