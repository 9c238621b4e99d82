"""How a program of a chaos run ends: what it says, what it keeps, and its exit code."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from conversations_ops.broker import BrokerError
from conversations_ops.console.exit_codes import Exit
from conversations_ops.demo.screen import Screen
from conversations_ops.host.foreground import ended_by_sigterm


@dataclass(frozen=True)
class Verdict:
    """The end of a run with a seed, whose files are in a directory."""

    seed: int
    directory: Path
    files: str
    """The names of the files that tell about the run."""
    keep: bool
    as_json: bool
    screen: Screen

    def tell(self, carry_out: Callable[[], Mapping[str, Any]]) -> None:
        """Carry a run out, and say what it found. The directory stays if the run is not clean.

        ``carry_out`` returns "clean", "lines", and what else belongs into the JSON.

        Raises:
            typer.Exit: the run is not clean, was stopped, or has no broker.
        """
        clean, say = False, self.screen.say
        try:
            with ended_by_sigterm():
                told = carry_out()
            clean = told["clean"]
            if self.as_json:
                typer.echo(json.dumps({"seed": self.seed, **told}))
            for line in told["lines"]:
                say(line)
            say("Clean." if clean else f"NOT CLEAN (seed {self.seed}).")
        except BrokerError as error:
            say(f"error: {error}")
            clean = True  # nothing was found out
            raise typer.Exit(Exit.UNREACHABLE) from error
        except KeyboardInterrupt:
            say("Stopped; nothing is left running.")
            clean = True  # the same
            raise typer.Exit(130) from None
        finally:
            if clean and not self.keep:
                shutil.rmtree(self.directory, ignore_errors=True)
            else:
                say(f"Everything is kept in {self.directory}: {self.files}.")
        if not clean:
            raise typer.Exit(Exit.HUMAN)
