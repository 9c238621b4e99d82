"""The demo, as a newcomer starts it: real processes, a real kill, real data, and a check that can fail."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
from pathlib import Path

import pytest

from conversations_ops.demo import check, expected
from conversations_ops.demo.clusters import Crossing
from conversations_ops.demo.flights import read_flights
from conversations_ops.demo.outcome import Outcome
from tests.acceptance.support.command_line import PROGRAM, alive
from tests.support.waiting import SLOWER, until

pytestmark = pytest.mark.acceptance


@pytest.mark.slow
@pytest.mark.timeout(620)
def test_demo_ends_without_a_mismatch() -> None:
    """Every summary equals the CSV although records came twice and a worker was killed."""
    result = subprocess.run(
        [PROGRAM, "demo", "--json"], capture_output=True, text=True, check=False, timeout=600 * SLOWER
    )
    assert result.returncode == 0, f"{result.stdout[-4_000:]}\n{result.stderr}"
    facts = json.loads(result.stdout.splitlines()[-1])
    assert facts["mismatches"] == 0
    assert facts["dialogs"] == facts["summaries_equal"] == 3_148
    assert facts["legs"] == 26_849
    assert facts["duplicates_injected"] == facts["duplicates_dropped"] > 500
    assert facts["crashes"] >= 1
    assert facts["dead_letters_by_reason"] == {"edited": 1, "handler-failed": 14}
    assert (facts["held"], facts["held_at_the_end"]) == (14, 0)
    assert facts["redriven"]["handled"] == 13
    assert facts["spark_left_out"] is None
    assert facts["archived"] == facts["messages"] + 2 * facts["dialogs"]  # the END of either side too
    assert facts["audit"]["faults"] == 0, facts["audit"]["listed"]
    assert facts["audit"]["totals"]["settled"] == facts["archived"]
    assert facts["dialogs_begun"] == facts["dialogs_ended"] == 2 * facts["dialogs"]
    assert (facts["utilisation_days"] > 20_000, facts["utilisation_mismatches"]) == (True, 0)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_demo_on_two_clusters_ends_without_a_mismatch() -> None:
    """A forwarder is killed as well, and yet each envelope that left a cluster is in the queue on the other one, once."""
    result = subprocess.run(
        [PROGRAM, "demo", "--clusters", "2", "--json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=380 * SLOWER,
    )
    assert result.returncode == 0, f"{result.stdout[-4_000:]}\n{result.stderr}"
    facts = json.loads(result.stdout.splitlines()[-1])
    assert facts["mismatches"] == 0
    assert facts["dialogs"] == facts["summaries_equal"] == 3_148
    assert facts["duplicates_injected"] == facts["duplicates_dropped"] > 500
    assert (facts["crashes"], facts["forwarders_killed"]) == (1, 1)
    assert facts["redriven"]["handled"] == 13
    assert "reads one cluster" in facts["spark_left_out"]
    there, back = facts["crossed"]
    assert (there["service"], there["cluster"]) == ("aircraft-log", "hangar")
    assert (back["service"], back["cluster"]) == ("operations", "home")
    # Each flight and each END goes there, each answer and each summary comes back; acknowledgements go both ways.
    assert there["arrived"] == there["sent"] > facts["legs"] + facts["dialogs"]
    assert back["arrived"] == back["sent"] > facts["replies"] + facts["dialogs"]


@pytest.mark.timeout(120)
def test_ctrl_c_ends_every_process(tmp_path: Path) -> None:
    """Once the flights are under way the broker, both supervisors and the workers are there; then none of them is."""
    output = tmp_path / "output"
    with output.open("wb") as file:
        demo = subprocess.Popen([PROGRAM, "demo"], stdout=file, stderr=file, start_new_session=True)
    until(lambda: b"answered:" in output.read_bytes() or demo.poll() is not None, "flights under way")
    started = descendants(demo.pid)
    assert len(started) >= 7, output.read_text()
    demo.send_signal(signal.SIGINT)
    assert demo.wait(30) == 130
    until(lambda: not any(alive(pid) for pid in started), "every process gone", 10)


def descendants(pid: int) -> list[int]:
    """Processes a process has started, and those have started, and so on."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(path.parent.name)] = int(path.read_text(encoding="utf-8").rpartition(")")[2].split()[1])
    found = [pid]
    for parent in found:
        found += [child for child, own in parents.items() if own == parent]
    return found[1:]


def test_check_finds_what_is_missing() -> None:
    """With nothing in Kafka the check finds a mismatch for every aircraft: it is not one that cannot fail."""
    wanted = expected.expected(read_flights())
    verdict = check.check(wanted, Outcome())
    assert verdict.equal == 0
    assert len(verdict.mismatches) >= len(wanted)


@pytest.mark.parametrize("arrived", [6, 8])
def test_check_finds_what_has_not_crossed_once(arrived: int) -> None:
    """An envelope that is lost between the clusters or is there twice is a mismatch."""
    before = check.check({}, Outcome(), [Crossing("aircraft-log", "hangar", 7, 7)])
    after = check.check({}, Outcome(), [Crossing("aircraft-log", "hangar", 7, arrived)])
    assert before.mismatches == []
    assert after.mismatches == [f"7 envelopes for aircraft-log went to cluster hangar, and {arrived} are in its queue"]
