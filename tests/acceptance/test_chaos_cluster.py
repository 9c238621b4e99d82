"""The short form of the chaos run on a cluster, as anybody starts it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.support.command_line import ROOT
from tests.acceptance.test_chaos import running
from tests.support.waiting import SLOWER

pytestmark = [pytest.mark.acceptance, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(700), pytest.mark.long]

SHORT = ("--seconds", "25", "--messages", "1000", "--dialogs", "60", "--seed", "2", "--no-spark", "--within", "180")


def cluster(out: Path, *arguments: str) -> tuple[int, str, str]:
    """Run it; what it keeps goes to ``out``. Return the exit code and what it said."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.chaos.cluster", *SHORT, *arguments], cwd=ROOT, capture_output=True, text=True,
        env={**os.environ, "TMPDIR": str(out)}, timeout=680 * SLOWER, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def test_nothing_is_lost_repeated_or_stuck_on_a_cluster_that_breaks(tmp_path: Path) -> None:
    code, out, err = cluster(tmp_path, "--json")
    assert code == 0, out + err
    told = json.loads(out)
    assert told["clean"], told["wrong"]
    assert told["figures"]["messages"] == 1_000
    assert told["counts"]["connections"] > 0
    assert running(tmp_path) == []
    assert not list(tmp_path.glob("conversations-cluster-*")), "a clean run leaves nothing behind"


def test_a_plan_is_printed_and_nothing_done(tmp_path: Path) -> None:
    code, first, err = cluster(tmp_path, "--plan")
    assert code == 0, err
    assert first == cluster(tmp_path, "--plan")[1], "a seed makes the same plan again"
    assert "kill worker" in first
    assert "Starting" not in first
    assert list(tmp_path.iterdir()) == []


def test_a_kind_of_fault_that_does_not_exist_is_refused_with_those_that_do(tmp_path: Path) -> None:
    code, _, err = cluster(tmp_path, "--faults", "brokers,meteors")
    assert code == 2
    assert "meteors" in err
    assert "clocks" in err
