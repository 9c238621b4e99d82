"""The real command line in real processes, and waiting for what it really does."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from time import monotonic
from typing import Any, Self

from conversations.config import Kafka
from tests.support.waiting import until

PROGRAM = Path(sys.executable).with_name("conversations")
ROOT = Path(__file__).resolve().parents[3]
SERVICES = Path(__file__).parents[1] / "services"


def alive(pid: int) -> bool:
    """Whether a process still runs; one that only waits to be buried does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return state.rpartition(")")[2].split()[0] != "Z"


def conversations(*arguments: str, out: Path, seconds: float = 60) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [PROGRAM, *arguments], cwd=SERVICES, env=environment(out), capture_output=True, text=True, timeout=seconds, check=False
    )  # fmt: skip


def environment(out: Path) -> dict[str, str]:
    """Environment of a command whose services write to ``out``."""
    return {**os.environ, "OUT": str(out), "CONVERSATIONS_CACHE": str(out / "cache"), "PYTHONWARNINGS": "default"}


class Running:
    """``conversations run`` in the background; killed at the end of the block if it still runs."""

    def __init__(self, kafka: Kafka, out: Path, *arguments: str) -> None:
        self.log = out / f"run-{monotonic():.6f}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    PROGRAM, "run", *arguments, "--bootstrap", kafka.bootstrap, "--namespace", kafka.namespace,
                    "--health", "0", "--json", "--log-json",
                ],
                cwd=SERVICES, env=environment(out), stdout=subprocess.PIPE, stderr=log,
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
        """Status and body of the health page."""
        try:
            with urllib.request.urlopen(self.told["health"], timeout=10) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def workers(self) -> dict[str, dict[str, Any]]:
        """The workers by slot; of one service."""
        (service,) = self.health()[1]["services"]
        return {worker["slot"]: worker for worker in service["workers"]}

    def is_well(self) -> bool:
        """Whether the health page says 200."""
        return self.health()[0] == 200

    def ready(self) -> Self:
        """Wait until every worker works."""
        until(self.is_well, f"healthy: {self.health()}")
        return self

    def lines(self) -> list[dict[str, Any]]:
        """What was logged so far."""
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.endswith("}")]

    def tell(self, number: signal.Signals) -> None:
        """Send a signal to the supervisor."""
        self.process.send_signal(number)

    def ended(self, seconds: float = 30) -> tuple[int, str]:
        """Wait for the end; exit code and what was still printed."""
        out, _ = self.process.communicate(timeout=seconds)
        return self.process.returncode, out.decode()
