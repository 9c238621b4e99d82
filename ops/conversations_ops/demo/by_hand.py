"""Lets a person redrive the held flights of the demo in the web console."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from conversations.config import Kafka
from conversations_ops.cache import VARIABLE
from conversations_ops.demo.failing import DemoFailed
from conversations_ops.host import interruptible

LOOK_EVERY = 1.0
"""Seconds between two looks at the held flights."""
ENDS_IN = 10.0
"""Seconds that the console may take to end. Then it is killed."""


@contextmanager
def console(kafka: Kafka, directory: Path) -> Iterator[Callable[[], None]]:
    """Run the web console in a process of its own, which prints its link on stderr. Give the block a function that checks it.

    The function raises ``DemoFailed`` if the console has ended.
    """
    command = [
        sys.executable, "-P", "-m", "conversations_ops.cli.app", "console", "--listen", "0", "--users", str(directory / "no-users.json"),
        "--bootstrap", kafka.bootstrap, "--namespace", kafka.namespace,
    ]  # fmt: skip
    process = subprocess.Popen(command, env={**os.environ, VARIABLE: str(directory / "cache")})

    def check() -> None:
        if interruptible.exit_code(process) is not None:
            raise DemoFailed(f"The web console has ended with code {process.returncode}")

    try:
        yield check
    finally:
        process.terminate()
        if not interruptible.wait(process, ENDS_IN):
            process.kill()
            interruptible.wait(process, math.inf)


def wait(held: Callable[[], int], checks: Sequence[Callable[[], object]]) -> None:
    """Wait until no flight is held any more. Each of ``checks`` is called before each look, and raises if something has ended."""
    while True:
        for check in checks:
            check()
        if not held():
            return
        time.sleep(LOOK_EVERY)
