"""The verdict on a run: what the driver noticed, and what the checker finds in the topics."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from conversations.config import Kafka
from tests.chaos.run import Result

TIMEOUT = 600.0
"""Seconds the checker may take."""


@dataclass
class Proof:
    """What was found."""

    clean: bool
    line: str
    wrong: list[str]
    result: Result
    figures: dict[str, int] = field(default_factory=dict)
    """What the checker counted."""


def prove(kafka: Kafka, records: Path, result: Result) -> Proof:
    """Let the checker read everything, in a process of its own: it shares nothing with what it checks."""
    command = [
        sys.executable, "-m", "tests.chaos.checker", "--bootstrap", kafka.bootstrap, "--records", str(records), "--json",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    try:
        facts = json.loads(done.stdout)
    except ValueError:
        trouble = f"the checker failed, code {done.returncode}: {done.stderr.strip()[-2_000:]}"
        return Proof(False, "no verdict", [*result.wrong, trouble], result)
    found = [f"{each['name']}: {each['where']}: {each['what']}" for each in facts["violations"]]
    clean = done.returncode == 0 and facts["clean"] and not result.wrong
    return Proof(clean, facts["line"], [*result.wrong, *found], result, facts["figures"])
