"""The journal of a plan: a file beside it, with the outcome of each letter, so that a stopped plan can be resumed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import NamedTuple

from conversations_ops.operate.redrive.outcomes import Outcome


class Entry(NamedTuple):
    """The outcome of one letter."""

    outcome: Outcome
    command: str = ""
    """The command that gave the letter back."""


class Journal:
    """One line when a letter is given back, and one when its outcome is known."""

    def __init__(self, plan: Path, redrive: str) -> None:
        self.path = plan.with_name(f"{redrive}.journal")

    @property
    def exists(self) -> bool:
        """Whether the plan was started before."""
        return self.path.exists()

    def begin(self) -> None:
        """Note that the plan is started. A line that was cut off ends here."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write("\n" if file.tell() else "")

    def read(self) -> dict[str, Entry]:
        """Return the last entry of each letter, without lines that were cut off."""
        found: dict[str, Entry] = {}
        if self.exists:
            for line in self.path.read_text(encoding="utf-8").splitlines():
                try:
                    entry = json.loads(line)
                except ValueError:
                    continue
                before = found.get(entry["letter"])
                command = entry["command"] or (before.command if before is not None else "")
                found[entry["letter"]] = Entry(Outcome(entry["outcome"]), command)
        return found

    def note(self, letter: str, outcome: Outcome, command: str = "") -> None:
        """Add an entry; it is on the disk when this returns."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"letter": letter, "outcome": outcome.value, "command": command}) + "\n")
            file.flush()
            os.fsync(file.fileno())
