"""What operators do about letters that no dialog waits for, with the real command line on a real Kafka."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from conversations import Client, Kafka
from conversations.kafka.admin import apply
from conversations.protocol.topics import COMMANDS, DEAD_LETTER, service_topic
from conversations_ops.operate.open_letters import open_letters
from conversations_ops.operate.parked import parked_messages
from tests.acceptance.services.fragile import SUMS, Entry, asker, fragile
from tests.acceptance.support.command_line import Running, conversations
from tests.acceptance.support.operator import Terminal
from tests.support.waiting import until

pytestmark = [pytest.mark.acceptance, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(300)]
WHY = ("--reason", "INC-4711")


@pytest.fixture
def terminal(kafka: Kafka, tmp_path: Path) -> Iterator[Terminal]:
    """The fragile service runs, and two dialogs were ended behind their second entry: six letters are open."""
    apply(kafka, [asker.declaration(), fragile.declaration()], 2, 1)
    with Running(kafka, tmp_path, "fragile:fragile", "fragile:asker"), Client(asker, kafka) as client:
        for text in ("one", "two"):
            with client.begin_dialog("fragile", SUMS) as dialog:
                for entry in ("1", text, "10", "0"):
                    dialog.send(Entry(text=entry))
        until(lambda: sum(it.behind for it in parked_messages(kafka, "fragile")) == 4)
        terminal = Terminal(kafka, tmp_path)
        for it in parked_messages(kafka, "fragile"):
            assert terminal("dead-letters", "end", it.letter, *WHY)[0] == 0
        yield terminal


def produce(kafka: Kafka, topic: str, value: bytes, headers: list[tuple[str, str | bytes | None]]) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    producer.produce(topic, value, b"k", 0, headers=headers)
    assert producer.flush(10) == 0


def test_letters_are_discarded_or_sent_again_on_a_new_dialog(terminal: Terminal) -> None:
    kafka = terminal.kafka
    assert terminal("dead-letters", "list") == (0, {"letters": []})
    code, told = terminal("dead-letters", "list", "fragile", "--detached")
    assert code == 1
    letters = {json.loads(it["body"])["text"]: it for it in told["letters"]}
    assert len(told["letters"]) == 6
    one, two = letters["one"], letters["two"]
    assert one["reason"] == "parked-at-end"
    assert "parked-at-end" in terminal.text("dead-letters", "list", "--detached")
    code, told = terminal("dead-letters", "list", "--detached", "--by", "reason")
    assert (code, [(it["name"], it["letters"]) for it in told["groups"]]) == (1, [("parked-at-end", 6)])
    code, shown = terminal("dead-letters", "show", one["letter"])
    assert (code, shown["open"], shown["reason"], shown["body"]) == (0, True, "parked-at-end", '{"text":"one"}')
    assert "int(body.text)" in shown["stack"]
    text = terminal.text("dead-letters", "show", one["letter"])
    assert "no dialog waits for it: it waited in its dialog when the dialog ended" in text
    assert f"conversations dead-letters discard {one['letter']}" in text

    code, told = terminal("dead-letters", "resubmit", one["letter"], "--dry-run")
    assert (code, told["done"], len(told["letters"])) == (0, False, 3)
    (terminal.out / "mended").touch()
    code, told = terminal("dead-letters", "resubmit", one["letter"], *WHY)
    assert (code, told["service"], len(told["letters"])) == (0, "asker", 3)
    assert told["dialog"] != one["conversation"]
    left = open_letters(kafka, "fragile")
    assert {it.conversation for it in left} == {two["conversation"]}
    assert parked_messages(kafka, "fragile") == [], "its second entry is understood now"
    code, told = terminal("dead-letters", "resubmit", one["letter"], *WHY)
    assert code == 2
    assert "is not open" in told["error"]

    selected = ("--service", "fragile", "--conversation", two["conversation"], "--with-reason", "parked-at-end")
    code, told = terminal("dead-letters", "discard", *selected, "--dry-run")
    assert (code, len(told["letters"]), told["done"]) == (0, 3, False)
    assert terminal("dead-letters", "discard", "--with-reason", "after-end", *WHY) == (0, {"letters": [], "done": True})
    assert terminal("dead-letters", "discard", left[0].letter, *WHY) == (0, {"letters": [left[0].letter], "done": True})
    for slip in (("--service", ""), ("--with-reason", "after_end"), ()):
        assert conversations("dead-letters", "discard", *slip, *WHY, out=terminal.out).returncode == 2
    assert terminal.text("dead-letters", "discard", *selected, "--dry-run") == "would discard 2 letters\n"
    assert terminal.text("dead-letters", "discard", *selected, *WHY) == "discarded 2 letters\nwill discard 2 letters\n"
    assert terminal("dead-letters", "list", "--detached") == (0, {"letters": []})
    assert terminal("dead-letters", "discard", two["letter"], *WHY)[0] == 2
    code, shown = terminal("dead-letters", "show", two["letter"])
    assert (code, shown["open"], shown["body"]) == (0, False, '{"text":"two"}')
    assert "closed" in terminal.text("dead-letters", "show", two["letter"])


def test_letters_that_are_of_no_dialog(terminal: Terminal) -> None:
    kafka = terminal.kafka
    topic = service_topic(kafka.namespace, "fragile", DEAD_LETTER)
    produce(kafka, topic, b"spring", [("kafka_dlt-original-topic", b"orders")])
    produce(kafka, topic, b"connect", [("__dlq.errors.topic", b"orders")])
    produce(kafka, topic, b"?", [])
    produce(kafka, service_topic(kafka.namespace, "fragile", COMMANDS), b"garbage", [])
    until(lambda: len(open_letters(kafka, "fragile")) == 10)
    found = {it.value: it for it in open_letters(kafka, "fragile")}
    assert found[b"spring"].foreign == "Spring Kafka"
    assert found[b"connect"].foreign == "Kafka Connect or Kafka Streams"
    assert found[b"?"].foreign == "another program"
    garbage = found[b"garbage"]
    assert (garbage.reason, garbage.topic) == ("set-aside", "commands")
    assert "Spring Kafka" in terminal.text("dead-letters", "show", found[b"spring"].letter)
    for verb in ("discard", "resubmit"):
        code, told = terminal("dead-letters", verb, found[b"spring"].letter, *WHY)
        assert code == 2
        assert "Spring Kafka" in told["error"]
    code, told = terminal("dead-letters", "resubmit", garbage.letter, *WHY)
    assert code == 2
    assert "discarded" in told["error"]
    assert terminal("dead-letters", "discard", garbage.letter, *WHY)[0] == 0
    assert terminal("dead-letters", "discard", "fragile.queue-0-99999", *WHY)[0] == 2
    assert terminal("dead-letters", "discard", "nobody.queue-0-1", *WHY)[0] == 2
    other = Terminal(Kafka(kafka.bootstrap, namespace="elsewhere"), terminal.out)
    assert other("dead-letters", "discard", garbage.letter, *WHY)[0] != 0, "a letter of another namespace"
