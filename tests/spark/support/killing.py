"""Drivers that are killed: a real SIGKILL of the process and its JVM, at any moment."""

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

SHORT_LIVED = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""Programs that live for seconds gain nothing from Java's second compiler."""
LONGEST = 15.0
"""Seconds after which a run that is to be killed is killed at the latest; a session alone takes about five."""
ROOT = Path(__file__).parents[3]


def run_until_done(
    command: Sequence[str], *, kills: int, chance: Random, before_each: Callable[[], None] = lambda: None
) -> int:
    """Run a Python command again and again, killed after a random time, then once to its end; return how often it was killed.

    A run that ends before it is killed must have ended well, and is made again, after more work is there.
    """
    killed = 0
    while killed < kills:
        before_each()
        killed += _killed(command, 3.0 + chance.random() * (LONGEST - 3.0))
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=os.environ | SHORT_LIVED, capture_output=True, text=True, check=False, timeout=240
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
        # The JVM has a group of its own in some launchers; it ends with its parent's pipe.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    _, said = process.communicate()
    assert process.returncode == 0, said[-2000:].decode(errors="replace")
    return False
