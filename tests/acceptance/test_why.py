"""`conversations why`, with the real command line on a real Kafka: each cause is provoked, named, and mended by the command that it names."""

import json
import os
import signal
from contextlib import chdir
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner, Result

from conversations import Client, Kafka
from conversations.kafka.admin import apply
from conversations.protocol.topics import QUEUE, service_topic
from conversations_ops.cli.app import app
from conversations_ops.operate.parked import parked_messages
from conversations_ops.operate.queues import queues
from tests.acceptance.services.fragile import SUMS, Entry, asker, fragile
from tests.acceptance.services.stalling import DEVICES, WORDS, Word, caller, sleepy
from tests.acceptance.support.command_line import Running
from tests.acceptance.support.operator import Terminal
from tests.support.waiting import until

pytestmark = [pytest.mark.acceptance, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600)]
WHY = ("--reason", "INC-4711")


class Night(Terminal):
    """An operator who asks why, in this process, because many commands follow."""

    def __call__(self, *arguments: str) -> tuple[int, dict[str, Any]]:
        done = self._run(*arguments, "--json")
        return done.exit_code, json.loads(done.stdout)

    def text(self, *arguments: str) -> str:
        return self._run(*arguments).output

    def _run(self, *arguments: str) -> Result:
        where = ["--bootstrap", self.kafka.bootstrap, "--namespace", self.kafka.namespace]
        return CliRunner().invoke(app, [*arguments, *where])

    def why(self, conversation: str) -> tuple[int, dict[str, dict[str, Any]], str]:
        code, told = self("why", conversation)
        return code, {it["cause"]: it for it in told.get("causes", [])}, told.get("next") or ""

    def await_cause(self, about: str, cause: str) -> dict[str, Any]:
        """Wait until a cause is named, and return it."""
        return until(lambda: self.why(about)[1].get(cause, {}), cause)

    def await_none(self, about: str) -> None:
        """Wait until nothing stalls."""
        until(lambda: self.why(about)[:2] == (0, {}), "nothing stalls")

    def obey(self, command: str) -> int:
        """Run a command as it is printed."""
        program, *arguments = command.split()
        assert program == "conversations"
        return self(*arguments)[0]


def begin(client: Client, *entries: str, to: str = "fragile", lifetime: timedelta = timedelta(hours=5)) -> str:
    with client.begin_dialog(to, SUMS, lifetime=lifetime) as dialog:
        for entry in entries:
            dialog.send(Entry(text=entry))
    return dialog.id


def test_each_cause_is_named_and_its_command_mends_it(kafka: Kafka, tmp_path: Path) -> None:
    apply(kafka, [asker.declaration(), fragile.declaration()], 1, 1)
    night = Night(kafka, tmp_path)
    with Client(asker, kafka) as client, Running(kafka, tmp_path, "fragile:asker"):
        waits = begin(client, "1")
        until(lambda: night("dialogs", "show", waits)[0] == 0)
        code, found, command = night.why(waits)
        assert (code, "no worker of fragile has any partition" in found["no-owner"]["says"]) == (1, True)
        assert found["unacknowledged"]["service"] == "asker"
        assert command == ""
        with Running(kafka, tmp_path, "fragile:fragile") as run:
            night.await_none(waits)
            held(night, client, tmp_path)
            tried_again(night, client)
            hidden(night, client)
            stands(night, client, run)
            off(night, client)
            ends_soon(night, client)
            over(night, client)
    assert night("why", "0199c1f2-0000-7000-8000-000000000001")[0] == night("why", "nonsense")[0] == 2


def held(night: Night, client: Client, out: Path) -> None:
    one = begin(client, "1", "one", "10")
    until(lambda: [it.behind for it in parked_messages(night.kafka, "fragile") if it.conversation == one] == [1])
    code, found, command = night.why("fragile")
    assert (code, list(found)) == (1, ["held"])
    assert "1 Entry failed with ValueError" in found["held"]["says"]
    with chdir(out):
        assert (night.obey(command), len(list(out.glob("rd-*.json")))) == (0, 1), "the plan of a redrive is written"
    code, found, command = night.why(one)
    assert (code, next(iter(found))) == (1, "held")
    assert "Entry #1 failed 1 time since" in found["held"]["says"]
    assert "ValueError" in found["held"]["says"]
    assert "1 record behind it" in found["held"]["says"]
    text = night.text("why", one)
    assert "asker -> fragile   CONVERSING at asker, PARKED at fragile" in text
    assert f"next: {command}" in text
    (out / "mended").touch()
    assert night.obey(command) == 0
    night.await_none(one)


def tried_again(night: Night, client: Client) -> None:
    later = begin(client, "later", "2")
    until(lambda: [it.behind for it in parked_messages(night.kafka, "fragile") if it.conversation == later] == [1])
    code, found, _ = night.why(later)
    assert (code, "it is tried again in" in found["retry-waits"]["says"]) == (0, True), "it goes on by itself"


def hidden(night: Night, client: Client) -> None:
    """A program that stands still in a transaction on the queue hides the newest records, until Kafka or its successor ends the transaction."""
    stranger = {"bootstrap.servers": night.kafka.bootstrap, "transactional.id": "stranger"}
    producer = Producer(stranger)
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(service_topic(night.kafka.namespace, "fragile", QUEUE), b"x", "x", 0)
    producer.flush(30)
    waits = begin(client, "1")
    assert "a program began a transaction" in night.await_cause(waits, "open-transaction")["says"]
    assert "open-transaction" in night.why("fragile")[1]
    Producer(stranger).init_transactions(30)
    night.await_none(waits)


def stands(night: Night, client: Client, run: Running) -> None:
    """A worker that does not run any more, but is still a member of its group."""
    (pid,) = [worker["pid"] for service in run.health()[1]["services"] for worker in service["workers"]]
    os.kill(pid, signal.SIGSTOP)
    try:
        waits = begin(client, "1")
        assert "1 record of 1 partition is not read yet" in night.await_cause(waits, "unread")["says"]
        assert night.await_cause("fragile", "unread")
    finally:
        os.kill(pid, signal.SIGCONT)
    night.await_none(waits)


def off(night: Night, client: Client) -> None:
    assert night("queue", "off", "fragile", *WHY)[0] == 0
    waits = begin(client, "1")
    until(lambda: any(it.messages for it in queues(night.kafka, "fragile")))
    code, found, command = night.why(waits)
    assert (code, "INC-4711" in found["queue-off"]["says"]) == (1, True)
    assert "brake" not in found
    assert night.obey(command) == 0
    night.await_none(waits)


def ends_soon(night: Night, client: Client) -> None:
    soon = begin(client, "nonsense", lifetime=timedelta(minutes=9))
    until(lambda: [it for it in parked_messages(night.kafka, "fragile") if it.conversation == soon])
    code, found, command = night.why(soon)
    assert (code, "held" in found) == (1, True)
    assert "the lifetime ends in 8m" in found["lifetime-near"]["says"]
    assert "then 1 parked message becomes a dead letter" in found["lifetime-near"]["says"]
    assert command.startswith("conversations dead-letters retry ")


def over(night: Night, client: Client) -> None:
    gone = begin(client, "nonsense")
    until(lambda: [it for it in parked_messages(night.kafka, "fragile") if it.conversation == gone])
    assert night("dialogs", "end", gone, "--service", "fragile", *WHY)[0] == 0
    until(lambda: list(night.why(gone)[1]) == ["letters"])
    code, _, command = night.why(gone)
    assert code == 1
    code, shown = night(*command.split()[1:])
    assert (code, shown["conversation"]) == (0, gone)
    assert night("dead-letters", "discard", shown["letter"], *WHY)[0] == 0
    assert night.why(gone)[:2] == (0, {})


def test_a_cause_that_passes_by_itself_is_named_until_it_has_passed(kafka: Kafka, tmp_path: Path) -> None:
    apply(kafka, [caller.declaration(), sleepy.declaration()], 1, 1)
    night = Night(kafka, tmp_path)
    (tmp_path / "settings").write_text("brake.dialogs = 3\nbrake.probe = 9s\n")
    settings = ("--settings", str(tmp_path / "settings"))
    with Client(caller, kafka) as client, Running(kafka, tmp_path, "stalling:caller", "stalling:sleepy", *settings):
        slow, refused = words(client, "slow", "more"), words(client, "no")
        nowhere = words(client, "lost", to="sleepi")
        expired = words(client, "late", to="sleepi", lifetime=timedelta(seconds=2))
        for _ in range(2):
            with client.pooled(DEVICES, "d-1") as block:
                block.send(Word(text="slow"))
        odd = [words(client, "odd") for _ in range(5)]
        stalls = {slow: "slow-handler", refused: "broken", nowhere: "unknown-destination"}
        for dialog, cause in stalls.items():
            night.await_cause(dialog, cause)
        assert "is it 'sleepy'?" in night.await_cause(nowhere, "unknown-destination")["says"]
        assert "broken with -8489" in night.await_cause(expired, "broken")["says"]
        waits = until(lambda: next((it for it in begun(night) if "pool" in night.why(it)[1]), ""), "the pool")
        _, found, command = night.why(waits)
        assert found["pool"]["says"].startswith("it begins when dialog ")
        assert command == "" or night(*command.split()[1:])[0] in (0, 1)
        until(lambda: any("brake" in night.why(it)[1] for it in odd), "the brake")
        (tmp_path / "go").touch()
        for it in (slow, refused, expired, waits):
            night.await_none(it)


def words(client: Client, *texts: str, to: str = "sleepy", lifetime: timedelta = timedelta(hours=5)) -> str:
    with client.begin_dialog(to, WORDS, wait_for_service=True, lifetime=lifetime) as dialog:
        for text in texts:
            dialog.send(Word(text=text))
    return dialog.id


def begun(night: Night) -> list[str]:
    """Return the dialogs that caller knows."""
    return [it["conversation"] for it in night("dialogs", "list", "--service", "caller")[1]["dialogs"]]
