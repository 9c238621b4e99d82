"""An operator of two clusters at night: real workers and forwarders on two Kafkas, the command line, and the web console in Chromium.

The tests follow each other: each one leaves the dialogs as the next one finds them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from typer.testing import CliRunner

from conversations import Client, Kafka
from conversations.kafka.admin import add_route, apply
from conversations.protocol.routes import Cluster
from conversations_ops.broker import EmbeddedBroker
from conversations_ops.cli.app import app
from tests.acceptance.services.fragile import SUMS, Entry, asker, fragile
from tests.acceptance.support.command_line import Running
from tests.acceptance.support.forwarding import Forwarding
from tests.acceptance.test_why import Night
from tests.support.waiting import until

pytestmark = [pytest.mark.acceptance, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600)]
EMEA = ("--cluster", "emea")
ENTRIES = 5


@dataclass
class Nights:
    """Two clusters: asker lives at home, and fragile on emea. Workers run on both; forwarders are up to the test."""

    home: Night
    emea: Kafka
    broker: EmbeddedBroker
    client: Client
    processes: ExitStack
    held: str = ""
    """The dialog whose second message is held on emea."""

    def begin(self, *entries: str) -> str:
        with self.client.begin_dialog("fragile", SUMS, lifetime=timedelta(hours=5)) as dialog:
            for entry in entries:
                dialog.send(Entry(text=entry))
        return dialog.id

    def service(self, name: str, *arguments: str) -> dict[str, Any]:
        return next(it for it in self.home("status", *arguments)[1]["services"] if it["service"] == name)

    def route(self, *arguments: str) -> dict[str, Any]:
        return next(it for it in self.home("status", *arguments)[1]["routes"] if it["from"] is None)


@pytest.fixture(scope="module")
def nights(kafka_bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nights]:
    out = tmp_path_factory.mktemp("nights")
    home = Kafka(kafka_bootstrap, namespace=f"home-{out.name}")
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONVERSATIONS_CACHE", str(out / "cache"))
        broker = stack.enter_context(EmbeddedBroker())
        emea = Kafka(broker.bootstrap, namespace=f"emea-{out.name}")
        apply(home, [asker.declaration()], 2, 1)
        apply(emea, [fragile.declaration()], 2, 1)
        add_route(home, "fragile", Cluster("emea", emea.bootstrap, emea.namespace, 2), 1)
        add_route(emea, "asker", Cluster("home", home.bootstrap, home.namespace, 2), 1)
        stack.enter_context(Running(home, out, "fragile:asker"))
        stack.enter_context(Running(emea, out, "fragile:fragile"))
        client = stack.enter_context(Client(asker, home))
        yield Nights(Night(home, out), emea, broker, client, stack)


def test_a_route_without_a_forwarder_is_the_first_cause_of_its_services(nights: Nights) -> None:
    nights.held = nights.begin("1", *["one"] * (ENTRIES - 1))
    first = until(lambda: it if (it := nights.service("asker"))["routes_down"] else None, "the route is named")
    assert first is not None
    assert re.match(r"route to emea: no forwarder runs, 5 unacknowledged(, next try |$)", first["cause"]), first
    assert first["next"].startswith("conversations forward emea --bootstrap=")
    assert first["needs_person"]
    assert nights.home("status")[0] == 1
    assert nights.route()["not_carried"] is None, "the other cluster was not asked"
    found = nights.route(*EMEA)
    assert (found["to"], found["forwarded"], found["unacknowledged"]) == ("emea", [], ENTRIES)
    assert found["not_carried"] >= ENTRIES, "all of them, and what was transmitted again"
    assert not found["down"]["forwarder"]
    code, told = nights.home("status", *EMEA)
    assert code == 1
    assert [(it["cluster"], it["service"]) for it in told["services"]] == [(None, "asker"), ("emea", "fragile")]
    assert [(it["from"], it["to"]) for it in told["routes"]] == [(None, "emea"), ("emea", "home")]
    assert told["unread_clusters"] == told["unread_routes"] == {}
    text = nights.home.text("status", *EMEA).splitlines()
    assert text[0].split("\t")[:2] == ["CLUSTER", "SERVICE"]
    assert [line.split("\t")[:2] for line in text[1:3]] == [["here", "asker"], ["emea", "fragile"]]
    assert text[4].split("\t")[:2] == ["FROM", "ROUTE TO"]
    assert text[5].split("\t")[:4] == ["here", "emea", "0 of 2", str(ENTRIES)]
    assert text[5].endswith("\tno forwarder runs")
    assert text[-1].startswith("next: conversations forward emea ")


def test_a_service_that_is_not_there_is_named(nights: Nights) -> None:
    """A forwarder says so when it looks, and whoever asks both clusters sees it at any time."""
    add_route(nights.home.kafka, "nobody", Cluster("emea", nights.emea.bootstrap, nights.emea.namespace, 2), 1)
    with nights.client.begin_dialog("nobody", SUMS, wait_for_service=True, lifetime=timedelta(hours=5)) as lost:
        lost.send(Entry(text="1"))
    until(lambda: "no-forwarder" in nights.home.why(lost.id)[1], "it is sent")
    code, told = nights.home("why", lost.id, *EMEA)
    assert code == 1
    (cause,) = [it for it in told["causes"] if it["cause"] == "unknown-destination"]
    assert cause["says"].startswith("cluster emea has no service 'nobody': apply it there")
    nights.processes.enter_context(Forwarding(nights.home.kafka, "emea", nights.home.out))
    nights.processes.enter_context(Forwarding(nights.emea, "home", nights.home.out))
    listed = until(
        lambda: [it for it in nights.home("transmission", "list", "--dialog", lost.id)[1]["transmissions"] if "emea had no service 'nobody' at " in it["reason"]],
        "the forwarder has told it", 60,
    )  # fmt: skip
    assert listed
    assert "A forwarder found no service 'nobody' there" in nights.home.why(lost.id)[1]["unacknowledged"]["says"]
    found = nights.route()
    assert list(found["services_not_found"]) == ["nobody"]
    assert "it had no service 'nobody' at " in nights.home.text("status")
    why = ("--reason", "INC-4711")
    assert (
        nights.home("dialogs", "cleanup", lost.id, "--service", "asker", "--side", "initiator", "--yes", *why)[0] == 0
    )
    assert nights.home("dead-letters", "discard", "--conversation", lost.id, *why)[0] == 0


def test_why_looks_at_both_sides_and_its_command_is_for_the_right_cluster(nights: Nights) -> None:
    until(lambda: nights.service("fragile", *EMEA)["held"] == 1, "the message is held there", 60)
    until(lambda: nights.service("asker")["pending"] == 0, "everything is acknowledged", 60)
    assert nights.home.why(nights.held)[0] == 0, "this cluster alone sees nothing"
    code, told = nights.home("why", nights.held, *EMEA)
    assert code == 1
    (cause,) = told["causes"]
    assert (cause["cause"], cause["cluster"], cause["service"]) == ("held", "emea", "fragile")
    assert "asker -> fragile" in told["headline"]
    assert "PARKED at fragile" in told["headline"]
    assert f"--bootstrap={nights.emea.bootstrap}" in told["next"]
    assert "1. fragile on emea: Entry #1 failed" in nights.home.text("why", nights.held, *EMEA)
    code, told = nights.home("why", "fragile", *EMEA)
    assert (code, told["service"], told["headline"]) == (1, "fragile", "2 partitions on emea")
    assert nights.home("why", "fragile")[0] == 2, "without the option, the service is not known"
    code, told = nights.home("status", *EMEA)
    assert code == 1, "the message on emea waits for a person"
    assert not nights.service("asker")["needs_person"]
    fine = next(it for it in told["routes"] if it["from"] is None)
    assert (fine["forwarded"], fine["down"], fine["not_carried"]) == ([0, 1], None, 0)
    assert next(it["not_carried"] for it in told["routes"] if it["from"] == "emea") == 0
    (next_one,) = (it["next"] for it in told["services"] if it["service"] == "fragile")
    assert "ValueError" in CliRunner().invoke(app, shlex.split(next_one)[1:]).stdout
    (nights.home.out / "mended").write_text("")
    assert nights.home.obey(nights.home("why", nights.held, *EMEA)[1]["next"].replace("WHY", "INC-4711"))
    until(lambda: nights.home("why", nights.held, *EMEA)[:1] == (0,), "nothing stalls", 60)
    assert nights.home("status", *EMEA)[0] == 0


def test_a_cluster_that_does_not_answer_is_named_and_the_others_are_shown(nights: Nights) -> None:
    nights.broker.stop()
    last = nights.begin("1")
    until(lambda: nights.service("asker")["routes_down"], "the forwarder says that it is away", 90)
    code, told = nights.home("status", *EMEA)
    assert code == 1
    assert [it["service"] for it in told["services"]] == ["asker"]
    assert list(told["unread_clusters"]) == ["emea"]
    assert told["routes"][0]["down"]["forwarder"]
    cause = told["services"][0]["cause"]
    assert re.match(r"route to emea down since \S+, 1 unacknowledged(, next try \S+( \S+)?)?: ", cause), cause
    assert told["services"][0]["next"].startswith("conversations events --event CLUSTER_AWAY ")
    code, told = nights.home("why", last, *EMEA)
    assert code == 1
    assert [it["cause"] for it in told["causes"]][:1] == ["cluster-away"]
    assert list(told["unread_clusters"]) == ["emea"]
    assert "emea cannot be looked at: " in nights.home.text("status", *EMEA)
