"""The journal of a plan: a file next to the plan file. It has the outcome of each letter, so that a stopped redrive can be resumed."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from conversations.errors import DeclarationError
from conversations_ops.operate.redrive.outcomes import Outcome
from conversations_ops.operate.redrive.plan import PlannedLetter


class Entry(NamedTuple):
    """The outcome of one letter."""

    outcome: Outcome
    command: str = ""
    """Id of the command that gave the letter back; empty if the letter was not given back."""


class Journal:
    """A file with one line for each letter that is given back, and one line for each outcome."""

    def __init__(self, plan: Path, redrive: str) -> None:
        self.path = plan.with_name(f"{redrive}.journal")

    @property
    def exists(self) -> bool:
        """True if the plan was started before."""
        return self.path.exists()

    def begin(self) -> None:
        """Create the file, which marks the plan as started.

        If the file exists, add a line break, because a crash may have cut off its last line.
        """
        with self.path.open("a", encoding="utf-8") as file:
            file.write("\n" if file.tell() else "")

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Begin, and run a block in this process alone: two runs of one plan would try two canaries at once. The end of a process ends it.

        Raises:
            DeclarationError: another process of this machine carries the plan out, or the file cannot be written.
        """
        with ExitStack() as stack:
            try:
                self.begin()
                file = stack.enter_context(self.path.open("a", encoding="utf-8"))
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise DeclarationError(f"{self.path.stem} runs already, in another process of this machine") from None
            except OSError as error:
                raise DeclarationError(f"{self.path}: {error.strerror}") from error
            yield

    def read(self) -> dict[str, Entry]:
        """Return the last outcome and the last command of each letter. Lines that a crash cut off are left out."""
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

    def is_over(self, letters: Iterable[PlannedLetter]) -> bool:
        """Return True if each of the letters has its final outcome, so that no run can change anything."""
        done = self.read()
        return all(it.letter in done and done[it.letter].outcome.final for it in letters)

    def note(self, letter: str, outcome: Outcome, command: str = "") -> None:
        """Append an entry, and return when it is on the disk."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"letter": letter, "outcome": outcome.value, "command": command}) + "\n")
            file.flush()
            os.fsync(file.fileno())
