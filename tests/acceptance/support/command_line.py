"""The real command line in real processes, and functions that wait for its effects."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import Any, Self

from conversations.config import Kafka
from tests.support.waiting import SLOWER, until

PROGRAM = Path(sys.executable).with_name("conversations")
ROOT = Path(__file__).resolve().parents[3]
SERVICES = Path(__file__).parents[1] / "services"
NONE: Mapping[str, str] = {}


def alive(pid: int) -> bool:
    """Return True if a process still runs. A zombie, which has ended and whose parent has not read its exit code, does not run."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return state.rpartition(")")[2].split()[0] != "Z"


def conversations(
    *arguments: str, out: Path, seconds: float = 60, variables: Mapping[str, str] = NONE
) -> subprocess.CompletedProcess[str]:
    """Run a command of ``conversations`` to its end, at most ``seconds``."""
    return subprocess.run(
        [PROGRAM, *arguments], cwd=SERVICES, env=environment(out, variables), capture_output=True, text=True, timeout=seconds * SLOWER, check=False
    )  # fmt: skip


def environment(out: Path, variables: Mapping[str, str] = NONE) -> dict[str, str]:
    """Return the environment of a command whose services write to the directory ``out``; ``variables`` replace others."""
    ours = {"OUT": str(out), "CONVERSATIONS_CACHE": str(out / "cache"), "PYTHONWARNINGS": "default"}
    return {**os.environ, **ours, **variables}


LOG_FORMAT = "worker.log_format=json"
"""The setting that does what ``--log-json`` does."""


class Running:
    """A ``conversations run`` in the background. At the end of the ``with`` block it is killed."""

    def __init__(self, kafka: Kafka, out: Path, *arguments: str, variables: Mapping[str, str] = NONE) -> None:
        self.log = out / f"run-{monotonic():.6f}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    PROGRAM, "run", *arguments, "--bootstrap", kafka.bootstrap, "--namespace", kafka.namespace,
                    "--health", "0", "--json", *([] if LOG_FORMAT in arguments else ["--log-json"]),
                ],
                cwd=SERVICES, env=environment(out, variables), stdout=subprocess.PIPE, stderr=log,
            )  # fmt: skip
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.log.read_text()
        self.told: dict[str, Any] = json.loads(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.process.kill()
        self.process.communicate()

    def health(self) -> tuple[int, dict[str, Any]]:
        """Return the status and the body of the health page."""
        try:
            with urllib.request.urlopen(self.told["health"], timeout=10) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def workers(self) -> dict[str, dict[str, Any]]:
        """Return the workers on the health page, by slot. There must be exactly one service."""
        (service,) = self.health()[1]["services"]
        return {worker["slot"]: worker for worker in service["workers"]}

    def is_well(self) -> bool:
        """Return True if the health page has status 200."""
        return self.health()[0] == 200

    def ready(self) -> Self:
        """Wait until the health page has status 200: every worker works."""
        until(self.is_well, f"healthy: {self.health()}")
        return self

    def lines(self) -> list[dict[str, Any]]:
        """Return the lines of the log so far that are JSON."""
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.endswith("}")]

    def tell(self, number: signal.Signals) -> None:
        """Send a signal to the supervisor process."""
        self.process.send_signal(number)

    def ended(self, seconds: float = 30) -> tuple[int, str]:
        """Wait until the process ends. Return its exit code, and the rest of its output."""
        out, _ = self.process.communicate(timeout=seconds * SLOWER)
        return self.process.returncode, out.decode()
