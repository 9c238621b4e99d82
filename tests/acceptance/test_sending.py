"""`conversations send`, `request` and `timers`, with the real command line on a real Kafka."""

import json
import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from conversations import Client, Kafka
from conversations.kafka.admin import apply
from conversations_ops.cli.app import app
from tests.acceptance.services.answering import answers, asks
from tests.acceptance.support.command_line import Running
from tests.acceptance.support.operator import Terminal
from tests.support.waiting import until

pytestmark = [pytest.mark.acceptance, pytest.mark.kafka, pytest.mark.timeout(240)]
FROM = ("--from", "asks", "--contract", "Asks")
CODE = ("--from", "tests.acceptance.services.answering:asks", "--contract", "Asks")


class Desk:
    """The terminal of an operator in this process, because many commands follow."""

    def __init__(self, kafka: Kafka, out: Path) -> None:
        self.kafka, self.out = kafka, out
        self._where = ["--bootstrap", kafka.bootstrap, "--namespace", kafka.namespace]

    def __call__(self, *arguments: str, given: str = "") -> tuple[int, dict[str, Any]]:
        done = CliRunner().invoke(app, [*arguments, "--json", *self._where], input=given)
        return done.exit_code, json.loads(done.stdout)

    def text(self, *arguments: str) -> str:
        return CliRunner().invoke(app, [*arguments, *self._where]).output

    def side(self, dialog: str, side: str) -> dict[str, Any]:
        _, told = self("dialogs", "show", dialog)
        return next((it for it in told.get("sides", []) if it["side"] == side), {"state": "", "accepted": 0})

    def is_ended(self, dialog: str) -> bool:
        return self.side(dialog, "initiator")["state"] in ("disconnected outbound", "closed")

    def count(self) -> int:
        return int(self("dialogs", "list", "--all")[1]["total"])


@pytest.fixture
def desk(kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.setenv("CONVERSATIONS_CACHE", str(tmp_path / "cache"))
    apply(kafka, [asks.declaration(), answers.declaration()], 2, 1)
    with Running(kafka, tmp_path, "answering:answers", "answering:asks").ready():
        yield Desk(kafka, tmp_path)


def test_a_terminal_speaks_for_a_service(desk: Desk) -> None:
    """One test, because the services start only once for it."""
    what_does_not_fit_is_not_sent(desk)
    a_request_gets_its_reply(desk)
    a_request_without_a_reply(desk)
    a_message_is_sent(desk)
    timers_are_listed(desk)
    an_interrupt_tells_that_the_dialog_goes_on(desk)


def what_does_not_fit_is_not_sent(desk: Desk) -> None:
    say = ("send", "answers", "Question")
    for how, body, why in (
        (FROM, '{"text": 5}', "text must be string, not number"),
        (FROM, '{"text": "a", "pages": 0}', "pages must be >= 1"),
        (FROM, "{}", "text is missing"),
        (FROM, "{", "Invalid JSON"),
        (CODE, '{"text": 5}', "text: Input should be a valid string"),
        (("--from", "asks", "--contract", "Nonsense"), "{}", "it initiates Asks, Counts"),
        (("--from", "nobody", "--contract", "Asks"), "{}", "there is no service 'nobody'"),
        ((*FROM, "--id", "nonsense"), '{"text": "a"}', "not a conversation id"),
        ((*FROM, "--to-group", "g"), '{"text": "a"}', "lets no service name the group"),
    ):
        for command in ("send", "request"):
            code, told = desk(command, *say[1:], *how, "--body", body)
            assert (code, why in told["error"]) == (2, True), told
    counts = ("send", "answers", "Count", "--from", "asks", "--contract", "Counts")
    code, told = desk(*counts, "--body", '{"n": "many"}')
    assert (code, "an integer is required on field n" in told["error"]) == (2, True), told
    assert desk("send", "nobody", "Question", *FROM, "--body", '{"text": "a"}')[0] == 2
    code, told = desk("send", "answers", "Answer", *FROM, "--body", '{"text": "a"}')
    assert (code, "SENT BY TARGET" in told["error"]) == (2, True), told
    code, told = desk(*say, *FROM, "--body", '{"text": "a"}', "--dry-run")
    assert (code, told["done"], told["accepted"], told["bytes"]) == (0, False, False, 12)
    code, told = desk("request", *say[1:], *FROM, "--body", '{"text": "a"}', "--dry-run")
    assert (code, told["done"], told["accepted"]) == (0, False, False)
    assert desk.count() == 0, "nothing was sent"


def a_request_gets_its_reply(desk: Desk) -> None:
    for how in (FROM, CODE):
        code, told = desk("request", "answers", "Question", *how, "--body", '{"text": "why"}', "--wait", "60")
        assert (code, told["reply"], told["ended"]) == (0, {"type": "Answer", "body": {"text": "WHY"}}, True), told
        until(partial(desk.is_ended, told["dialog"]))
    counts = ("request", "answers", "Count", "--from", "asks", "--contract", "Counts")
    code, told = desk(*counts, "-", "--wait", "60", given='{"n": 41}')
    assert (code, told["reply"]) == (0, {"type": "Counted", "body": {"n": 42}}), told
    text = desk.text(*counts, "--body", '{"n": 1}', "--wait", "60")
    assert "Kafka has accepted Count with 1 byte from asks to answers" in text
    assert text.endswith("Counted\n{'n': 2}\n")


def a_request_without_a_reply(desk: Desk) -> None:
    ask = ("request", "answers", "Question", *FROM, "--wait", "60", "--body")
    code, told = desk(*ask, '{"text": "error"}')
    assert (code, told["code"], told["reply"], "Gone." in told["error"]) == (1, 410, None, True), told
    assert "\x1b" not in desk.text(*ask, '{"text": "error"}')
    code, told = desk(*ask, '{"text": "bye"}')
    assert (code, told["kind"], "ended the dialog without a reply" in told["error"]) == (1, "NoReply", True), told
    code, told = desk("request", "answers", "Question", *FROM, "--body", '{"text": "never"}', "--wait", "1")
    assert (code, told["kind"], told["accepted"]) == (1, "RequestTimeout", True), told
    assert f"conversations dialogs show {told['dialog']}" in told["error"]
    until(lambda: desk.side(told["dialog"], "target")["accepted"] == 1, "what Kafka accepted is carried out")


def a_message_is_sent(desk: Desk) -> None:
    new = Client.new_id()
    for _ in range(2):
        code, told = desk(
            "send", "answers", "Question", *FROM, "--body", '{"text": "a"}', "--id", new, "--lifetime", "3h"
        )
        assert (code, told["dialog"], told["begins"], told["accepted"]) == (0, new, True, True), told
    until(lambda: desk.side(new, "initiator")["accepted"] == 1)
    assert desk.side(new, "target")["accepted"] == 1, "the second begin with the same id had no effect"
    on = ("send", "answers", "Question", "--from", "asks", "--dialog", new)
    assert desk(*on, "--body", '{"text": "b"}', "--dry-run")[1]["done"] is False
    assert desk(*on, "--body", '{"text": 5}')[0] == desk(*on, "--body", '{"text": "b"}', "--lifetime", "1h")[0] == 2
    code, told = desk("send", "asks", "Question", "--from", "asks", "--dialog", new, "--body", '{"text": "b"}')
    assert (code, "has no side of asks with asks" in told["error"]) == (2, True), told
    for _ in range(2):
        code, told = desk(*on, "--body", '{"text": "b"}', "--key", "INC-1")
        assert (code, told["begins"], told["key"]) == (0, False, "INC-1"), told
    by_code = ("--from", "tests.acceptance.services.answering:answers", "--dialog", new)
    code, told = desk("send", "asks", "Answer", *by_code, "--body", '{"text": "more"}')
    assert (code, told["service"], told["dialog"]) == (0, "answers", new), told
    until(lambda: desk.side(new, "initiator")["accepted"] == 3)
    assert desk(*on, "--body", '{"text": "c"}', "--end")[0] == 0
    until(partial(desk.is_ended, new))
    until(
        lambda: desk.side(new, "target")["accepted"] == 4,
        "the first question, the one with the key, the third, and the END",
    )
    code, told = desk(*on, "--body", '{"text": "d"}')
    assert (code, told["kind"]) == (2, "NotPossible"), told


def timers_are_listed(desk: Desk) -> None:
    assert desk("timers")[:1] == (0,)
    _, begun = desk("send", "answers", "Question", *FROM, "--body", '{"text": "remind"}')
    until(lambda: desk("timers")[1]["total"] == 1)
    for about in ((), ("answers",), ("--service", "answers"), (begun["dialog"],), ("--conversation", begun["dialog"])):
        code, told = desk("timers", *about)
        ((timer),) = told["timers"]
        assert (code, timer["name"], timer["conversation"], timer["service"], timer["side"]) == (
            0, "reminder", begun["dialog"], "answers", "target",
        )  # fmt: skip
        assert (timer["contract"], timer["peer"], timer["late_seconds"], timer["overdue"]) == ("Asks", "asks", 0, False)
    assert desk("timers", "asks") == (0, {"timers": [], "total": 0, "overdue": 0})
    assert desk("timers", begun["dialog"], "--service", "asks")[1]["total"] == 0
    assert "reminder" in desk.text("timers", "answers")
    assert desk("timers", "nobody")[0] == desk("timers", Client.new_id())[0] == 2
    assert desk("timers", begun["dialog"], "--conversation", begun["dialog"])[0] == 2
    assert desk("timers", "answers", "--service", "answers")[0] == desk("timers", "--late", "soon")[0] == 2


def an_interrupt_tells_that_the_dialog_goes_on(desk: Desk) -> None:
    before = desk.count()
    terminal = Terminal(desk.kafka, desk.out)
    ask = ("request", "answers", "Question", *FROM, "--body", '{"text": "never"}', "--wait", "200")
    process = terminal.start(*ask)
    until(lambda: desk.count() > before)
    os.kill(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, "Traceback" in out) == (130, False), out
