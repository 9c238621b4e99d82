"""What operators do about failed messages, with the real command line on a real Kafka."""

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conversations import Client, Kafka
from conversations.kafka.admin import apply
from conversations.kafka.follow import Follower
from conversations_ops.operate.parked import parked_messages
from tests.acceptance.services.fragile import SUMS, Entry, asker, fragile
from tests.acceptance.support.command_line import Running, conversations
from tests.acceptance.support.operator import Terminal
from tests.support.waiting import until

pytestmark = [pytest.mark.acceptance, pytest.mark.kafka, pytest.mark.timeout(240)]


@pytest.fixture
def terminal(kafka: Kafka, tmp_path: Path) -> Iterator[Terminal]:
    """The fragile service runs, and six dialogs of it wait for a decision behind their second entry."""
    apply(kafka, [asker.declaration(), fragile.declaration()], 2, 1)
    with Running(kafka, tmp_path, "fragile:fragile", "fragile:asker"), Client(asker, kafka) as client:
        for text in ("one", "two", "three", "four", "five", "later"):
            with client.begin_dialog("fragile", SUMS) as dialog:
                for entry in ("1", text, "10", "0"):
                    dialog.send(Entry(text=entry))
        until(lambda: sum(it.behind for it in parked_messages(kafka, "fragile")) == 12)
        yield Terminal(kafka, tmp_path)


def by_body(letters: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {json.loads(letter["body"])["text"]: letter for letter in letters}


def test_the_operators_day(terminal: Terminal) -> None:
    code, told = terminal("dead-letters", "list")
    assert code == 1, "something waits for a person"
    letters = by_body(told["letters"])
    assert sorted(letters) == ["five", "four", "one", "three", "two"]
    assert {(it["number"], it["behind"], it["attempts"], it["what"]) for it in letters.values()} == {(1, 2, 1, "Entry")}
    with Follower(terminal.kafka, [f"{terminal.kafka.namespace}.fragile.retry.1h"]) as follower:
        assert [b"later" in (record.value() or b"") for record in follower.to_the_end(30)] == [True]
    (waits,) = terminal("retries", "list")[1]["retries"]
    assert (json.loads(waits["body"]), waits["held"]) == ({"text": "later"}, False)

    one, two, three, four, five = (letters[name]["letter"] for name in ("one", "two", "three", "four", "five"))
    code, shown = terminal("dead-letters", "show", one)
    assert (code, shown["conversation"]) == (0, letters["one"]["conversation"])
    assert "ValueError" in shown["failure"]
    assert shown["stack"].startswith("Traceback")
    assert "int(body.text)" in shown["stack"], "the line of the handler"

    why = ("--reason", "INC-4711")
    code, told = terminal("dead-letters", "skip", one, "--dry-run")
    assert (code, told["done"], told["behind"]) == (0, False, 2)
    assert len(terminal.letters()) == 5, "a dry run changes nothing"

    mended = terminal.out / "mended.json"
    mended.write_text('{"text": "100"}')
    wrong = terminal.out / "wrong.json"
    wrong.write_text('{"text": 100}')
    assert terminal("dead-letters", "skip", one, *why)[0] == 0
    code, told = terminal("dead-letters", "edit", two, "--body", str(wrong), *why)
    assert (code, told["kind"]) == (2, "UsageError")
    assert "text must be string" in told["error"]
    code, told = terminal("dead-letters", "edit", two, "--body", str(mended), *why)
    assert (code, told["outcome"]) == (0, "handled")
    assert terminal("dead-letters", "end", three, "--code", "42", "--description", "No.", *why)[0] == 0
    code, told = terminal("dead-letters", "retry", four, *why)
    assert (code, told["done"], told["outcome"]) == (1, True, "came back")
    until(lambda: by_body(terminal.letters()).get("four", {}).get("attempts") == 2)

    left = by_body(terminal.letters())
    assert sorted(left) == ["five", "four"], "skipped, mended, ended; one failed again, one was not touched"
    code, told = terminal("dead-letters", "retry", one, *why)
    assert code == 2
    assert "is not waiting" in told["error"]
    assert terminal("dead-letters", "show", "nobody.queue-0-0")[0] == 2
    assert terminal("dead-letters", "list", "nobody")[0] == 2
    assert five in {letter["letter"] for letter in left.values()}


@pytest.mark.slow
def test_a_decision_keeps_the_diagnosis(terminal: Terminal) -> None:
    one, two, three, *_ = sorted(it["letter"] for it in terminal.letters())
    why = ("--reason", "INC-4711")
    assert terminal("dead-letters", "skip", one, *why)[0] == 0
    shown = terminal.text("dead-letters", "show", one)
    assert "int(body.text)" in shown, "the stack of the failure, not of the skipping"
    assert re.search(r"decision +skipped by .+: INC-4711\n", shown)
    assert re.search(r"failure +.*ValueError", shown)
    assert terminal("dead-letters", "end", two, *why)[0] == 0
    code, told = terminal("events", "--event", "RESOLVED")
    assert (code, [(it["action"], it["reason"]) for it in told["events"]]) == (
        0,
        [("skip", "INC-4711"), ("end", "INC-4711")],
    )
    lines = terminal.text("events", "--dialog", told["events"][0]["conversation"]).splitlines()
    assert lines[0].split("\t") == ["AT", "EVENT", "SERVICE", "DIALOG", "SAYS"]
    assert {line.split("\t")[3] for line in lines[1:]} == {told["events"][0]["conversation"]}
    assert terminal("events", "--since", "2100-01-01") == (0, {"events": []})
    assert terminal("events", "--event", "RESOLVD")[0] == terminal("events", "--service", "nobody")[0] == 2
    following = terminal.start("events", "--follow", "--service", "fragile", "--event", "RESOLVED")
    assert following.stdout is not None
    seen = [json.loads(following.stdout.readline())["action"] for _ in range(2)]
    assert terminal("dead-letters", "skip", three, *why)[0] == 0
    assert [*seen, json.loads(following.stdout.readline())["number"]] == ["skip", "end", 1]
    following.send_signal(signal.SIGINT)
    assert following.communicate()[0] == ""
    assert following.returncode == 130
    code, told = terminal("dead-letters", "retry", two, *why)
    assert code == 2
    assert "dead-letters resubmit" in told["error"]
    (detached,) = (it for it in terminal("dead-letters", "list", "--detached")[1]["letters"] if it["letter"] == two)
    assert (detached["exception"], detached["decided_why"]) == ("builtins.ValueError", "INC-4711")
    text = terminal.text("dead-letters", "list", "--detached")
    assert "ValueError: " in text
    assert re.search(r"its dialog was ended by .+: INC-4711", text), "the records behind it have no failure"


@pytest.mark.slow
def test_what_an_operator_may_get_wrong(terminal: Terminal) -> None:
    letter, why = terminal.letters()[0]["letter"], ("--reason", "INC-4711")
    broken, wrong = terminal.out / "broken.json", terminal.out / "wrong.json"
    broken.write_text("{")
    wrong.write_text('{"text": 100}')
    for more in (("--dry-run",), why):
        code, told = terminal("dead-letters", "edit", letter, "--body", str(broken), *more)
        assert (code, told["kind"]) == (2, "UsageError")
        assert "is not JSON" in told["error"]
    errors = [terminal("dead-letters", "edit", letter, "--body", str(wrong), *more) for more in (("--dry-run",), why)]
    assert errors[0] == errors[1], "a dry run checks what the real run checks"
    assert (errors[0][0], "text must be string" in errors[0][1]["error"]) == (2, True)
    fits = terminal.out / "fits.json"
    fits.write_text('{"text": "100"}')
    assert terminal("dead-letters", "edit", letter, "--body", str(fits), "--dry-run")[1]["done"] is False
    (still,) = (it for it in terminal.letters() if it["letter"] == letter)
    assert (still["attempts"], still["returns"]) == (1, 0), "nothing is changed"
    variables = {"EDITOR": "false", "VISUAL": ""}
    where = ("--bootstrap", terminal.kafka.bootstrap, "--namespace", terminal.kafka.namespace)
    ended = conversations("dead-letters", "edit", letter, *why, *where, out=terminal.out, variables=variables)
    assert (ended.returncode, "--body FILE" in ended.stderr, "Traceback" in ended.stderr) == (2, True, False)
    other = Terminal(Kafka(terminal.kafka.bootstrap, namespace="elsewhere"), terminal.out)
    code, told = other("dead-letters", "list")
    assert (code, told["kind"]) == (2, "UnknownNamespace")
    assert "'elsewhere'" in told["error"]


@pytest.mark.slow
def test_what_an_operator_reads(terminal: Terminal) -> None:
    listed = terminal.text("dead-letters", "list", "fragile")
    assert listed.count("you decide") == 5
    assert "\x1b" not in terminal.text("retries", "list"), "a text from outside steers no terminal"
    letter = terminal.letters()[0]["letter"]
    shown = terminal.text("dead-letters", "show", letter)
    assert f"conversations dead-letters retry {letter}" in shown
    assert '{"text":' in shown
    assert "    Traceback (most recent call last):" in shown
    assert "--reason" in terminal.text("dead-letters", "retry", letter)


def completed(terminal: Terminal, line: str) -> list[str]:
    """Return what bash would offer after a line that is not complete."""
    words = line.split(" ")
    variables = {
        "_CONVERSATIONS_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1),
        "CONVERSATIONS_BOOTSTRAP": terminal.kafka.bootstrap,
    }  # fmt: skip
    done = conversations(out=terminal.out, variables=variables)
    assert done.stderr == ""
    return done.stdout.split()


def test_a_shell_completes_services_and_letters(terminal: Terminal) -> None:
    within = f"conversations --namespace {terminal.kafka.namespace} dead-letters"
    assert completed(terminal, f"{within} list fr") == ["fragile"]
    letters = sorted(it["letter"] for it in terminal.letters())
    assert completed(terminal, f"{within} skip fragile.q") == letters
    assert completed(terminal, f"{within} discard fragile.q") == []
    assert completed(terminal, "conversations --namespace elsewhere dead-letters list fr") == []


@pytest.mark.slow
def test_nobody_is_there_to_decide(kafka: Kafka, tmp_path: Path) -> None:
    """The command is kept: it takes effect when the service runs again."""
    apply(kafka, [asker.declaration(), fragile.declaration()], 2, 1)
    terminal = Terminal(kafka, tmp_path)
    assert terminal("dead-letters", "list") == (0, {"letters": []})
    with Client(asker, kafka) as client, client.begin_dialog("fragile", SUMS) as dialog:
        dialog.send(Entry(text="one"))
        dialog.send(Entry(text="0"))
    with Running(kafka, tmp_path, "fragile:fragile", "fragile:asker"):
        until(lambda: len(parked_messages(kafka, "fragile")) == 1)
    (letter,) = terminal.letters()
    code, told = terminal("dead-letters", "skip", letter["letter"], "--reason", "INC-1", "--wait", "1")
    assert code == 1
    assert "does the service run?" in told["error"]
    with Running(kafka, tmp_path, "fragile:fragile", "fragile:asker"):
        until(lambda: not parked_messages(kafka, "fragile"))
