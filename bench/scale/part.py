"""How long one worker takes to take up a million open dialogs, as a part of the benchmark."""

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
    """Fill the state topic and take it up twice, in each case; once, whatever the number of rounds."""
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
    """A row for each case and directory."""
    rows = [
        (
            found["titles"][name], LOCAL[run["local"]], f"{run['seconds']:.1f}", f"{run['cpu_seconds']:.1f}",
            f"{run['resident_mb']:.0f}", f"{run['peak_mb']:.0f}",
        )
        for name, runs in found["cases"].items()
        for run in runs
    ]  # fmt: skip
    note = (
        f"One worker, {PARTITIONS} partitions, from being told that it owns them to having all of them open. "
        "CPU is of the whole process, its start included."
    )
    return [Sheet(("state", "taken up from", "seconds", "CPU seconds", "resident MB", "at most MB"), rows, [note])]


PART = Part("scale", "Taking up a million open dialogs", minutes=8, measure=measured, sheets=sheets)
