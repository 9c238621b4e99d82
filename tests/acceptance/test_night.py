"""A night of an operator, command by command: 20 dialogs wait at credit, a queue is off, and nobody has slept enough."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from conversations import Client, Kafka
from conversations.kafka.admin import apply
from conversations_ops.operate.parked import parked_messages
from conversations_ops.operate.queues import queues
from tests.acceptance.services.loans import CREDIT, FRAUD, MENDED, Check, Look, credit, fraud, loans
from tests.acceptance.support.command_line import PROGRAM, SERVICES, Running, environment
from tests.support.waiting import SLOWER, until

pytestmark = [pytest.mark.acceptance, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600)]
KEYERRORS, BROKEN_DATA, BEHIND = 18, 2, 2


class Shell:
    """A terminal in which an operator types the commands as they are here."""

    def __init__(self, kafka: Kafka, out: Path) -> None:
        self.said = ""
        """What the last command has written to stderr."""
        self._environment = environment(
            out,
            {"CONVERSATIONS_BOOTSTRAP": kafka.bootstrap, "CONVERSATIONS_NAMESPACE": kafka.namespace, "COLUMNS": "250"},
        )

    def __call__(self, line: str, code: int = 0, **variables: str) -> str:
        done = subprocess.run(
            [PROGRAM, *line.split()], env={**self._environment, **variables}, cwd=SERVICES, capture_output=True, text=True, timeout=120 * SLOWER, check=False
        )  # fmt: skip
        self.said = done.stderr
        assert done.returncode == code, (line, done.returncode, done.stdout, done.stderr)
        return done.stdout

    def start(self, line: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [PROGRAM, *line.split()],
            env=self._environment,
            cwd=SERVICES,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )


@pytest.fixture
def shell(kafka: Kafka, tmp_path: Path) -> Iterator[Shell]:
    apply(kafka, [loans.declaration(), credit.declaration(), fraud.declaration()], 2, 1)
    with Client(loans, kafka) as client, Running(kafka, tmp_path, "loans:loans", "loans:credit", "loans:fraud"):
        for number in range(KEYERRORS + BROKEN_DATA):
            data = "{}" if number < KEYERRORS else "not json"
            with client.begin_dialog("credit", CREDIT, lifetime=timedelta(hours=1)) as dialog:
                for _ in range(1 + BEHIND):
                    dialog.send(Check(customer=f"C{number}", data=data))
        with client.begin_dialog("fraud", FRAUD, lifetime=timedelta(hours=1)) as dialog:
            dialog.send(Look(customer="C0"))
        until(
            lambda: (
                sum(it.held and it.behind == BEHIND for it in parked_messages(kafka, "credit"))
                == KEYERRORS + BROKEN_DATA
            )
        )
        until(lambda: any(it.off for it in queues(kafka, "fraud")))
        yield Shell(kafka, tmp_path)


def test_the_night(kafka: Kafka, shell: Shell, tmp_path: Path) -> None:
    status_says_what_waits(shell)
    letter = why_and_groups(kafka, shell)
    one_message_is_edited(kafka, shell, tmp_path)
    the_rest_is_redriven(kafka, shell, tmp_path)
    shell("queue on fraud --reason INC-4711")
    until(lambda: not parked_messages(kafka))
    until(lambda: "nobody" not in shell("journal --since 1h"))
    told = shell("journal --since 1h")
    for wanted in ("RESOLVED edit", "REDRIVE_STARTED", "REDRIVE_STOP", "QUEUE_ENABLED", "INC-4711"):
        assert wanted in told, told
    journal_tells_who_and_where(told)
    told = shell("dead-letters list --detached", 1)
    assert "parked-at-end" in told
    shell("dead-letters discard --service credit --with-reason parked-at-end --reason INC-4711")
    assert letter not in shell("status")
    assert "OFF" not in shell("status")


def journal_tells_who_and_where(told: str) -> None:
    """A policy is no message type, each partition has a row of its own, and the reason of a stop is not lost."""
    rows = [line.split("\t")[1:] for line in told.splitlines()[1:]]
    (off,) = (row for row in rows if row[1] == "QUEUE_DISABLED")
    assert off[0] == "policy"
    assert re.fullmatch(r"partition [01], Look", off[3]), off
    assert sorted(row[3] for row in rows if row[1] == "QUEUE_ENABLED") == ["partition 0", "partition 1"]
    assert [row[-1] for row in rows if row[1] == "REDRIVE_ENDED stopped"] == ["wait"]


def status_says_what_waits(shell: Shell) -> None:
    told = {line.split()[0]: line for line in shell("status", 1).splitlines()}
    assert re.search(
        rf"credit\s+on\s+{KEYERRORS + BROKEN_DATA}\s.*\s{KEYERRORS} dialogs held: Check failed since \d\d:\d\d: KeyError",
        told["credit"],
    ), told
    assert re.search(r"fraud\s+OFF.*queue off .*since \d\d:\d\d \(policy", told["fraud"]), told
    assert told["loans"].split()[1] == "on"
    assert "next: conversations dead-letters list credit --by exception" in shell("status", 1)


def why_and_groups(kafka: Kafka, shell: Shell) -> str:
    waiting = next(it for it in parked_messages(kafka, "credit") if it.exception == "KeyError")
    told = shell(f"why {waiting.conversation}", 1)
    assert "loans -> credit   CONVERSING at loans, PARKED at credit" in told
    assert re.search(
        r"credit: Check #0 failed 4 times since .*: KeyError: 'score'; 2 records behind it; it waits for your decision",
        told,
    ), told
    assert f"next: conversations dead-letters retry {waiting.letter} --reason WHY" in told
    groups = shell("dead-letters list --by exception", 1)
    assert re.search(rf"KeyError\s+{KEYERRORS}\s+{KEYERRORS * BEHIND}\s.*'score'", groups), groups
    assert re.search(rf"JSONDecodeError\s+{BROKEN_DATA}\s+{BROKEN_DATA * BEHIND}\s", groups), groups
    shown = shell(f"dead-letters show {waiting.letter}")
    for wanted in (
        '"customer":"C',
        "Traceback",
        "loans.py",
        "in check",
        "KeyError: 'score'",
        "the dialog's lifetime ends in",
    ):
        assert wanted in shown, shown
    return waiting.letter


def one_message_is_edited(kafka: Kafka, shell: Shell, out: Path) -> None:
    """The editor gets the body; the new body is checked; what waited behind it fails now, as it has the same fault."""
    editor = out / "editor"
    editor.write_text('#!/bin/sh\nprintf \'{"customer": "C18", "data": "{\\\\"known\\\\": 1}"}\' > "$1"\n')
    editor.chmod(0o755)
    broken = [it for it in parked_messages(kafka, "credit") if it.exception == "JSONDecodeError"]
    told = shell(f"dead-letters edit {broken[0].letter} --reason INC-4711", EDITOR=str(editor))
    assert re.search(
        r"^gave Check #0 of .* back to its handler with a body of \d+ bytes: it was handled; 2 records waited behind it, and",
        told,
    )
    assert "conversations dead-letters show" in told or "none of them has failed so far" in told
    assert '+{"customer": "C18", "data": "{\\"known\\": 1}"}' in shell.said
    until(
        lambda: (
            [it.number for it in parked_messages(kafka, "credit") if it.conversation == broken[0].conversation] == [1]
        )
    )
    for _ in range(BEHIND):
        letter = next(it.letter for it in parked_messages(kafka, "credit") if it.conversation == broken[0].conversation)
        shell(f"dead-letters skip {letter} --reason INC-4711")
        until(lambda letter=letter: letter not in {it.letter for it in parked_messages(kafka, "credit")})  # type: ignore[misc]  # mypy takes the default for an argument
    for it in broken[1:]:
        shell(f"dead-letters end {it.letter} --code 1404 --description unreadable --reason INC-4711")


def the_rest_is_redriven(kafka: Kafka, shell: Shell, out: Path) -> None:
    plan = out / "rd.json"
    told = shell(f"redrive plan --service credit --exception KeyError --canary 3 --rate 0.7 --max-returns 2 -o {plan}")
    assert re.search(
        rf"rd-\w+: {KEYERRORS} letters as of .*later letters are not included.*canary: the 3 oldest; behind all letters: {KEYERRORS * BEHIND} records",
        told,
    )
    assert "nothing is changed yet" in told
    name = told.split(":")[0]
    (out / MENDED).touch()
    running = shell.start(f"redrive start {plan} --reason INC-4711")
    until(lambda: len([it for it in parked_messages(kafka, "credit") if it.exception == "KeyError"]) <= KEYERRORS - 4)
    shell(f"redrive stop {name} --reason wait")
    running.communicate(timeout=60 * SLOWER)
    assert running.returncode == 1
    assert "handled" in shell(f"redrive watch {name}")
    left = [it for it in parked_messages(kafka, "credit") if it.exception == "KeyError"]
    assert 0 < len(left) < KEYERRORS
    told = shell(f"redrive resume {plan} --reason INC-4711")
    assert f"{KEYERRORS} handled" in told
    until(lambda: not parked_messages(kafka, "credit"))
