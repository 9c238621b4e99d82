"""The part of the benchmark that measures how long one worker needs to take up a million open dialogs."""

from __future__ import annotations

import subprocess

from bench import quiet
from bench.ground import Ground
from bench.part import Found, Part, Sheet
from bench.scale.__main__ import cases_of, measure
from bench.workload import PARTITIONS

DIALOGS, VERSIONS, TOMBSTONES = 1_000_000, 10, 5_000_000
LOCAL = {"none": "an empty directory", "complete": "its local copy"}
SHOWN = 500


def measured(ground: Ground) -> Found:
    """Fill the state topic and take it up twice, for each case. The number of rounds does not matter: each case is measured once."""
    dialogs, tombstones = (ground.plan.count(number) for number in (DIALOGS, TOMBSTONES))
    titles = {
        "open": f"{dialogs:,} open dialogs",
        "versions": f"the same, {VERSIONS} versions of each row",
        "tombstones": f"{tombstones:,} closed dialogs, still remembered",
    }
    found: Found = {"rounds": 1, "disturbed": False, "titles": titles, "cases": {}, "failures": []}
    ground.screen.expect(len(titles))
    for name, made in cases_of(dialogs, VERSIONS, tombstones).items():
        ground.screen.tell(titles[name])
        found["disturbed"] |= quiet.settle(ground.patience) > quiet.QUIET
        try:
            found["cases"][name] = measure(name, ground.bootstrap, made, PARTITIONS)
        except subprocess.SubprocessError as error:
            found["failures"].append(f"{titles[name]}: {str(error)[-SHOWN:]}")
        ground.screen.advance()
    return found


def sheets(found: Found) -> list[Sheet]:
    """Return a table with a row for each case and directory."""
    rows = [
        (
            found["titles"][name], LOCAL[run["local"]], f"{run['seconds']:.1f}", f"{run['cpu_seconds']:.1f}",
            f"{run['resident_mb']:.0f}", f"{run['peak_mb']:.0f}",
        )
        for name, runs in found["cases"].items()
        for run in runs
    ]  # fmt: skip
    note = (
        f"One worker with {PARTITIONS} partitions. The time begins when the worker is told that it owns them, and ends when all are open. "
        "The CPU time is that of the whole process, including its start."
    )
    return [Sheet(("state", "taken up from", "seconds", "CPU seconds", "resident MB", "peak MB"), rows, [note])]


PART = Part("scale", "Taking up a million open dialogs", minutes=8, measure=measured, sheets=sheets)
