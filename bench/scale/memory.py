"""Memory of this process, as the system counts it."""

from __future__ import annotations

from pathlib import Path


def resident_mb() -> float:
    """Return the resident memory now."""
    return _field("VmRSS")


def peak_mb() -> float:
    """Return the most resident memory since this program began."""
    return _field("VmHWM")


def _field(name: str) -> float:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(next(line for line in status.splitlines() if line.startswith(name)).split()[1]) / 1024
