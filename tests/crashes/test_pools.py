"""Worker processes killed while a pool sends and replaces its dialogs: each key has each number once and in order, on both sides."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from conversations import Client, Kafka
from conversations.kafka.admin import apply
from tests.acceptance.support.command_line import ROOT
from tests.crashes.support.counting_services import Number
from tests.crashes.support.pooled_services import DEVICES, alerts, gateway
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(240)]

KEYS, ROUNDS, EACH = ("a", "b", "c"), 5, 30


def begin(kafka: Kafka, out: Path) -> subprocess.Popen[bytes]:
    """Start a process with the workers of both services."""
    with (out / f"{uuid4().hex}.log").open("wb") as log:
        return subprocess.Popen(
            [
                sys.executable, "-m", "conversations", "run", "tests.crashes.support.pooled_services:alerts",
                "tests.crashes.support.pooled_services:gateway", "--bootstrap", kafka.bootstrap, "--namespace", kafka.namespace,
                "--state-dir", out / "state",
            ],
            cwd=ROOT, env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "ops")])}, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip


def test_the_order_of_each_key_survives_kills_and_replacements(kafka_bootstrap: str, tmp_path: Path) -> None:
    """Five lives of the workers, 450 numbers, dialogs of 20 messages or five seconds."""
    kafka = Kafka(kafka_bootstrap, namespace=f"p{uuid4().hex[:10]}")
    apply(kafka, [alerts.declaration(), gateway.declaration()], 2, 1)
    with Client(alerts, kafka) as client:

        def numbers(key: str) -> tuple[list[int], list[int]]:
            there = client.state(gateway, DEVICES.group(key), begun_by="alerts")
            here = client.state(alerts, DEVICES.group(key))
            return (there.value.numbers if there else []), (here.value.numbers if here else [])

        for round_ in range(ROUNDS):
            workers = begin(kafka, tmp_path)
            try:
                for n in range(round_ * EACH, (round_ + 1) * EACH):
                    for key in KEYS:
                        with client.pooled(DEVICES, key) as dialog:
                            dialog.send(Number(n=n))
                expected = (round_ + 1) * EACH if round_ == ROUNDS - 1 else round_ * EACH + EACH // 2
                until(lambda: all(len(numbers(key)[1]) >= expected for key in KEYS), "the numbers are answered", 60)  # noqa: B023 - called in this round only
            finally:
                os.killpg(workers.pid, 9)
                workers.wait(20)
        whole = list(range(ROUNDS * EACH))
        for key in KEYS:
            assert numbers(key) == (whole, whole)
