"""The README's first service on a real Kafka, with the README's own commands and client."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from conversations import Kafka
from tests.acceptance.support.command_line import PROGRAM, environment
from tests.support.documents import block, with_words
from tests.support.waiting import SLOWER

pytestmark = [pytest.mark.acceptance, pytest.mark.kafka, pytest.mark.timeout(240)]

PATIENCE = 60 * SLOWER
"""Seconds for one command, and for the answer that the client awaits: the worker starts beside the client."""


def test_the_readmes_service_and_client_on_kafka(kafka: Kafka, tmp_path: Path) -> None:
    (tmp_path / "hello.py").write_text(block("README.md 1"))
    address = f'Kafka("{kafka.bootstrap}", namespace="{kafka.namespace}")'
    words = {'Kafka("127.0.0.1:9092")': address, "timedelta(seconds=5)": f"timedelta(seconds={PATIENCE})"}
    (tmp_path / "ask.py").write_text(with_words(block("README.md 4"), words))
    variables = environment(
        tmp_path, {"CONVERSATIONS_BOOTSTRAP": kafka.bootstrap, "CONVERSATIONS_NAMESPACE": kafka.namespace}
    )
    commands = [
        shlex.split(line, comments=True)[1:]
        for line in block("README.md 3").splitlines()
        if line.startswith("conversations ") and "conversations broker" not in line
    ]
    *before, run = commands
    assert [it[0] for it in commands] == ["check", "apply", "run"]
    for command in before:
        subprocess.run([PROGRAM, *command], cwd=tmp_path, env=variables, check=True, timeout=PATIENCE)
    service = subprocess.Popen([PROGRAM, *run], cwd=tmp_path, env=variables)
    try:
        answer = subprocess.run(
            [sys.executable, "ask.py"], cwd=tmp_path, env=variables, stdout=subprocess.PIPE, text=True, check=False,
            timeout=2 * PATIENCE,
        )  # fmt: skip
    finally:
        service.terminate()
        service.wait(30 * SLOWER)
    assert (answer.returncode, answer.stdout) == (0, "Hello, Ada\n")
