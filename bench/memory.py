"""Memory of a process in MB of 1,024 kB, as the system counts it. Only Linux tells it."""

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


def forget_peak() -> None:
    """Let ``peak_mb`` of this process begin anew, with its present memory."""
    (PROCESSES / SELF / "clear_refs").write_text("5", encoding="ascii")


def _field(process: int | str, name: str) -> float:
    status = (PROCESSES / str(process) / "status").read_text(encoding="ascii")
    return int(next(line for line in status.splitlines() if line.startswith(name)).split()[1]) / 1024
