"""Messages per second of every contender: for 300,000 messages, and for 1,500,000, because a Java virtual machine must warm up."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

from bench import bars
from bench.cases import Case
from bench.children import ROOT
from bench.contenders.roster import CONTENDERS, OURS, RAW, RAW_TYPED, STREAMS
from bench.ground import Ground
from bench.part import Found, Part, Sheet
from bench.plan import Plan
from bench.rounds import Outcome, Rounds, cpu_ratio, ratio
from bench.workload import Workload

LONG = 5
"""Factor by which the long runs have more messages."""
LONG_RUNS = (RAW, OURS, STREAMS)
BASES = ("raw", "quix", "streams")
HEADINGS = (
    "contender", "messages/s", "us/message", "CPU us/message", "to the bare loop", "to Quix Streams", "to Kafka Streams",
)  # fmt: skip


def cases_of(plan: Plan) -> list[Case]:
    """Return the short runs, then the long runs."""
    chosen = [it for name, it in CONTENDERS.items() if not plan.only or name in plan.only]
    short = plan.scaled(Workload(plan.messages, min(plan.dialogs, plan.messages)))
    long = replace(short, messages=LONG * short.messages)
    return [Case(it.name, it, short) for it in chosen] + [
        Case(f"{it.name} x{LONG}", it, long) for it in LONG_RUNS if it in chosen
    ]


def measure(ground: Ground) -> Found:
    """Run all rounds."""
    chosen = cases_of(ground.plan)
    outcome = Rounds(ground, chosen).run(ground.plan.rounds)
    found = outcome.to_dict()
    return {
        **found,
        "workload": chosen[0].workload.__dict__,
        "labels": {case.name: case.contender.label for case in chosen},
        "messages": {case.name: case.workload.messages for case in chosen},
        "ratios": _ratios(outcome, [case.name for case in chosen]),
        "cpu_ratios": _cpu_ratios(outcome, [case.name for case in chosen]),
        "micro_us": micro(),
    }


def _pairs(names: list[str]) -> list[tuple[str, str]]:
    """Return the pairs to compare: each contender with each base, in runs of the same length."""
    pairs = [(name, base + name[name.index(" ") :] if " " in name else base) for name in names for base in BASES]
    pairs = [(name, base) for name, base in pairs if name != base and name.partition(" ")[0] != RAW.name]
    return [*pairs, *((name, RAW_TYPED.name) for name in names if name.endswith("pydantic") and name != RAW_TYPED.name)]


def _ratios(outcome: Outcome, names: list[str]) -> dict[str, list[float]]:
    each = {f"{name}/{base}": ratio(outcome.samples, name, base) for name, base in _pairs(names)}
    return {pair: found for pair, found in each.items() if found}


def _cpu_ratios(outcome: Outcome, names: list[str]) -> dict[str, float]:
    each = {f"{name}/{base}": cpu_ratio(outcome.samples, name, base) for name, base in _pairs(names)}
    return {pair: found for pair, found in each.items() if found}


def micro() -> dict[str, float]:
    """Measure the microseconds of single operations in a new process."""
    command = [sys.executable, "-m", "bench.micro_codec", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


def sheets(found: Found) -> list[Sheet]:
    """Return a table for each length of run, and a table of the single operations."""
    lengths = sorted(set(found["messages"].values()))
    tables = [_sheet(found, length) for length in lengths]
    operations = [(name, f"{microseconds:.2f}") for name, microseconds in found["micro_us"].items()]
    return [*tables, Sheet(("single operation", "us"), operations)]


def _sheet(found: Found, length: int) -> Sheet:
    names = [name for name in found["cases"] if found["messages"][name] == length]
    load = found["workload"]
    medians = (
        f"{length:,} messages of {load['body_bytes']} bytes on {load['dialogs']:,} dialogs, {load['partitions']} "
        f"partitions, a reply to each message, at most {load['batch']:,} messages to a transaction. Medians of {found['rounds']} rounds; "
        "in brackets: the lowest and highest ratio of a round."
    )
    late = [
        f"{found['labels'][name]}: {it['late']:.0%} of the messages were not handled in the step that read them."
        for name, it in found["cases"].items()
        if name in names and it["late"] >= 0.005
    ]
    typed = [
        f"{found['labels'][name]}: {told} of the bare loop that validates and makes the same bodies."
        for name in names
        if (told := _ratio(found, name, RAW_TYPED.name)) not in ("", "1")
    ]
    return Sheet(HEADINGS, [_row(found, name) for name in fastest_first(found, names)], [medians, *typed, *late])


def fastest_first(found: Found, names: list[str]) -> list[str]:
    """Return the names by speed, the fastest first."""
    return sorted(names, key=lambda name: -found["cases"][name]["median_messages_per_second"])


def _row(found: Found, name: str) -> tuple[str, ...]:
    it = found["cases"][name]
    suffix = name[name.index(" ") :] if " " in name else ""
    return (
        found["labels"][name], f"{it['median_messages_per_second']:,}", f"{it['median_us_per_message']:.1f}",
        f"{it['median_cpu_us_per_message']:.1f}", *(_ratio(found, name, base + suffix) for base in BASES),
    )  # fmt: skip


def _ratio(found: Found, name: str, base: str) -> str:
    if name == base:
        return "1"
    ratios = found["ratios"].get(f"{name}/{base}")
    return f"{ratios[1]:.2f} ({ratios[0]:.2f}-{ratios[2]:.2f})" if ratios else ""


def draw(found: Found, figure: Any) -> None:
    """Draw a bar for each contender, in one group for each length of run."""
    lengths = sorted(set(found["messages"].values()))
    groups = [[name for name in found["cases"] if found["messages"][name] == length] for length in lengths]
    every = figure.subplots(len(groups), 1, squeeze=False, height_ratios=[len(names) + 1 for names in groups])
    figure.set_size_inches(10.5, 1.5 * len(groups) + 0.55 * sum(map(len, groups)))
    for (axes,), names, length in zip(every, groups, lengths, strict=True):
        rows = [
            bars.Bar(
                found["labels"][name],
                found["cases"][name]["median_messages_per_second"],
                [sample["messages_per_second"] for sample in found["cases"][name]["samples"]],
                bars.colour_of(name),
                _note(found, name),
            )
            for name in reversed(fastest_first(found, names))
        ]
        bars.horizontal(axes, rows, f"{length:,} messages, exactly once, one process: messages per second")


def _note(found: Found, name: str) -> str:
    suffix = name[name.index(" ") :] if " " in name else ""
    ratios = found["ratios"].get(f"{name}/raw{suffix}")
    return f"  =  {ratios[1]:.2f} × bare loop" if ratios else ""


PART = Part(
    "throughput", "Messages per second of every contender", minutes=13, measure=measure, sheets=sheets, draw=draw
)  # fmt: skip
