"""Memory of a process, as the system counts it. Only Linux tells it."""

from __future__ import annotations

from pathlib import Path

PROCESSES = Path("/proc")
SELF = "self"


def is_told() -> bool:
    """Return True if the system tells the memory of a process."""
    return (PROCESSES / SELF / "status").exists()


def resident_mb() -> float:
    """Return the resident memory of this process now."""
    return _field(SELF, "VmRSS")


def peak_mb(process: int | str = SELF) -> float:
    """Return the most resident memory of a process since its program began; by default of this process."""
    return _field(process, "VmHWM")


def _field(process: int | str, name: str) -> float:
    status = (PROCESSES / str(process) / "status").read_text(encoding="ascii")
    return int(next(line for line in status.splitlines() if line.startswith(name)).split()[1]) / 1024
