"""The short form of the chaos run of two clusters, as anybody starts it, and the faults that it must find."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.support.command_line import ROOT
from tests.acceptance.test_chaos import running
from tests.support.waiting import SLOWER

pytestmark = [pytest.mark.acceptance, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(400), pytest.mark.long]

SHORT = (
    "--messages",
    "1500",
    "--dialogs",
    "50",
    "--pace",
    "1",
    "--away",
    "6",
    "--share",
    "0.02",
    "--kill-every",
    "4",
    "--json",
)


def remote(out: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Run it; what it keeps goes to ``out``. Return the exit code and what it said."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.chaos.remote", *SHORT, *arguments], cwd=ROOT, env={**os.environ, "TMPDIR": str(out)},
        capture_output=True, text=True, check=False, timeout=380 * SLOWER,
    )  # fmt: skip
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def wrong(told: dict[str, Any]) -> set[str]:
    return {name for name, found in told["found"]["wrong"].items() if found}


def test_each_message_is_handled_once_and_in_order_between_two_clusters(tmp_path: Path) -> None:
    code, told = remote(tmp_path, "--within", "360")
    assert code == 0, told
    nothing = "lost 0, twice 0, out of order 0, undecided 0, delivered though damaged 0, never said 0"
    assert told["line"].endswith(nothing)
    figures, counts = told["found"]["figures"], told["counts"]
    assert (figures["dialogs"], figures["messages"], counts["clusters away"]) == (50, 3_000, 2)
    assert min(figures[name] for name in ("transmitted again", "lost on the way", "came again", "came late")) > 0
    assert min(counts["killed"] + counts["forwarders killed"], counts["connections cut"]) > 0
    assert running(tmp_path) == []
    assert not list(tmp_path.glob("conversations-remote-*")), "a clean run leaves nothing behind"


def test_a_message_that_is_never_carried_is_found(tmp_path: Path) -> None:
    code, told = remote(tmp_path, "--plant", "loses", "--within", "40")
    assert code == 1
    assert {"lost", "undecided"} <= wrong(told) <= {"lost", "undecided"}
    assert told["lines"][0].startswith("Stalled"), "it ends in time, although nothing moves any more"


def test_a_worker_that_accepts_repetitions_is_found(tmp_path: Path) -> None:
    code, told = remote(tmp_path, "--plant", "repeats", "--within", "40", "--share", "0.2")
    assert code == 1
    assert "twice" in wrong(told)
