"""The operator of the demo. It runs the usual commands for the held flights, and prints each command except `dead-letters list`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conversations.config import Kafka
from conversations_ops.demo.aircraft_log import aircraft_log
from conversations_ops.demo.failing import DemoFailed
from conversations_ops.demo.messages import Leg

ARRIVED = 1_215
"""The arrival that the operator enters. It is 12:15, in the form of the clock times in the file. The air time stays unknown."""
FINE, SOMETHING_WAITS = 0, 1
"""Exit codes of `dead-letters list`."""
TIMEOUT = 90.0
"""Number of seconds that a command may take."""


@dataclass(frozen=True)
class Held:
    """A flight that is held, as `dead-letters list` prints it."""

    letter: str
    aircraft: str
    leg: Leg
    behind: int
    """Number of flights that wait behind this flight."""


class Operator:
    """Runs commands of ``conversations`` on a Kafka, as an operator does.

    Args:
        kafka: the cluster.
        directory: directory for the new body.
        show: called with the command line of an edit or a redrive before the command runs.
    """

    def __init__(self, kafka: Kafka, directory: Path, show: Callable[[str], None]) -> None:
        self._directory, self._show = directory, show
        self._where = ("--bootstrap", kafka.bootstrap, "--namespace", kafka.namespace)

    def held(self) -> list[Held]:
        """List the flights that are held.

        Raises:
            DemoFailed: the command failed.
        """
        found = self._run(["dead-letters", "list", aircraft_log.name], codes=(FINE, SOMETHING_WAITS), quiet=True)
        return [_held(it) for it in found["letters"]]

    def edit(self, held: Held) -> None:
        """Enter the arrival of a flight.

        Raises:
            DemoFailed: the command failed.
        """
        body = self._directory / "arrived.json"
        body.write_text(held.leg.model_copy(update={"arrival": ARRIVED}).model_dump_json(), encoding="utf-8")
        self._run([
            "dead-letters", "edit", held.letter, "--body", str(body), "--reason", "arrival found in the tower's log",
            "--wait", "120",
        ])  # fmt: skip

    def redrive(self) -> dict[str, Any]:
        """Redrive all held flights: three first, then the rest. Return the result of the command.

        Raises:
            DemoFailed: a command failed, or a redriven flight failed again.
        """
        plan = self._run(["redrive", "plan", "--exception", "NeverArrived", "--canary", "3"])["redrive"]
        ended: dict[str, Any] = self._run(["redrive", "start", plan, "--reason", "mended: these flights were diverted"])
        return ended

    def _run(self, arguments: Sequence[str], *, codes: Sequence[int] = (FINE,), quiet: bool = False) -> Any:
        if not quiet:
            self._show("$ conversations " + " ".join(f'"{it}"' if " " in it else it for it in arguments))
        command = [sys.executable, "-P", "-m", "conversations_ops.cli.app", *arguments, *self._where, "--json"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT)
        except subprocess.TimeoutExpired as error:
            raise DemoFailed(f"conversations {' '.join(arguments)} took longer than {TIMEOUT:g} s") from error
        if done.returncode not in codes:
            raise DemoFailed(
                f"conversations {' '.join(arguments)} failed: {done.stderr.strip() or done.stdout.strip()}"
            )
        found = json.loads(done.stdout)
        if "error" in found:  # exit code 1 has two meanings: letters wait for a person, or the command failed
            raise DemoFailed(f"conversations {' '.join(arguments)} failed: {found['error']}")
        return found


def _held(it: dict[str, Any]) -> Held:
    return Held(it["letter"], it["key"], Leg.model_validate_json(it["body"]), it["behind"])
