"""The failure of the demo, and the last words of a process that failed."""

from __future__ import annotations

from pathlib import Path

LAST_LINES = 15


class DemoFailed(Exception):
    """The demo could not be carried out. The message says why, with the last log lines of the process that failed."""


def last_words(log: Path) -> str:
    """Return the last lines of a log, as an addition to an error message."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:]
    return f"\nThe last lines of {log.name}:\n" + "\n".join(f"  {line}" for line in lines) if lines else ""
