"""Turning queues off and on, with the real command line on a real Kafka."""

from pathlib import Path

import pytest

from conversations import Client, Kafka
from conversations.kafka.admin import apply
from conversations_ops.operate.parked import parked_messages
from conversations_ops.operate.queues import queues
from tests.acceptance.services.fragile import SUMS, Entry, asker, fragile
from tests.acceptance.support.command_line import Running
from tests.acceptance.support.operator import Terminal
from tests.support.waiting import until

pytestmark = [pytest.mark.acceptance, pytest.mark.kafka, pytest.mark.timeout(240)]
WHY = ("--reason", "INC-4711")


def test_a_queue_is_off_until_it_is_turned_on(kafka: Kafka, tmp_path: Path) -> None:
    """Also while its service is started anew; nothing that arrives meanwhile is lost, and no sender gets an error."""
    apply(kafka, [asker.declaration(), fragile.declaration()], 2, 1)
    terminal = Terminal(kafka, tmp_path)
    with Client(asker, kafka) as client:
        with Running(kafka, tmp_path, "fragile:fragile", "fragile:asker"):
            code, told = terminal("queue", "off", "fragile", "--dry-run")
            assert (code, told["done"], told["changed"]) == (0, False, 2)
            assert terminal("queue", "show")[0] == 0
            code, told = terminal("queue", "off", "fragile", *WHY)
            assert (code, told["changed"], told["answered"]) == (0, 2, 2)
            text = terminal.text("queue", "off", "fragile", *WHY)  # what was done, and on stderr what will be
            assert text == (
                "turned the queue of fragile off in 0 of 2 partitions; 0 messages wait for it\n"
                "will turn the queue of fragile off in 0 of 2 partitions; 0 messages wait for it\n"
            )
            for _ in range(10):
                with client.begin_dialog("fragile", SUMS) as dialog:
                    for text in ("1", "2", "0"):
                        dialog.send(Entry(text=text))
            until(lambda: sum(it.messages for it in queues(kafka, "fragile")) == 30)
        with Running(kafka, tmp_path, "fragile:fragile", "fragile:asker"):
            code, told = terminal("queue", "show", "fragile")
            assert code == 1
            assert {it["off"] for it in told["queues"]} == {"operator"}
            assert {it["reason"] for it in told["queues"]} == {"INC-4711"}
            assert sum(it["dialogs"] for it in told["queues"]) == 10
            assert "OFF" in terminal.text("queue", "show")
            assert terminal("dead-letters", "list") == (0, {"letters": []})
            assert terminal("retries", "list") == (0, {"retries": []})
            code, told = terminal("queue", "on", "fragile", *WHY)
            assert (code, told["changed"], told["waiting"]) == (0, 2, 30)
            until(lambda: not parked_messages(kafka, "fragile"))
            until(lambda: sum(it.messages for it in queues(kafka, "fragile")) == 0)
            assert terminal("queue", "show")[0] == 0


def test_what_an_operator_may_get_wrong(kafka: Kafka, tmp_path: Path) -> None:
    apply(kafka, [asker.declaration(), fragile.declaration()], 2, 1)
    terminal = Terminal(kafka, tmp_path)
    assert terminal("queue", "show", "nobody")[0] == 2
    assert terminal("queue", "off", "nobody", *WHY)[0] == 2
    assert "--reason" in terminal.text("queue", "off", "fragile")
    code, told = terminal("queue", "off", "fragile", *WHY, "--wait", "1")
    assert code == 1
    assert "does the service run?" in told["error"]
    with Running(kafka, tmp_path, "fragile:fragile", "fragile:asker"):
        until(lambda: all(it.off for it in queues(kafka, "fragile")))
