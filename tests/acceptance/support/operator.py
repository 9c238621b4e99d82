"""An operator who works with the real command line."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from conversations import Kafka
from tests.acceptance.support.command_line import PROGRAM, conversations, environment


class Terminal:
    """An operator's terminal. Calling it runs a command, and returns its exit code and its JSON output."""

    def __init__(self, kafka: Kafka, out: Path) -> None:
        self.kafka, self.out = kafka, out

    def __call__(self, *arguments: str) -> tuple[int, dict[str, Any]]:
        where = ["--bootstrap", self.kafka.bootstrap, "--namespace", self.kafka.namespace, "--json"]
        done = conversations(*arguments, *where, out=self.out)
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a command and return its process, without waiting for its end."""
        where = ["--bootstrap", self.kafka.bootstrap, "--namespace", self.kafka.namespace, "--json"]
        return subprocess.Popen(
            [PROGRAM, *arguments, *where], env=environment(self.out), stdout=subprocess.PIPE, text=True
        )

    def letters(self) -> list[dict[str, Any]]:
        _, told = self("dead-letters", "list")
        return list(told["letters"])

    def text(self, *arguments: str) -> str:
        done = conversations(
            *arguments, "--bootstrap", self.kafka.bootstrap, "--namespace", self.kafka.namespace, out=self.out
        )
        return done.stdout + done.stderr
