"""A run whose Kafka goes away and comes back, as its health page shows it."""

import urllib.request
from pathlib import Path
from typing import Any

import pytest

from conversations import Kafka
from conversations.config import Periods
from conversations.kafka.admin import apply
from conversations_ops.broker import EmbeddedBroker
from conversations_ops.settings.given import DIVIDED_BY as VARIABLE
from tests.acceptance.services import counting
from tests.acceptance.support.command_line import Running
from tests.support.waiting import until

pytestmark = [pytest.mark.acceptance, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(240)]

SHORTER = 20


def test_the_page_says_that_kafka_is_away_and_nothing_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(SHORTER))
    with EmbeddedBroker() as broker:
        kafka = Kafka(broker.bootstrap)
        apply(kafka, [counting.sink.declaration()], 1, 1, periods=Periods().scaled(SHORTER))
        with Running(kafka, tmp_path, "counting:sink", "--slot", "s") as run:

            def worker() -> dict[str, Any]:
                return run.workers()["s-1"]

            run.ready()
            pid = worker()["pid"]
            assert worker()["kafka"] is None
            assert (abs(worker()["clock_off_seconds"]) < 10, worker()["brake_on"]) == (True, False)
            broker.kill()
            until(lambda: worker()["state"] == "unreachable", "the page says that Kafka is away", seconds=90)
            assert not run.is_well()
            said = worker()["kafka"]
            assert said["unreachable"]
            # The first call that went without an answer: a look names the broker, the end of a step is in the middle of it.
            assert broker.bootstrap in said["trying"] or said["trying"] == "committing a step"
            with urllib.request.urlopen(run.told["health"].replace("/health", "/live"), timeout=10) as answer:
                assert answer.status == 200
            broker.restart()
            until(run.is_well, "the page says that Kafka is back", seconds=90)
            assert (worker()["pid"], worker()["restarts"], worker()["kafka"]) == (pid, 0, None)
            said = [line["message"] for line in run.lines() if line["logger"] == "conversations.run"]
            assert said[0] == "ready: sink (1 worker)"
            assert ["no broker has answered" in it for it in said[1:]] == [True, False], said
            assert said[-1].endswith("Kafka answers again")
