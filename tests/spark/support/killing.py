"""Spark drivers that are killed at a random time, with a real SIGKILL of the process and its JVM."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from tests.support.waiting import SLOWER

SHORT_LIVED = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""Java options for programs that live for seconds: Java's optimizing compiler would only cost time."""
LONGEST = 15.0
"""Most seconds until a run is killed. To start a Spark session takes about five seconds."""
ROOT = Path(__file__).parents[3]


def run_until_done(
    command: Sequence[str], *, kills: int, chance: Random, before_each: Callable[[], None] = lambda: None
) -> int:
    """Run a Python command and kill it after a random time, ``kills`` times. Then run it to its end. Return the number of kills.

    A run that ends before it is killed must end with code 0, and does not count. ``before_each`` adds work before each run.
    """
    killed = 0
    while killed < kills:
        before_each()
        killed += _killed(command, 3.0 + chance.random() * (LONGEST - 3.0))
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=os.environ | SHORT_LIVED, capture_output=True, text=True, check=False, timeout=240 * SLOWER
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return killed


def _killed(command: Sequence[str], after: float) -> bool:
    process = subprocess.Popen(
        [sys.executable, *command], cwd=ROOT, env=os.environ | SHORT_LIVED, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    deadline = time.monotonic() + after
    try:
        process.wait(deadline - time.monotonic())
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return True
    finally:
        # With some launchers the JVM is in another process group. Then it ends when the pipe to its parent is closed.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    _, said = process.communicate()
    assert process.returncode == 0, said[-2000:].decode(errors="replace")
    return False
