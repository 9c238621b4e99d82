"""Compares the bare loop with ours while one number of the workload changes. Both run in every round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench import bars
from bench.cases import Case
from bench.contenders.roster import OURS, RAW
from bench.ground import Ground
from bench.part import Found, Sheet
from bench.rounds import Rounds, ratio
from bench.workload import Workload

SPEED, CPU, PEAK = "median_messages_per_second", "median_cpu_us_per_message", "median_peak_mb"
LABELS = {RAW.name: RAW.label, OURS.name: OURS.label}


def measure(ground: Ground, workloads: Sequence[tuple[int, Workload]], slowest: float) -> Found:
    """Run all rounds of both contenders with each workload. The number beside a workload is the number that changes."""
    chosen = [
        Case(f"{it.name} {number}", it, workload, slowest=slowest)
        for number, workload in workloads
        for it in (RAW, OURS)
    ]
    outcome = Rounds(ground, chosen).run(ground.plan.rounds)
    numbers = [number for number, _ in workloads]
    pairs = {number: ratio(outcome.samples, f"{OURS.name} {number}", f"{RAW.name} {number}") for number in numbers}
    return {
        **outcome.to_dict(),
        "numbers": numbers,
        "messages": workloads[0][1].messages,
        "dialogs": workloads[0][1].dialogs,
        "to_raw": {str(number): found for number, found in pairs.items() if found},
    }


def sheet(found: Found, what: str, notes: Sequence[str], speed: str = SPEED) -> Sheet:
    """Return a table with a row for each number. It has CPU times only for the speed of whole runs."""
    rows = []
    for number in found["numbers"]:
        raw, ours = (found["cases"].get(f"{name} {number}") for name in LABELS)
        ratio = f"{ours[speed] / raw[speed]:.2f}" if raw and ours and speed in raw and speed in ours else ""
        row = (f"{number:,}", _number(raw, speed), _number(ours, speed), ratio)
        rows.append((*row, _number(raw, CPU), _number(ours, CPU)) if speed == SPEED else row)
    headings = (what, "bare loop, messages/s", "ours, messages/s", "ratio", "bare loop, CPU us", "ours, CPU us")
    return Sheet(headings[: len(rows[0])], rows, list(notes))


def memory(found: Found, what: str, notes: Sequence[str]) -> Sheet:
    """Return a table of the largest resident memory of each contender's process, with a row for each number."""
    rows = [
        (f"{number:,}", *(_number(found["cases"].get(f"{name} {number}"), PEAK) for name in LABELS))
        for number in found["numbers"]
    ]
    return Sheet((what, "bare loop, peak MB", "ours, peak MB"), rows, list(notes))


def _number(it: dict[str, Any] | None, name: str) -> str:
    if it is None or name not in it:
        return ""
    return f"{it[name]:.1f}" if name == CPU else f"{it[name]:,}"


def draw(found: Found, figure: Any, title: str, speed: str = SPEED) -> None:
    """Draw a line for each contender."""
    figure.set_size_inches(8, 4)
    lines = []
    for name, label in LABELS.items():
        points = [(number, found["cases"].get(f"{name} {number}")) for number in found["numbers"]]
        there = [(number, it[speed]) for number, it in points if it is not None and speed in it]
        if there:
            lines.append((label, bars.colour_of(name), [x for x, _ in there], [y for _, y in there]))
    bars.curves(figure.subplots(), lines, title)
