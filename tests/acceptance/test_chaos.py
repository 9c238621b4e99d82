"""The short form of the chaos run, as anybody starts it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.support.command_line import ROOT
from tests.support.waiting import SLOWER, until

pytestmark = [pytest.mark.acceptance, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(400)]

SHORT = ("--messages", "20000", "--dialogs", "400", "--kill-every", "5", "--poison", "0.1")


def chaos(out: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start a run, in a process group of its own; what it keeps goes to ``out``."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.chaos", *SHORT, *arguments], cwd=ROOT, process_group=0,
        env={**os.environ, "TMPDIR": str(out)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def running(out: Path) -> list[str]:
    """Processes whose command line or environment names ``out``: the broker, its supervisor, the workers."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            told = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
            state = (process / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue  # gone, or not ours
        if str(out).encode() in told and state != "Z":
            found.append(process.name)
    return found


def test_nothing_is_lost_repeated_or_swapped_whatever_breaks(tmp_path: Path) -> None:
    with chaos(tmp_path, "--json") as run:
        out, err = run.communicate(timeout=380 * SLOWER)
    assert run.returncode == 0, out + err
    told = json.loads(out)
    assert told["clean"], told["wrong"]
    assert 19_000 < told["figures"]["messages"] <= 20_000, "what was skipped, or came after an end, has no receipt"
    assert min(told["injected"].values()) > 0
    assert {"killed", "frozen", "broker restarts", "replaced in order"} <= told["counts"].keys()
    assert sum(count for what, count in told["counts"].items() if what.startswith(("decided", "queues"))) > 0
    assert not list(tmp_path.glob("conversations-chaos-*")), "a clean run leaves nothing behind"


def test_a_run_that_is_stopped_leaves_no_process_and_nothing_on_the_disk(tmp_path: Path) -> None:
    with chaos(tmp_path) as run:
        until(lambda: any(tmp_path.glob("*/records/*.jsonl")), "the workers are at work")
        assert len(running(tmp_path)) > 5
        run.send_signal(signal.SIGINT)
        _, err = run.communicate(timeout=60 * SLOWER)
    assert run.returncode == 130, err
    assert running(tmp_path) == []
    assert not list(tmp_path.glob("conversations-chaos-*"))
