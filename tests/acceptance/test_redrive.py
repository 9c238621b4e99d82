"""Giving many failed messages back, with the real command line on a real Kafka."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from conversations import Client, Kafka
from conversations.kafka.admin import apply
from conversations.kafka.follow import Follower
from conversations.protocol.topics import events_topic
from conversations_ops.operate.parked import parked_messages
from tests.acceptance.services.fragile import SUMS, Entry, asker, fragile
from tests.acceptance.support.command_line import Running
from tests.acceptance.support.operator import Terminal
from tests.support.waiting import SLOWER, until

pytestmark = [pytest.mark.acceptance, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(300)]
WHY = ("--reason", "INC-4711")


@pytest.fixture
def terminal(kafka: Kafka, tmp_path: Path) -> Iterator[Terminal]:
    """The fragile service runs; eight dialogs of it wait behind "one" and two behind "six", which nobody mends."""
    apply(kafka, [asker.declaration(), fragile.declaration()], 2, 1)
    with Running(kafka, tmp_path, "fragile:fragile", "fragile:asker"), Client(asker, kafka) as client:
        for _ in range(8):
            begin(client, "one")
        until(lambda: len(parked_messages(kafka, "fragile")) == 8, "the oldest letters")
        for _ in range(2):
            begin(client, "six")
        until(lambda: sum(it.behind for it in parked_messages(kafka, "fragile")) == 20)
        yield Terminal(kafka, tmp_path)


def begin(client: Client, text: str) -> None:
    with client.begin_dialog("fragile", SUMS) as dialog:
        for entry in ("1", text, "10", "0"):
            dialog.send(Entry(text=entry))


def told(kafka: Kafka, name: str) -> list[dict[str, object]]:
    with Follower(kafka, [events_topic(kafka.namespace)]) as follower:
        found = [json.loads(record.value() or b"{}") for record in follower.to_the_end(30)]
    return [event for event in found if event["event"] == name]


def test_a_redrive_tries_a_few_first_and_leaves_later_letters_alone(terminal: Terminal) -> None:
    kafka, file = terminal.kafka, str(terminal.out / "rd.json")
    code, groups = terminal("dead-letters", "list", "--by", "exception")
    assert code == 1
    assert [(it["name"], it["letters"], it["behind"]) for it in groups["groups"]] == [("ValueError", 10, 20)]
    assert "ValueError" in terminal.text("dead-letters", "list", "--by", "type")

    code, made = terminal(
        "redrive", "plan", "--service", "fragile", "--exception", "ValueError", "--canary", "2", "-o", file
    )
    assert (code, made["letters"], made["behind"]) == (0, 10, 20)
    assert terminal("redrive", "start", file, "--dry-run")[1]["done"] is False
    code, ended = terminal("redrive", "start", file, *WHY)
    assert (code, ended["end"]) == (1, "canary failed")
    assert ended["outcomes"]["came back"] == 1
    assert ended["outcomes"]["open"] == 9
    assert terminal("redrive", "start", file, *WHY)[0] == 2, "it was started: resume"

    (terminal.out / "mended").touch()
    with Client(asker, kafka) as client:
        begin(client, "six")
    until(lambda: len(parked_messages(kafka, "fragile")) == 11)
    code, ended = terminal("redrive", "resume", file, *WHY)
    assert code == 1
    assert ended["outcomes"]["handled"] == 7, ended
    assert ended["outcomes"]["came back"] == 3, "the first, and those nobody mended"
    left = parked_messages(kafka, "fragile")
    assert sorted(json.loads(it.body)["text"] for it in left) == ["one", "six", "six", "six"]
    assert sorted(it.returns for it in left) == [0, 1, 1, 1]

    assert terminal("redrive", "plan", "-o", file)[0] == 2, "the file of the first plan is kept"
    file = str(terminal.out / "second.json")
    code, made = terminal("redrive", "plan", "--max-returns", "1", "-o", file)
    assert (made["letters"], made["left_out"]) == (1, 3)
    assert terminal("dead-letters", "skip", next(it.letter for it in left if not it.returns), *WHY)[0] == 0
    code, ended = terminal("redrive", "start", file, *WHY)
    assert (code, ended["outcomes"]["changed"]) == (0, 1), "somebody decided meanwhile"
    code, seen = terminal("redrive", "watch", ended["redrive"])
    assert (code, seen["end"]) == (0, "done")
    assert {event["reason"] for event in told(kafka, "RESOLVED")} == {"INC-4711"}
    code, again = terminal("redrive", "resume", file, "--reason", "a slip")
    assert (code, again["end"], again["outcomes"]) == (0, "done", ended["outcomes"]), "nothing is left to do"
    assert "is done already" in terminal.text("redrive", "resume", file, "--reason", "a slip")
    assert len(told(kafka, "REDRIVE_STARTED")) == 3
    first, second = terminal("redrive", "list")[1]["redrives"]
    assert (first["letters"], first["end"], first["outcomes"]["handled"]) == (10, "done", 7)
    assert (second["redrive"], second["reason"]) == (ended["redrive"], "INC-4711")
    assert ended["redrive"] in terminal.text("redrive", "list")


def test_a_redrive_is_stopped_from_elsewhere_and_goes_on(terminal: Terminal) -> None:
    kafka, file = terminal.kafka, terminal.out / "rd.json"
    (terminal.out / "mended").touch()
    made = terminal(
        "redrive", "plan", "--until", "2100-01-01T00:00:00", "--canary", "1", "--rate", "0.2", "-o", str(file)
    )[1]
    running = terminal.start("redrive", "start", str(file), *WHY)
    until(lambda: told(kafka, "REDRIVE_PROGRESS") or running.poll() is not None)
    assert [it["end"] for it in terminal("redrive", "list")[1]["redrives"]] == [None], "it runs"
    assert terminal("redrive", "stop", str(file), *WHY)[0] == 0
    out, _ = running.communicate(timeout=60 * SLOWER)
    assert running.returncode == 1
    first = json.loads(out)
    assert first["end"] == "stopped"
    assert 1 <= first["outcomes"]["handled"] < 8
    assert terminal("redrive", "stop", made["redrive"], *WHY)[0] == 1, "it does not run"
    plan = json.loads(file.read_text())
    plan["care"]["rate"] = 100
    file.write_text(json.dumps(plan))
    code, ended = terminal("redrive", "resume", str(file), *WHY)
    assert (code, ended["end"], ended["outcomes"]["handled"], ended["outcomes"]["came back"]) == (1, "done", 8, 2)


def test_what_an_operator_may_get_wrong(kafka: Kafka, tmp_path: Path) -> None:
    apply(kafka, [asker.declaration(), fragile.declaration()], 2, 1)
    terminal = Terminal(kafka, tmp_path)
    file = tmp_path / "rd.json"
    assert terminal("redrive", "plan", "--service", "nobody")[0] == 2
    code, made = terminal("redrive", "plan", "-o", str(file))
    assert (code, made["letters"], made["plan"]) == (0, 0, None)
    assert not file.exists()
    assert "no time" in terminal.text("redrive", "plan", "--since", "yesterday")
    for name in ("start", "resume"):
        assert terminal("redrive", name, str(file), *WHY)[0] == 2
    for text in ("", "[]", "{}", '{"version": 2}', '{"version": 1, "letters": [1]}'):
        file.write_text(text)
        code, answer = terminal("redrive", "start", str(file), *WHY)
        assert code == 2, text
        assert "plan" in answer["error"]
    for command in (("watch", "rd-nobody"), ("stop", "rd-nobody", *WHY), ("watch", "rd-0")):
        assert terminal("redrive", *command)[0] == 2, command
    assert terminal("redrive", "stop", "rd-0", *WHY)[0] == 1
    assert "rd-0.json" in terminal("redrive", "start", "rd-0", *WHY)[1]["error"]
    assert terminal("redrive", "list") == (0, {"redrives": []})
