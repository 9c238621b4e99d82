"""A message that ends the process of its handler, with real processes on a real Kafka."""

import os
from pathlib import Path

import pytest

from conversations import Client, Kafka
from conversations.config import WorkerSettings
from conversations.kafka.admin import apply
from conversations.kafka.follow import Follower
from conversations.protocol import rows
from tests.acceptance.services.deadly import TASKS, Task, boss, deadly
from tests.acceptance.support.command_line import Running
from tests.support.waiting import until

pytestmark = [pytest.mark.acceptance, pytest.mark.kafka, pytest.mark.timeout(400)]
DIALOGS = int(os.environ.get("KILLER_DIALOGS", "1000"))


def closed(kafka: Kafka) -> int:
    """How many dialogs are over at the deadly service."""
    with Follower(kafka, [f"{kafka.namespace}.deadly.state"]) as follower:
        table = {record.key() or b"": record.value() for record in follower.to_the_end(60)}
    return sum(
        key[:1] == rows.ENDPOINT and value is not None and rows.is_tombstone(value) for key, value in table.items()
    )


@pytest.mark.slow
def test_a_message_that_ends_its_process_is_found_and_the_others_are_handled(kafka: Kafka, tmp_path: Path) -> None:
    apply(kafka, [boss.declaration(), deadly.declaration()], 4, 1)
    with Client(boss, kafka) as client:
        for number in range(DIALOGS):
            with client.begin_dialog("deadly", TASKS) as dialog:
                dialog.send(Task(n=number, deadly=number == DIALOGS // 2))
    with Running(kafka, tmp_path, "deadly:deadly", "deadly:boss") as running:
        until(lambda: closed(kafka) == DIALOGS, "all dialogs over", 300, pause=1)
        _, health = running.health()
    deaths = (tmp_path / "deaths").read_text().split()
    assert 1 + WorkerSettings().deaths <= len(deaths) <= WorkerSettings().deaths + 2
    assert sum(worker["restarts"] for service in health["services"] for worker in service["workers"]) == len(deaths)
    with Follower(kafka, [f"{kafka.namespace}.deadly.dead-letter"]) as follower:
        (letter,) = follower.to_the_end(30)
    assert dict(letter.headers() or ())["dl.exception"] == b"conversations.errors.ProcessDied"
    assert b'"deadly":true' in (letter.value() or b"")
