"""Compares the CPU time per message of this tree with that of another revision: ``python -m bench.revisions REVISION``.

``make pace`` does it for the commit before, and for a hundred commits ago, because many small losses show only there.
"""

from __future__ import annotations

import io
import json
import math
import os
import random
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Annotated

import typer

from conversations.form import PURE

ROOT = Path(__file__).resolve().parent.parent
RUN = ROOT / "bench" / "in_memory.py"
HEADINGS = "day,commit,before,ratio,low,high"
"""Columns of ``bench/pace.csv``. A + behind a commit means that the sources had changes."""


def compare(
    revision: Annotated[str, typer.Argument(help="A revision of this repository, for example HEAD~3.")],
    pairs: Annotated[int, typer.Option(min=1, help="Number of pairs of runs.")] = 15,
    messages: Annotated[int, typer.Option(min=1_000, help="Messages of a run.")] = 100_000,
    dialogs: Annotated[int, typer.Option(min=1, help="Dialogs that share these messages.")] = 2_000,
    out: Annotated[Path | None, typer.Option(help="Add a line with the result to this file.")] = None,
) -> None:
    """Run a worker on the log in memory, in pairs: once with this tree, once with the revision. The first of a pair is drawn.

    The clock counts the CPU time of the whole process, from the first record to the last commit. Each run has a new process.
    The interval of the median has 95 % (order statistics of the pairs' ratios). Both trees run in the Python form, because the
    revision is not compiled. Without such a revision, as in a clone of one commit, it says so, and nothing fails.
    """
    if _named(revision) is None:
        print(f"There is no revision {revision} here, so nothing is compared.")
        return
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        _unpack(revision, Path(directory))
        ratios = []
        for number in range(pairs):
            trees = [ROOT, Path(directory)]
            random.shuffle(trees)
            cpu = {tree: _one(tree, messages, dialogs) for tree in trees}
            ratios.append(cpu[ROOT] / cpu[Path(directory)])
            print(
                f"pair {number + 1}: {cpu[ROOT]:.2f} us, {revision} {cpu[Path(directory)]:.2f} us, ratio {ratios[-1]:.3f}"
            )
    low, high = interval(ratios)
    print(
        f"CPU per message, this tree / {revision}: median {median(ratios):.3f}, 95 % interval {low:.3f} to {high:.3f}"
    )
    if out is not None:
        _add(out, revision, ratios)


def _add(out: Path, revision: str, ratios: list[float]) -> None:
    """Add a line: time, this commit, the revision, the median of the ratios, and its interval."""
    low, high = interval(ratios)
    if not out.exists():
        out.write_text(HEADINGS + "\n", encoding="utf-8")
    dirty = "+" if _git("status", "--porcelain", "--", "conversations") else ""
    cells = f"{time.strftime('%Y-%m-%d')},{_named('HEAD')}{dirty},{_named(revision)},{median(ratios):.3f},{low:.3f},{high:.3f}"
    with out.open("a", encoding="utf-8") as file:
        file.write(cells + "\n")


def _named(revision: str) -> str | None:
    """Return the short name of a revision; None if this repository does not have it."""
    try:
        return _git("rev-parse", "--short", "--verify", "--quiet", f"{revision}^{{commit}}")
    except subprocess.CalledProcessError:
        return None


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def interval(ratios: list[float]) -> tuple[float, float]:
    """Return the two ratios between which the true median is, in at least 95 % of all cases; the extremes if there are too few."""
    ordered, count = sorted(ratios), len(ratios)
    skipped, below = -1, 0.0
    while below + math.comb(count, skipped + 1) / 2**count <= 0.025:
        skipped += 1
        below += math.comb(count, skipped) / 2**count
    skipped = max(0, skipped)
    return ordered[skipped], ordered[-1 - skipped]


def _unpack(revision: str, directory: Path) -> None:
    packed = subprocess.run(["git", "archive", revision, "conversations"], cwd=ROOT, capture_output=True, check=True)
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as tar:
        tar.extractall(directory, filter="data")


def _one(tree: Path, messages: int, dialogs: int) -> float:
    done = subprocess.run(
        [sys.executable, str(RUN), str(messages), str(dialogs)], cwd=tree, env={**os.environ, "PYTHONPATH": str(tree), PURE: "1"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    told = json.loads(done.stdout)
    assert told["handled"] == messages, told
    return float(told["us"])


if __name__ == "__main__":
    typer.run(compare)
