"""Services on two clusters, with real forwarder processes that are killed: the whole command line."""

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from conversations import Client, Kafka
from conversations_ops.broker import EmbeddedBroker
from conversations_ops.read_model.live import Live
from conversations_ops.web.application import application
from conversations_ops.web.desk import Desk
from conversations_ops.web.guard import COOKIE
from conversations_ops.web.redrives import Redrives
from conversations_ops.web.users import Role, User
from tests.acceptance.services import counting
from tests.acceptance.support.command_line import Running, conversations
from tests.acceptance.support.forwarding import Forwarding, where
from tests.support.asgi import Question, answer
from tests.support.waiting import until

pytestmark = [pytest.mark.acceptance, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(300)]
DIALOGS, LENGTH, KILLS = 40, 25, 6


@pytest.fixture
def there() -> Iterator[Kafka]:
    with EmbeddedBroker() as broker:
        yield Kafka(broker.bootstrap, namespace=f"t{uuid4().hex[:10]}")


def told(kafka: Kafka, out: Path, *arguments: str, code: int = 0) -> str:
    done = conversations(*arguments, *where(kafka), out=out)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def lines(out: Path, name: str) -> list[list[str]]:
    path = out / name
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def test_dialogs_cross_two_clusters_while_forwarders_are_killed(kafka: Kafka, there: Kafka, tmp_path: Path) -> None:
    told(kafka, tmp_path, "apply", "counting:source", "--partitions", "2")
    told(there, tmp_path, "apply", "counting:sink", "--partitions", "3")
    namespace = ("--its-namespace", there.namespace)
    assert "service sink is on cluster emea" in told(
        kafka, tmp_path, "route", "add", "sink", "--cluster", "emea", "--at", there.bootstrap, *namespace
    )
    told(there, tmp_path, "route", "add", "source", "--cluster", "home", "--at", kafka.bootstrap, "--its-namespace", kafka.namespace)  # fmt: skip
    assert "emea" in told(kafka, tmp_path, "route", "list")
    assert "no route to a cluster 'apac'; it has emea" in told(kafka, tmp_path, "forward", "apac", code=2)
    with (
        Running(kafka, tmp_path, "counting:source"),
        Running(there, tmp_path, "counting:sink"),
        Client(counting.source, kafka) as client,
        Forwarding(there, "home", tmp_path),
    ):
        waits_for_a_forwarder(kafka, tmp_path, client)
        for kill in range(KILLS):
            for _ in range(DIALOGS // KILLS):
                with client.begin_dialog("sink", counting.COUNTING) as dialog:
                    for n in range(LENGTH):
                        dialog.send(counting.Number(n=n, of=LENGTH))
            with Forwarding(kafka, "emea", tmp_path), Forwarding(kafka, "emea", tmp_path):
                # They are killed in the middle of the work.
                until(lambda kill=kill: len(lines(tmp_path, "totals")) > kill, "a dialog ends", 60)  # type: ignore[misc]
        with Forwarding(kafka, "emea", tmp_path) as last:
            began = KILLS * (DIALOGS // KILLS) + 1
            until(lambda: len(lines(tmp_path, "totals")) == began, "all dialogs end", 90)
            assert last.metric("partitions") == 4
            assert last.metric("envelopes_total") > 0
            assert last.metric("away_seconds") == 0
            last.process.send_signal(signal.SIGTERM)
            out, _ = last.process.communicate(timeout=30)
            assert last.process.returncode == 0, last.log.read_text()
            assert b'"cluster": "emea"' in out
    both_sides_are_shown(kafka, tmp_path)
    the_console_draws_both_directions(kafka, there, tmp_path)
    assert not (tmp_path / "disorder").exists(), "nothing is repeated, lost or out of order"
    assert told(kafka, tmp_path, "transmission", "list").startswith("everything that the services of")
    assert {tuple(counts) for _, *counts in lines(tmp_path, "totals")} == {(str(LENGTH), str(LENGTH))}


def waits_for_a_forwarder(kafka: Kafka, out: Path, client: Client) -> None:
    """What was sent is listed with the reason, and with a number of tries that grows."""
    with client.begin_dialog("sink", counting.COUNTING) as dialog:
        for n in range(LENGTH):
            dialog.send(counting.Number(n=n, of=LENGTH))

    def waiting() -> list[dict[str, Any]]:
        found = json.loads(told(kafka, out, "transmission", "list", "--dialog", dialog.id, "--json"))
        return list(found["transmissions"])

    first = until(lambda: it if len(it := waiting()) == LENGTH and it[0]["tries"] >= 1 else [], "it is tried again", 60)
    assert [it["number"] for it in first] == list(range(LENGTH))
    assert {(it["service"], it["peer"], it["cluster"], it["type"]) for it in first} == {
        ("source", "sink", "emea", "Number")
    }
    assert all(it["reason"].startswith("route to emea: no forwarder runs, next try in ") for it in first), first[0][
        "reason"
    ]
    text = told(kafka, out, "transmission", "list", "--service", "source", "--limit", "2")
    assert "2 envelopes not acknowledged, the oldest for " in text
    assert f"; {LENGTH - 2} more (--limit lists more)" in text


def the_console_draws_both_directions(kafka: Kafka, there: Kafka, out: Path) -> None:
    """The page of a dialog has the sides and the envelopes of both clusters."""
    name = json.loads(told(kafka, out, "dialogs", "list", "--all", "--json"))["dialogs"][0]["conversation"]
    for directory in ("here", "there"):
        (out / directory).mkdir()
    with Live(kafka, out / "here") as live, Live(there, out / "there") as other:
        assert live.look_now(60)
        assert other.look_now(60)
        pages = {}
        for others in ({}, {"emea": other}):
            desk = Desk(kafka, live, None, None, Redrives(live), others=others)
            token = desk.sessions.begin(User("ann", Role.OPERATOR, bodies=True))
            found = answer(
                application(desk),
                Question(f"/dialogs/{name}", "GET", {"cookie": f"{COOKIE}={token}"}, (b"",), b"all=1"),
            )
            assert found.status == 200
            pages[len(others)] = found.body.decode()
    assert "on cluster emea" in pages[1]
    assert "on cluster emea" not in pages[0]
    right, left = (re.compile(rf'<li class="{way} ') for way in ("right", "left"))
    assert not right.search(pages[0]), "alone, this cluster has one direction"
    assert min(len(left.findall(it)) for it in pages.values()) >= LENGTH
    assert len(right.findall(pages[1])) >= LENGTH


def both_sides_are_shown(kafka: Kafka, out: Path) -> None:
    """A dialog is shown with the side of this cluster, and with ``--cluster`` with both sides."""
    name = json.loads(told(kafka, out, "dialogs", "list", "--all", "--json"))["dialogs"][0]["conversation"]
    alone = told(kafka, out, "dialogs", "show", name)
    assert "other side    " in alone
    text = told(kafka, out, "dialogs", "show", name, "--cluster", "emea")
    assert re.search(r"^initiator +source, partition \d$", text, re.MULTILINE)
    assert re.search(r"^target +sink, partition \d$", text, re.MULTILINE)
    sides = json.loads(told(kafka, out, "dialogs", "show", name, "--cluster", "emea", "--json"))["sides"]
    assert [it["service"] for it in sides] == ["source", "sink"]
    assert "no route to a cluster 'apac'; it has emea" in told(
        kafka, out, "dialogs", "show", name, "--cluster", "apac", code=2
    )
