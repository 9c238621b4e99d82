"""What may not grow, measured after every silence, and compared at the end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median

MEGABYTE = 1 << 20
BOUNDS = {"memory MB": (1.5, 60), "rows": (1.5, 300), "files": (1.6, 400), "disk MB": (3.0, 100)}
"""Of each figure: how many times its first median it may become, and how much more than that."""
FEW = 6
"""Samples below which thirds say nothing."""

Sample = dict[str, float]


def memory_of(pids: Iterable[int]) -> float:
    """Return the resident memory of the largest of some processes, in MB."""
    found = [0.0]
    for pid in pids:
        try:
            status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
        except OSError:
            continue
        found += [int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmRSS")]
    return max(found)


def files_of(directories: Sequence[Path]) -> tuple[int, float]:
    """Return how many files there are below some directories, and what they take, in MB."""
    count, size = 0, 0
    for path in (path for directory in directories for path in directory.rglob("*")):
        try:
            found = path.stat()
        except OSError:
            continue  # just deleted
        if path.is_file():
            count, size = count + 1, size + found.st_blocks * 512
    return count, size / MEGABYTE


def thirds(samples: Sequence[Sample]) -> dict[str, tuple[float, float]]:
    """Return each figure's median in the first third of the samples and in the last."""
    size = max(1, len(samples) // 3)
    return {
        name: (median(it[name] for it in samples[:size]), median(it[name] for it in samples[-size:])) for name in BOUNDS
    }


def grown(samples: Sequence[Sample]) -> list[str]:
    """Say what grew beyond its bounds; with few samples nothing is said."""
    if len(samples) < FEW:
        return []
    return [
        f"{name} grew from {first:.0f} to {last:.0f}"
        for name, (first, last) in thirds(samples).items()
        for times, more in [BOUNDS[name]]
        if last > times * first + more
    ]
