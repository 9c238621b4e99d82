"""`conversations why`, with the real command line on a real Kafka: each cause is provoked, named, and mended by the command that is printed.

The causes that no command mends are named until they have passed. docs/why.md says which of them need a person.
"""

import json
import os
import re
import shlex
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from time import time_ns
from typing import Any

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner, Result

from conversations import Client, Kafka
from conversations.kafka.admin import add_route, apply
from conversations.kafka.follow import Follower
from conversations.kafka.forwarder import Forwarder
from conversations.protocol.declarations import ServiceDeclaration
from conversations.protocol.envelope import Envelope, Kind, Prefix, decode, encode
from conversations.protocol.envelope_avro import CURRENT, to_fields
from conversations.protocol.identifiers import uuid7
from conversations.protocol.routes import Cluster
from conversations.protocol.topics import QUEUE, service_topic
from conversations_ops.cli.app import app
from conversations_ops.operate.parked import parked_messages
from conversations_ops.operate.rights import rights_of
from conversations_ops.why.cause import TABLE, Mends
from tests.acceptance.services.releases import LATER
from tests.acceptance.services.stalling import DEVICES, WORDS, Extra, Word, caller, listener, sleepy
from tests.acceptance.support import kafka_tools
from tests.acceptance.support.command_line import Running
from tests.acceptance.support.operator import Terminal
from tests.rights.support.authorizing_kafka import GuardedBroker
from tests.support.waiting import SLOWER, until

pytestmark = [pytest.mark.acceptance, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600)]
WHY = ("--reason", "INC-4711")
SOON = 25.0
"""Most seconds that a test waits for a cause, or for its end."""
FOLLOWED = 5
"""So many commands may follow each other until nothing stalls: what ends a dialog may leave letters."""


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

    def why(self, about: str) -> tuple[int, dict[str, dict[str, Any]], str]:
        code, told = self("why", about)
        return code, {it["cause"]: it for it in told.get("causes", [])}, told.get("next") or ""

    def await_cause(self, about: str, cause: str) -> dict[str, Any]:
        """Wait until a cause is named, and return it."""
        return until(lambda: self.why(about)[1].get(cause, {}), f"{cause} of {about}", SOON)

    def await_none(self, about: str) -> None:
        """Wait until nothing stalls."""
        until(lambda: self.why(about)[:2] == (0, {}), f"nothing stalls at {about}", SOON)

    def obey(self, command: str) -> str:
        """Run a command exactly as it is printed, and return its output. It must succeed."""
        program, *arguments = shlex.split(command)
        if program == "conversations":
            done = CliRunner().invoke(app, arguments)
            assert done.exit_code == 0, f"{command}: {done.output}"
            return done.output
        path = f"{self.out / 'kafka'}:{os.environ['PATH']}"
        script = subprocess.run([*shlex.split(command)], env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
        assert script.returncode == 0, script.stderr
        return script.stdout

    def mend(self, about: str, cause: str) -> None:
        """Wait for a cause, and run the printed commands until nothing stalls. The first of them is that of the cause."""
        found = self.await_cause(about, cause)
        assert TABLE[cause].mends is Mends.COMMAND
        command = self.why(about)[2]
        assert command == found["next"], f"{cause} is not what the operator is told to mend: {command}"
        for _ in range(FOLLOWED):
            self.obey(command)
            if (command := self._after(about, command)) == "":
                return
        raise AssertionError(command)

    def _after(self, about: str, command: str) -> str:
        """Wait until nothing stalls, or a person is told another command. Return that command, or an empty text."""

        def look() -> tuple[int, dict[str, Any], str] | None:
            code, found, told = self.why(about)
            return (code, found, told) if not found or (code == 1 and told != command) else None

        answer = until(look, f"an end after {command}", SOON)
        assert answer is not None
        return answer[2]


def words(client: Client, *texts: str, to: str = "listener", lifetime: timedelta = timedelta(hours=5)) -> str:
    with client.begin_dialog(to, WORDS, wait_for_service=True, lifetime=lifetime) as dialog:
        for text in texts:
            dialog.send(Word(text=text))
    return dialog.id


def test_each_cause_is_named_and_the_printed_command_mends_it(kafka: Kafka, tmp_path: Path) -> None:
    apply(kafka, [caller.declaration(), listener.declaration(), ServiceDeclaration("mute")], 1, 1)
    night = Night(kafka, tmp_path)
    stays_a_member(night, "listener")
    with Client(caller, kafka) as client, Running(kafka, tmp_path, "stalling:caller"):
        waits = words(client, "")
        late = words(client, "", lifetime=timedelta(seconds=1))
        found = night.await_cause(waits, "no-owner")
        assert "no worker of listener has any partition" in found["says"]
        assert night.why(waits)[2] == found["next"]
        assert "no worker of listener" in night.text(*shlex.split(found["next"])[1:])
        night.await_cause(waits, "unacknowledged")
        with running(night, "stalling:listener", release=1) as run:
            night.await_none(waits)
            night.await_none(late)
            held(night, client)
            group_held(night, client)
            tried_again(night, client)
            hidden(night, client)
            stands(night, client, run)
            off(night, client)
            ends_soon(night, client)
            over(night, client)
            expired(night, client)
            unknown(night, client)
            elsewhere(night, client)
            error_not_understood(night, client)
            pooled(night, client)
            with_a_gap(night)
            in_a_later_schema(night)
            unfit = of_another_release(night, client)
        with running(night, "stalling:listener", release=2):
            night.mend(unfit, "unfit")
    assert night("why", "0199c1f2-0000-7000-8000-000000000001")[0] == night("why", "nonsense")[0] == 2


@contextmanager
def running(night: Night, target: str, release: int, *options: str) -> Iterator[Running]:
    with Running(night.kafka, night.out, target, *options, variables={"RELEASE": str(release)}) as run:
        yield run


def mended(night: Night, text: str) -> None:
    (night.out / f"mended-{text}").touch()


def held(night: Night, client: Client) -> None:
    one = words(client, "bad", "10")
    until(lambda: [it.behind for it in parked_messages(night.kafka, "listener") if it.conversation == one] == [1])
    code, found, command = night.why("listener")
    assert (code, list(found)) == (1, ["held"])
    assert "1 Word failed with ValueError" in found["held"]["says"]
    assert "with listener, which holds a message" in night.await_cause("caller", "peer-stalls")["says"]
    assert night.why("caller")[2].startswith("conversations why listener ")
    code, found, command = night.why(one)
    assert (code, next(iter(found))) == (1, "held")
    assert "Word #0 failed 1 time since" in found["held"]["says"]
    assert "ValueError" in found["held"]["says"]
    assert "1 record behind it" in found["held"]["says"]
    text = night.text("why", one)
    assert "caller -> listener   CONVERSING at caller, PARKED at listener" in text
    assert f"next: {command}" in text
    mended(night, "bad")
    night.mend(one, "held")
    night.await_none("listener")
    night.await_none("caller")


def group_held(night: Night, client: Client) -> None:
    """The command for a service gives back all messages that failed in one way."""
    group = [words(client, "group", str(number)) for number in range(5)]
    for one in group:
        night.await_cause(one, "held")
    assert "5 Word failed with LookupError" in night.why("listener")[1]["held"]["says"]
    mended(night, "group")
    night.mend("listener", "held")
    for one in group:
        night.await_none(one)
    assert [(it["state"], it["letters"]) for it in night("redrive", "list")[1]["redrives"]] == [("done", 5)]


def tried_again(night: Night, client: Client) -> None:
    later = words(client, "later", "2")
    found = night.await_cause(later, "retry-waits")
    assert "it is tried again in" in found["says"]
    assert night.why(later)[0] == 0, "it goes on by itself"
    assert "retries list" in night.why("listener")[1]["retry-waits"]["next"]
    mended(night, "later")
    night.mend(later, "retry-waits")


def hidden(night: Night, client: Client) -> None:
    """A program that stands still in a transaction on the queue hides the newest records."""
    stranger = Producer(
        {"bootstrap.servers": night.kafka.bootstrap, "transactional.id": f"stranger-{night.kafka.namespace}"}
    )
    stranger.init_transactions(30)
    stranger.begin_transaction()
    stranger.produce(service_topic(night.kafka.namespace, "listener", QUEUE), b"x", "x", 0)
    stranger.flush(30)
    waits = words(client, "")
    assert "a program began a transaction" in night.await_cause(waits, "open-transaction")["says"]
    _, would = night("queue", "abort", "listener", "--dry-run")
    assert (would["transactions"], would["done"]) == ([f"stranger-{night.kafka.namespace}"], False)
    night.mend("listener", "open-transaction")
    night.await_none(waits)
    assert night("journal")[1]["journal"][-1]["event"] == "TRANSACTION_ABORTING"
    assert night("queue", "abort", "listener", *WHY)[1]["transactions"] == []


def stands(night: Night, client: Client, run: Running) -> None:
    """A worker that does not run any more, but is still a member of its group."""
    (pid,) = [worker["pid"] for service in run.health()[1]["services"] for worker in service["workers"]]
    os.kill(pid, signal.SIGSTOP)
    try:
        waits = words(client, "")
        assert "1 record of partition 0 is not read yet" in night.await_cause(waits, "unread")["says"]
        night.obey(night.await_cause("listener", "unread")["next"])
    finally:
        os.kill(pid, signal.SIGCONT)
    night.await_none(waits)


def stays_a_member(night: Night, service: str) -> None:
    """Let the group of a service keep a silent member for a minute. A look takes more than the 3 s of the broker if the machine is busy."""
    group = f"{night.kafka.namespace}.{service}"
    config = kafka_tools.install(night.out / "kafka") / "kafka-configs.sh"
    change = shlex.split(
        f"--alter --entity-type groups --entity-name {group} --add-config consumer.session.timeout.ms=60000"
    )
    done = subprocess.run(
        [config, "--bootstrap-server", night.kafka.bootstrap, *change], capture_output=True, text=True, timeout=60 * SLOWER, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def off(night: Night, client: Client) -> None:
    """The queue of a peer that an operator has turned off, and one that a policy has turned off."""
    assert night("queue", "off", "listener", *WHY)[0] == 0
    waits = words(client, "")
    found = night.await_cause(waits, "queue-off")
    assert (night.why(waits)[0], "INC-4711" in found["says"]) == (1, True)
    assert "brake" not in night.why(waits)[1]
    night.mend(waits, "queue-off")
    waits = words(client, "off")
    assert "(policy" in night.await_cause(waits, "queue-off")["says"]
    mended(night, "off")
    night.mend("listener", "queue-off")
    night.await_none(waits)


def ends_soon(night: Night, client: Client) -> None:
    soon = words(client, "soon", lifetime=timedelta(minutes=9))
    found = night.await_cause(soon, "lifetime-near")
    assert "the lifetime ends in 8m" in found["says"]
    assert "then 1 parked message becomes a dead letter" in found["says"]
    mended(night, "soon")
    night.mend(soon, "lifetime-near")


def over(night: Night, client: Client) -> None:
    (night.out / "mended-bad").unlink()
    gone = words(client, "bad")
    night.await_cause(gone, "held")
    assert night("dialogs", "end", gone, "--service", "listener", *WHY)[0] == 0
    night.mend(gone, "letters")


def expired(night: Night, client: Client) -> None:
    late = words(client, "bad", lifetime=timedelta(seconds=2))
    assert "the lifetime ended before 1 message took effect" in night.await_cause(late, "expired")["says"]
    mended(night, "bad")
    night.mend(late, "expired")


def unknown(night: Night, client: Client) -> None:
    nowhere = words(client, "lost", to="listner")
    assert "is it 'listener'?" in night.await_cause(nowhere, "unknown-destination")["says"]
    night.mend(nowhere, "unknown-destination")


def elsewhere(night: Night, client: Client) -> None:
    """A peer on another cluster to which no forwarder carries anything."""
    emea = Cluster("emea", "127.0.0.1:1", night.kafka.namespace, 1)
    add_route(night.kafka, "faraway", emea, 1)
    far = words(client, "lost", to="faraway")
    found = night.await_cause(far, "no-forwarder")
    assert "faraway lives on cluster emea (127.0.0.1:1), and no forwarder carries the messages there" in found["says"]
    assert found["next"].startswith("conversations forward emea ")
    assert night.await_cause("caller", "no-forwarder")["service"] == "caller"
    assert "faraway on cluster emea has not acknowledged" in night.await_cause(far, "unacknowledged")["says"]
    tried = re.compile(r"there, 1 unacknowledged, next try (now|in \d+s): start one")
    until(
        lambda: tried.search(night.why(far)[1]["no-forwarder"]["says"]),
        "the worker knows the route, and tries again",
        pause=1,
    )
    cannot_carry(night, far, emea)
    assert night("dialogs", "cleanup", far, "--service", "caller", "--side", "initiator", "--yes", *WHY)[0] == 0
    until(lambda: "no-forwarder" not in night.why(far)[1])
    assert night("dead-letters", "discard", "--conversation", far, *WHY)[0] == 0


def cannot_carry(night: Night, far: str, emea: Cluster) -> None:
    """A forwarder runs, and the other cluster does not answer. Then the forwarder ends."""
    forwarder = Forwarder(night.kafka, emea, Kafka(emea.bootstrap, namespace=emea.namespace))
    thread = threading.Thread(target=forwarder.run)
    thread.start()
    try:
        found = night.await_cause(far, "cluster-away")
        assert re.match(r"route to emea down since \S+, 1 unacknowledged, next try ", found["says"])
        assert found["since"]
        assert "no-forwarder" not in night.why(far)[1]
        assert "1 unacknowledged" in night.await_cause("caller", "cluster-away")["says"]
        assert "CLUSTER_AWAY" in night.obey(found["next"])
        listed = night("transmission", "list", "--dialog", far)[1]["transmissions"]
        assert [it["reason"].partition(":")[0] for it in listed] == ["route to emea"]
        assert "away since" in listed[0]["reason"]
    finally:
        forwarder.stop()
        thread.join()
    assert night.await_cause(far, "no-forwarder")
    assert "cluster-away" not in night.why(far)[1]


def error_not_understood(night: Night, client: Client) -> None:
    """A handler without a message fails."""
    refused = words(client, "refuse")
    assert night.await_cause(refused, "held")["service"] == "caller"
    assert "1 ERROR failed with ValueError" in night.text("why", "caller")
    mended(night, "error")
    night.mend(refused, "held")


def pooled(night: Night, client: Client) -> None:
    """The command for a dialog that waits for another one of its pool is the command for that one."""
    for text in ("pooled", "10"):
        with client.pooled(DEVICES, "d-1") as block:
            block.send(Word(text=text))
    waits = until(lambda: next((it for it in begun(night) if "pool" in night.why(it)[1]), ""), "the pool")
    assert night.await_cause(waits, "pool")["says"].startswith("it begins when dialog ")
    until(lambda: "dead-letters retry" in night.why(waits)[1]["pool"]["next"])
    mended(night, "pooled")
    night.mend(waits, "pool")


def begun(night: Night) -> list[str]:
    """Return the dialogs that caller knows."""
    return [it["conversation"] for it in night("dialogs", "list", "--service", "caller")[1]["dialogs"]]


def with_a_gap(night: Night) -> None:
    """A message that nobody sends. Its receiver asks for it, and then the dialog breaks."""
    now = time_ns() // 1_000
    key = uuid7(now, 4711)
    prefix = Prefix(key.bytes, True, WORDS.name, "mute", "listener", str(key), False, now + 3_600_000_000, -1)
    values = [
        encode(
            Envelope(
                prefix, Kind.MESSAGE, number, -1, -1, sent_at=now, message_type="Word", content_type="application/json", body=b'{"text": ""}'
            )
        )
        for number in (0, 2)
    ]  # fmt: skip
    append_to_listener(night.kafka, str(key).encode(), *values)
    found = night.await_cause(str(key), "gap")
    assert "1 record arrived early: #1 is missing" in found["says"]
    night.obey(found["next"])
    until(lambda: "gap" not in night.why(str(key))[1], "the dialog breaks")
    until(lambda: any(it["conversation"] == str(key) for it in open_letters(night)), "what arrived early is a letter")
    assert night("dead-letters", "discard", "--conversation", str(key), *WHY)[0] == 0


def append_to_listener(kafka: Kafka, key: bytes, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    topic = service_topic(kafka.namespace, "listener", QUEUE)
    for value in values:
        producer.produce(topic, value, key, 0)
    assert producer.flush(30) == 0


def open_letters(night: Night) -> list[dict[str, Any]]:
    return list(night("dead-letters", "list", "listener", "--detached")[1]["letters"])


def in_a_later_schema(night: Night) -> None:
    """A record in a schema that the catalog does not have is set aside."""
    topic = service_topic(night.kafka.namespace, "listener", QUEUE)
    with Follower(night.kafka, [topic]) as follower:
        record = next(it for it in follower.to_the_end(30) if (it.value() or b"").startswith(CURRENT.head))
    later = LATER.encode(to_fields(decode(record.value() or b"")) | {"priority": 9})
    producer = Producer({"bootstrap.servers": night.kafka.bootstrap})
    producer.produce(topic, later, record.key(), 0)
    assert producer.flush(30) == 0
    assert "1 open letter (set-aside)" in night.await_cause("listener", "letters")["says"]
    night.mend("listener", "letters")


def of_another_release(night: Night, client: Client) -> str:
    """A message that the running release of the listener does not know waits for a release that does."""
    with client.begin_dialog("listener", WORDS) as dialog:
        dialog.send(Extra(text="new"))
    assert "does not fit the running release of listener" in night.await_cause(dialog.id, "unfit")["says"]
    return dialog.id


def test_a_cause_that_passes_by_itself_is_named_until_it_has_passed(kafka: Kafka, tmp_path: Path) -> None:
    apply(kafka, [caller.declaration(), sleepy.declaration()], 1, 1)
    night = Night(kafka, tmp_path)
    with Client(caller, kafka) as client, Running(kafka, tmp_path, "stalling:caller", "stalling:sleepy"):
        slow, refused = words(client, "slow", "more", to="sleepy"), words(client, "no", to="sleepy")
        for dialog, cause in ((slow, "slow-handler"), (refused, "broken")):
            night.obey(night.await_cause(dialog, cause)["next"])
        (tmp_path / "go").touch()
        night.await_none(slow)
        night.await_none(refused)


def test_a_brake_is_turned_off_by_the_printed_command(kafka: Kafka, tmp_path: Path) -> None:
    apply(kafka, [caller.declaration(), sleepy.declaration()], 1, 1)
    night = Night(kafka, tmp_path)
    (tmp_path / "settings").write_text("brake.dialogs = 3\nbrake.probe = 1h\n")
    settings = ("--settings", str(tmp_path / "settings"))
    with Client(caller, kafka) as client, Running(kafka, tmp_path, "stalling:caller", "stalling:sleepy", *settings):
        odd = [words(client, "odd", to="sleepy") for _ in range(5)]
        braked = until(lambda: next((it for it in odd if "brake" in night.why(it)[1]), ""), "the brake")
        (tmp_path / "go").touch()
        night.mend(braked, "brake")
        until(lambda: not any("brake" in night.why(it)[1] for it in odd), "the brake is off")


def test_a_missing_right_is_named_with_its_user_and_granted_by_the_printed_command(tmp_path: Path) -> None:
    kafka_tools.install(tmp_path / "kafka")
    (tmp_path / "settings").write_text("periods.blocked_first = 1s\nperiods.blocked_last = 2s\n")
    with GuardedBroker() as broker:
        kafka = Kafka(broker.bootstrap, namespace="guarded")
        services = [caller.declaration(), listener.declaration()]
        apply(kafka, services, 1, 1)
        rights = [
            (it.operation, it.resource.upper().replace("-", "_"), it.name + ("*" if it.pattern == "PREFIXED" else ""))
            for it in rights_of("worker", "guarded", services[0], services)
        ]
        to_listener = ("WRITE", "TOPIC", service_topic("guarded", "listener", QUEUE))
        broker.grant("clerk", [it for it in rights if it != to_listener])
        assert to_listener in rights
        login = [f"--setting={name}={value}" for name, value in broker.login("clerk").items()]
        guarded = Kafka(broker.guarded, namespace="guarded")
        night = Night(kafka, tmp_path)
        settings = ("--settings", str(tmp_path / "settings"))
        with (
            Client(caller, kafka) as client,
            Running(guarded, tmp_path, "stalling:caller", *login, *settings),
            Running(kafka, tmp_path, "stalling:listener", *settings),
        ):
            waits = words(client, "")
            assert (
                "User:clerk, which runs caller, may not write to guarded.listener.queue"
                in night.await_cause(waits, "right-missing")["says"]
            )
            night.obey(night.await_cause(waits, "delayed")["next"])
            night.mend(waits, "right-missing")


def test_every_cause_that_a_command_mends_is_mended_here() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    mends = {name for name, it in TABLE.items() if it.mends is Mends.COMMAND}
    assert {name for name in mends if f', "{name}")' not in source} == set()
