"""What travels has one home in ``conversations.protocol``: its names are spelled nowhere else."""

from __future__ import annotations

import re
from pathlib import Path

from conversations.protocol.events import EVENTS

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("conversations", "ops/conversations_ops", "spark_jobs")


def spelled(what: str, home: str) -> list[str]:
    """Return the files of the product, other than its home, that match a pattern."""
    files = (file for folder in PRODUCT for file in sorted((ROOT / folder).rglob("*.py")))
    return [
        str(file.relative_to(ROOT))
        for file in files
        if file.relative_to(ROOT).as_posix() != home and re.search(what, file.read_text(encoding="utf-8"))
    ]


def test_events_are_named_by_their_classes_alone() -> None:
    names = "|".join(EVENTS)
    assert spelled(f"[\"']({names})[\"']", "") == ["conversations/protocol/events.py"]
    assert not spelled(f"[\"']({names})[\"']", "conversations/protocol/events.py")
