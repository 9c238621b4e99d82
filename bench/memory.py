"""Memory of this process, as the system counts it."""

from __future__ import annotations

from pathlib import Path

STATUS = Path("/proc/self/status")


def resident_mb() -> float:
    """Return the resident memory now."""
    return _field("VmRSS")


def peak_mb() -> float:
    """Return the most resident memory since this program began."""
    return _field("VmHWM")


def _field(name: str) -> float:
    """Return a field of the status in MB; 0 if the system does not tell."""
    if not STATUS.exists():
        return 0.0
    status = STATUS.read_text(encoding="ascii")
    return int(next(line for line in status.splitlines() if line.startswith(name)).split()[1]) / 1024
