"""What became of a plan's letters so far, in a file beside the plan: so that it can be gone on with."""

from __future__ import annotations

import json
from pathlib import Path

from ops.redrive.outcomes import Outcome


class Journal:
    """One line for each letter whose outcome is final."""

    def __init__(self, plan: Path, redrive: str) -> None:
        self.path = plan.with_name(f"{redrive}.journal")

    @property
    def exists(self) -> bool:
        """The plan was started before."""
        return self.path.exists()

    def begin(self) -> None:
        """Note that the plan is started."""
        self.path.touch()

    def read(self) -> dict[str, Outcome]:
        """Return the outcomes so far, by letter; a last line that was cut off is left out."""
        found: dict[str, Outcome] = {}
        if self.exists:
            for line in self.path.read_text(encoding="utf-8").splitlines():
                try:
                    entry = json.loads(line)
                except ValueError:
                    continue
                found[entry["letter"]] = Outcome(entry["outcome"])
        return found

    def note(self, letter: str, outcome: Outcome) -> None:
        """Add a final outcome."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"letter": letter, "outcome": outcome.value}) + "\n")
