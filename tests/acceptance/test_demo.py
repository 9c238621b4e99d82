"""The demo, as a newcomer starts it: real processes, a real kill, real data, and a check that can fail."""

from __future__ import annotations

import json
import subprocess

import pytest

from ops.demo import check, expected
from ops.demo.flights import read_flights
from ops.demo.outcome import Outcome
from tests.acceptance.command_line import PROGRAM

pytestmark = pytest.mark.acceptance


@pytest.mark.timeout(240)
def test_demo_ends_without_a_mismatch() -> None:
    """Every summary equals the CSV although records came twice and a worker was killed."""
    result = subprocess.run([PROGRAM, "demo", "--json"], capture_output=True, text=True, check=False, timeout=220)
    assert result.returncode == 0, result.stderr
    facts = json.loads(result.stdout.splitlines()[-1])
    assert facts["mismatches"] == 0
    assert facts["dialogs"] == facts["summaries_equal"] == 3_148
    assert facts["legs"] == 26_849
    assert facts["duplicates_injected"] == facts["duplicates_dropped"] > 500
    assert facts["crashes"] >= 1
    assert facts["dead_letters_by_reason"]["handler-failed"] == 14


def test_check_finds_what_is_missing() -> None:
    """With nothing in Kafka the check finds a mismatch for every aircraft: it is not one that cannot fail."""
    wanted = expected.expected(read_flights())
    verdict = check.check(wanted, Outcome())
    assert verdict.equal == 0
    assert len(verdict.mismatches) >= len(wanted)
