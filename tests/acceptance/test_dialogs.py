"""What operators do about whole dialogs, with the command line on a real Kafka."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from conversations import Client, Kafka
from conversations.kafka.admin import apply
from conversations_ops.cli.app import app
from conversations_ops.operate.parked import parked_messages
from tests.acceptance.services.fragile import SUMS, Entry, asker, fragile
from tests.acceptance.support.command_line import Running
from tests.acceptance.support.operator import Terminal
from tests.support.waiting import until

pytestmark = [pytest.mark.acceptance, pytest.mark.kafka, pytest.mark.timeout(240)]
WHY = ("--reason", "INC-4711")


class Desk(Terminal):
    """The terminal of an operator in this process, because many commands follow; and the ids of two dialogs whose second entry is held."""

    ids: list[str]

    def __call__(self, *arguments: str) -> tuple[int, dict[str, Any]]:
        done = self._run(*arguments, "--json")
        return done.exit_code, json.loads(done.stdout)

    def text(self, *arguments: str) -> str:
        return self._run(*arguments).output

    def _run(self, *arguments: str) -> Result:
        where = ["--bootstrap", self.kafka.bootstrap, "--namespace", self.kafka.namespace]
        return CliRunner().invoke(app, [*arguments, *where])

    def sides(self, conversation: str) -> dict[str, Any]:
        code, told = self("dialogs", "show", conversation)
        assert code == 0, told
        return {it["side"]: it for it in told["sides"]}

    def listed(self, *arguments: str) -> list[str]:
        return [it["conversation"] for it in self("dialogs", "list", *arguments)[1]["dialogs"]]


@pytest.fixture
def desk(kafka: Kafka, tmp_path: Path) -> Iterator[Desk]:
    apply(kafka, [asker.declaration(), fragile.declaration()], 2, 1)
    desk = Desk(kafka, tmp_path)
    desk.ids = []
    with Running(kafka, tmp_path, "fragile:fragile", "fragile:asker"), Client(asker, kafka) as client:
        for text in ("one", "two"):
            with client.begin_dialog("fragile", SUMS, lifetime=timedelta(hours=5)) as dialog:
                for entry in ("1", text, "10"):
                    dialog.send(Entry(text=entry))
            desk.ids.append(dialog.id)
        until(lambda: sum(it.behind for it in parked_messages(kafka, "fragile")) == 2)
        yield desk


def test_the_operators_dialogs(desk: Desk) -> None:
    """One test, because the services start only once for it."""
    one, two = desk.ids
    lists(desk, one, two)
    shows(desk, one)
    sends(desk, one)
    ended = ends(desk, one)
    cleans_up(desk, two)
    keeps_all(desk, one, two, ended)


def lists(desk: Desk, one: str, two: str) -> None:
    assert desk.listed("fragile", "--with-pending", "--peer", "asker") == [one, two]
    assert desk.listed("--service", "fragile", "--contract", "Nonsense") == desk.listed("--older-than", "1h") == []
    assert desk.listed("--state", "error") == []
    code, told = desk("dialogs", "list", "--limit", "1")
    assert (code, len(told["dialogs"]), told["total"]) == (0, 1, 4)
    assert desk("dialogs", "list", "nobody")[0] == desk("dialogs", "list", "--state", "odd")[0] == 2


def shows(desk: Desk, one: str) -> None:
    """A dialog is shown with the end of its lifetime, wherever its held message is shown."""
    sides = desk.sides(one)
    target = sides["target"]
    assert (target["service"], target["peer"], target["state"], target["contract"]) == (
        "fragile",
        "asker",
        "conversing",
        "Sums",
    )
    assert (target["accepted"], target["handled"], target["sent"]) == (3, 1, 1)
    assert (target["parked"]["records"], target["parked"]["first"]) == (2, ["Entry", "Entry"])
    (head,) = target["waits_for"]
    assert (head["number"], head["held"], head["behind"], head["failure"][:10]) == (1, True, 1, "ValueError")
    assert (sides["initiator"]["sent"], sides["initiator"]["waits_for"]) == (3, [])
    soon = datetime.fromisoformat(target["deadline"])
    assert timedelta(hours=4) < soon - datetime.now(UTC) < timedelta(hours=6)
    (letter, *_) = (it for it in desk.letters() if it["conversation"] == one)
    assert letter["deadline"] == head["deadline"] == target["deadline"]
    assert desk("dead-letters", "show", letter["letter"])[1]["deadline"] == target["deadline"]
    text = desk.text("dead-letters", "show", letter["letter"])
    assert re.search(
        r"deadline +the dialog's lifetime ends in 4h\d+m \(.*\): then this message becomes a dead letter .* -8489", text
    )
    assert re.search(
        r"lifetime +ends in 4h\d+m .* 2 parked messages become dead letters", desk.text("dialogs", "show", one)
    )


def sends(desk: Desk, one: str) -> None:
    """A terminal speaks on the side of its service; a repetition with the same key sends nothing."""
    say = ("dialogs", "send", one, "Sum")
    as_target, five = ("--service", "tests.acceptance.services.fragile:fragile"), '{"total": 5}'
    assert desk(*say, five)[0] == 2, "the service is missing"
    code, told = desk(*say, five, *as_target, "--dry-run")
    assert (code, told["done"], told["side"], told["bytes"]) == (0, False, "target", 11)
    before = desk.sides(one)["target"]["sent"]
    for _ in range(2):
        code, told = desk(*say, five, *as_target, "--key", "INC-4711")
        assert (code, told["done"]) == (0, True), told
    assert desk.sides(one)["target"]["sent"] == before + 1
    for wrong, why in (("five", "Invalid JSON"), ('{"total": "five"}', "total: Input should be a valid integer")):
        code, told = desk(*say, wrong, *as_target)
        assert (code, why in told["error"]) == (2, True), told
    code, told = desk("dialogs", "send", one, "Entry", "{}", *as_target)
    assert (code, "SENT BY INITIATOR" in told["error"]) == (2, True), told
    nobody = "0199c1f2-0000-7000-8000-000000000001"
    assert desk("dialogs", "send", nobody, "Sum", five, *as_target)[0] == 2
    assert f"sent Sum with 11 bytes on {one} as the target, fragile" in desk.text(*say, five, *as_target)


def ends(desk: Desk, one: str) -> str:
    """An operator ends one side with an error. Return the id of the command."""
    code, told = desk("dialogs", "end", one, *WHY)
    assert (code, "both sides are open" in told["error"]) == (2, True)
    code, told = desk("dialogs", "resend", one, *WHY)
    assert (code, "not broken" in told["error"]) == (2, True)
    as_error = ("--service", "fragile", "--error", "410", "--description", "Withdrawn.")
    code, told = desk("dialogs", "end", one, *as_error, "--dry-run")
    assert (code, told["done"], told["dead_letters"]) == (0, False, 2)
    assert len(desk.letters()) == 2, "a dry run changes nothing"
    assert desk("dialogs", "end", one, *as_error)[0] == 2, "a reason is missing"
    assert desk("dialogs", "end", one, "--service", "fragile", "--error", "410", *WHY)[0] == 2, (
        "a description is missing"
    )
    assert re.search(
        "^would end the target's side .* 2 messages of asker become open letters: discard them, or send them again",
        desk.text("dialogs", "end", one, *as_error, "--dry-run"),
    )
    code, told = desk("dialogs", "end", one, *as_error, *WHY)
    assert (code, told["done"]) == (0, True)
    command = str(told["command"])
    again, discard = told["next"]
    assert desk(*again.split()[1:], "--dry-run")[1]["letters"] == desk(*discard.split()[1:], "--dry-run")[1]["letters"]
    assert len(desk(*discard.split()[1:], "--dry-run")[1]["letters"]) == told["dead_letters"] == 2
    until(lambda: desk.sides(one)["target"]["state"] == "closed")
    sides = desk.sides(one)
    assert len(sides["target"]["open_letters"]) == 2
    until(lambda: one not in desk.listed("asker", "--state", "conversing"))
    assert one not in desk.listed("fragile")
    assert one in desk.listed("fragile", "--all")
    assert desk("dialogs", "end", one, "--service", "fragile", *WHY)[0] == 2, "it has ended"
    late = desk("dialogs", "send", one, "Sum", "{}", "--service", "tests.acceptance.services.fragile:fragile")
    assert (late[0], late[1]["kind"]) == (2, "NotPossible")
    return command


def cleans_up(desk: Desk, two: str) -> None:
    assert desk("dialogs", "cleanup", two, "--service", "fragile", *WHY)[0] == 2, "--yes is missing"
    assert "cannot be undone" in desk.text("dialogs", "cleanup", two, "--service", "fragile", *WHY)
    text = desk.text("dialogs", "cleanup", two, "--service", "fragile", *WHY, "--yes")
    assert re.search("^closed the target's side of .*; 2 messages of asker became open letters", text, re.MULTILINE)
    assert re.search(
        "^next: conversations dead-letters resubmit fragile.queue-.* --reason WHY --boot", text, re.MULTILINE
    )
    assert re.search(
        f"^or:   conversations dead-letters discard --service fragile --conversation {two} ", text, re.MULTILINE
    )
    sides = desk.sides(two)
    assert (sides["target"]["state"], sides["target"]["closed"]["told"]) == ("closed", False)
    assert sides["initiator"]["state"] == "conversing", "it was told nothing"
    assert desk.letters() == []


def keeps_all(desk: Desk, one: str, two: str, ended: str) -> None:
    """Every message that waited is in a letter, which names the command; the events name the operator and the reason."""
    found = desk("dead-letters", "list", "fragile", "--detached")[1]["letters"]
    assert {it["reason"] for it in found} == {"parked-at-end"}
    bodies = {(it["conversation"], json.loads(it["body"])["text"]) for it in found}
    assert bodies == {(one, "one"), (one, "10"), (two, "two"), (two, "10")}
    assert {it["decided_why"] for it in found if it["conversation"] == one} == {f"command {ended}"}

    events = desk("events", "--event", "DIALOG_ENDING")[1]["events"]
    assert [(it["conversation"], it["action"], it["code"], it["reason"]) for it in events] == [
        (one, "end with error", 410, "INC-4711"), (two, "cleanup", 0, "INC-4711"),
    ]  # fmt: skip
    assert ended in {it["command"] for it in desk("events", "--event", "COMMAND_DONE")[1]["events"]}
    unknown = "0199c1f2-0000-7000-8000-000000000001"
    assert desk("dialogs", "show", unknown)[0] == desk("dialogs", "show", "nonsense")[0] == 2
    assert desk("dialogs", "cleanup", unknown, "--yes", *WHY)[0] == 2
