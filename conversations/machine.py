"""The memory that this process may use: that of the machine, or of its container."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
OWN_GROUP = Path("/proc/self/cgroup")
UNKNOWN = 4 << 30
"""Bytes that are assumed where the system does not tell its memory."""


@lru_cache(maxsize=1)
def memory() -> int:
    """Return the bytes of memory that this process may use: the least of the machine's memory and of the limits of its control groups."""
    return min((installed(), *_limits(GROUPS, OWN_GROUP)))


def installed() -> int:
    """Return the bytes of memory of the machine; ``UNKNOWN`` where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # not a POSIX system
        return UNKNOWN


def _limits(groups: Path, own: Path) -> Iterator[int]:
    """Yield the limits of the control groups that this process is in, of version 2 and 1. A group without a limit yields nothing."""
    yield from _limit(groups / "memory" / "memory.limit_in_bytes")
    try:
        name = next(line[3:] for line in own.read_text(encoding="utf-8").splitlines() if line.startswith("0::"))
    except (OSError, StopIteration):
        name = "/"
    # A container sees its own group as the root.
    place = groups / name.strip("/")
    for directory in (place, *place.parents):
        if directory == groups or groups in directory.parents:
            yield from _limit(directory / "memory.max")


def _limit(file: Path) -> Iterator[int]:
    try:
        text = file.read_text(encoding="utf-8").strip()
    except OSError:
        return
    if text.isdigit():
        yield int(text)
