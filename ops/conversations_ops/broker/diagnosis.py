"""Finds the cause of a failed start in the server's log."""

from __future__ import annotations

from pathlib import Path

from conversations_ops.broker.data import IN_USE
from conversations_ops.broker.errors import (
    BrokerError,
    DataInUse,
    DiskFull,
    MetadataMisread,
    PortTaken,
    StartFailed,
)

TAIL_LINES = 12
TAIL_BYTES = 64 * 1024


def tail(log: Path, since: int = 0) -> list[str]:
    """Return the last lines of a log: at most 64 KiB, and only bytes from position ``since`` on."""
    with log.open("rb") as file:
        end = file.seek(0, 2)
        file.seek(max(since, end - TAIL_BYTES))
        return file.read().decode("utf-8", "replace").splitlines()


def diagnose(log: Path, since: int, what: str) -> BrokerError:
    """Return the error for a failed start. For a known cause, its message has the fix; else ``what`` and the last lines of the log."""
    lines = tail(log, since)
    text = "\n".join(lines)
    if "Address already in use" in text:
        return PortTaken(
            "Another program took the broker's port. Choose another --port, or leave it out to get a free one",
            log_path=log,
        )
    if "No space left on device" in text or "Disk quota exceeded" in text:
        return DiskFull("The disk is full. Free some space, or choose a --data directory on another disk", log_path=log)
    if "Failed to acquire lock on file .lock" in text:
        return DataInUse(IN_USE, log_path=log)
    last = "\n".join(f"  {line}" for line in lines[-TAIL_LINES:]) or "  (nothing)"
    misread = "MetadataLoader" in text and "CorruptRecordException" in text
    kind = MetadataMisread if misread else StartFailed
    return kind(f"{what}. The last lines of the log:\n{last}", log_path=log)
