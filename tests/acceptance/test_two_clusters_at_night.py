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
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect
from typer.testing import CliRunner

from conversations import Client, Kafka
from conversations.kafka.admin import add_route, apply
from conversations.protocol.routes import Cluster
from conversations_ops.broker import EmbeddedBroker
from conversations_ops.cli.app import app
from tests.acceptance.services.fragile import SUMS, Entry, asker, fragile
from tests.acceptance.support.browser import CHROMIUM, MISSING, SCREENS, Browser, Console, browser, overflow, raw_ids
from tests.acceptance.support.command_line import Running
from tests.acceptance.support.forwarding import Forwarding
from tests.acceptance.test_why import Night
from tests.support.waiting import SLOWER, until

pytestmark = [pytest.mark.acceptance, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.long]
EMEA = ("--cluster", "emea")
ENTRIES = 5
LATER = 60_000 * SLOWER
"""Milliseconds that a page may take to show what has changed: it asks Kafka beside its requests, and a broker that is gone is waited for."""


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
    code, told = nights.home("transmission", "list", *EMEA)
    assert (code, {(it["at"], it["service"], it["cluster"]) for it in told["transmissions"]}) == (
        0,
        {(None, "asker", "emea")},
    )
    assert (told["total"], told["unread_clusters"]) == (ENTRIES, {})
    assert nights.home("transmission", "list", "--service", "fragile", *EMEA)[1]["total"] == 0
    assert nights.home("transmission", "list", "--service", "fragile")[0] == 2, "without the option, it is not known"
    text = nights.home.text("status", *EMEA).splitlines()
    assert text[0].split("\t")[:2] == ["CLUSTER", "SERVICE"]
    assert [line.split("\t")[:2] for line in text[1:3]] == [["here", "asker"], ["emea", "fragile"]]
    assert text[4].split("\t")[:2] == ["FROM", "ROUTE TO"]
    assert text[5].split("\t")[:4] == ["here", "emea", "0 of 2", str(ENTRIES)]
    assert text[5].endswith("\tno forwarder runs")
    assert text[-1].startswith("next: conversations forward emea ")


@dataclass
class Desk:
    """The web console over both clusters, and a browser."""

    console: Console
    chromium: Browser

    def check(self, page: Page, path: str) -> None:
        """Open a page, which must fit, name things, and be accessible."""
        page.goto(f"{self.console.address}/{path}")
        assert overflow(page) <= 0, path
        assert raw_ids(page) == [], path
        found = Axe().run(page).response["violations"]
        serious = [it for it in found if it["impact"] in ("serious", "critical")]
        assert [(path, it["id"], it["nodes"][0]["html"]) for it in serious] == []


@pytest.fixture(scope="module")
def desk(nights: Nights) -> Iterator[Desk]:
    if not CHROMIUM:
        pytest.skip(MISSING)
    with Console(nights.home.kafka, nights.home.out, *EMEA) as console, browser(console) as chromium:
        yield Desk(console, chromium)
        assert chromium.faults == []


PLACES = ("", "dialogs", "dialogs?cluster=emea", "dialogs?cluster=.", "dialogs?cluster=nowhere", "letters", "queues")


@pytest.mark.parametrize("screen", SCREENS)
def test_the_first_page_has_both_clusters_and_the_route_that_is_down(nights: Nights, desk: Desk, screen: str) -> None:
    page = desk.chromium.person("ann", SCREENS[screen])
    routes = page.get_by_role("region", name="Routes from this cluster")
    expect(routes).to_contain_text("no forwarder runs")
    expect(routes.get_by_text("0 of 2")).to_be_visible()
    expect(page.get_by_role("heading", name="Cluster emea")).to_be_visible()
    expect(page.get_by_role("region", name="fragile on emea")).to_contain_text("nothing stalls")
    asks = page.get_by_role("region", name="asker", exact=True)
    expect(asks).to_contain_text("route to emea: no forwarder runs, 5 unacknowledged")
    expect(page.get_by_role("heading", level=1)).to_contain_text("a person")
    for path in (*PLACES, f"dialogs/{nights.held}", f"dialogs/{nights.held}/why"):
        desk.check(page, path)
    expect(page.locator("main")).to_contain_text("no forwarder carries the messages there")


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


def test_the_lists_and_the_page_of_causes_have_both_clusters(nights: Nights, desk: Desk) -> None:
    until(lambda: nights.service("fragile", *EMEA)["held"] == 1, "the message is held there", 60)
    until(lambda: nights.service("asker")["pending"] == 0, "everything is acknowledged", 60)
    page = desk.chromium.person("ann", SCREENS["phone"])
    expect(page.get_by_role("region", name="fragile on emea")).to_contain_text("1 dialog held")
    expect(page.get_by_role("region", name="Routes from emea")).to_contain_text("carried")
    page.goto(f"{desk.console.address}/dialogs")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(2)  # the sides of both clusters are in one row
    expect(rows.last).to_contain_text("on emea")
    expect(rows.last.locator("td[data-name=State] .chip")).to_have_count(2)
    page.select_option("select[name=cluster]", "emea")
    page.get_by_role("button", name="Search").click()
    expect(rows).to_have_count(1)
    assert page.locator("select[name=service] option").all_inner_texts() == ["all services", "fragile"]
    page.goto(f"{desk.console.address}/dialogs?cluster=.")
    expect(rows).to_have_count(2)
    expect(page.locator("main")).not_to_contain_text("on emea")
    page.goto(f"{desk.console.address}/dialogs?q={nights.held[:20]}")
    page.wait_for_url(f"**/dialogs/{nights.held}")
    desk.check(page, f"dialogs/{nights.held}/why")
    expect(page.locator("main")).to_contain_text("fragile on emea: Entry #1 failed")
    expect(page.locator("pre").first).to_contain_text(f"--bootstrap={nights.emea.bootstrap}")
    page.goto(desk.console.address)
    page.get_by_role("region", name="fragile on emea").get_by_role("link", name="look").click()
    page.wait_for_url("**/letters?service=fragile&cluster=emea")
    expect(rows).to_contain_text("ValueError")
    expect(page.locator("tbody a")).to_have_count(0)  # decisions are made in the console there
    expect(page.locator("main")).to_contain_text(f"--bootstrap={nights.emea.bootstrap}")
    page.goto(f"{desk.console.address}/letters")
    page.get_by_role("link", name="emea (1)").click()
    expect(rows).to_contain_text("ValueError")
    for path in ("letters", "retries", "detached", "queues"):
        desk.check(page, f"{path}?cluster=emea")
        desk.check(page, path)
    assert page.goto(f"{desk.console.address}/letters?cluster=nowhere").status == 404  # type: ignore[union-attr]
    viewer = desk.chromium.person("ben")
    viewer.goto(f"{desk.console.address}/letters?cluster=emea")
    expect(viewer.locator("main")).to_contain_text("ValueError")
    expect(viewer.locator("main")).not_to_contain_text("invalid literal")
    viewer.goto(f"{desk.console.address}/dialogs/{nights.held}/why")
    expect(viewer.locator("main")).to_contain_text("failed")
    expect(viewer.locator("main")).not_to_contain_text("invalid literal")


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
    code, listed = nights.home("dialogs", "list", "--with-pending", *EMEA)
    assert (code, [(it["cluster"], it["service"]) for it in listed["dialogs"]]) == (0, [("emea", "fragile")])
    assert nights.home("dialogs", "list", "fragile")[0] == 2, "without the option, it is not known"
    lines = nights.home.text("dialogs", "list", *EMEA).splitlines()
    assert [line.split("\t")[0] for line in lines] == ["CLUSTER", "here", "emea"]
    (next_one,) = (it["next"] for it in told["services"] if it["service"] == "fragile")
    assert "ValueError" in CliRunner().invoke(app, shlex.split(next_one)[1:]).stdout
    (nights.home.out / "mended").write_text("")
    assert nights.home.obey(nights.home("why", nights.held, *EMEA)[1]["next"].replace("WHY", "INC-4711"))
    until(lambda: nights.home("why", nights.held, *EMEA)[:1] == (0,), "nothing stalls", 60)
    assert nights.home("status", *EMEA)[0] == 0


def test_a_cluster_that_does_not_answer_is_named_and_the_others_are_shown(nights: Nights) -> None:
    nights.broker.stop()
    code, told = nights.home("status", *EMEA)
    assert (code, list(told["unread_clusters"])) == (3, ["emea"]), "nothing waits, and not everything was seen"
    code, told = nights.home("why", nights.held, *EMEA)
    assert (code, told["causes"], list(told["unread_clusters"])) == (3, [], ["emea"])
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
    code, told = nights.home("transmission", "list", *EMEA)
    assert (code, [it["at"] for it in told["transmissions"]], list(told["unread_clusters"])) == (3, [None], ["emea"])
    assert "away since" in told["transmissions"][0]["reason"]
    code, told = nights.home("dialogs", "list", *EMEA)
    assert (code, {it["cluster"] for it in told["dialogs"]}, list(told["unread_clusters"])) == (3, {None}, ["emea"])


def test_the_console_says_what_it_cannot_read(nights: Nights, desk: Desk) -> None:
    page = desk.chromium.person("ann", SCREENS["phone"])
    expect(page.locator("main")).to_contain_text(
        "The cluster emea cannot be read, so what this page shows of it may be old.", timeout=LATER
    )
    expect(page.get_by_role("region", name="Routes from this cluster")).to_contain_text("down since", timeout=LATER)
    expect(page.get_by_role("region", name="fragile on emea")).to_be_visible()
    for path in (*PLACES, f"dialogs/{nights.held}/why"):
        desk.check(page, path)
    expect(page.locator("main")).to_contain_text("The cluster emea cannot be looked at.")
    viewer = desk.chromium.person("ben")
    routes = viewer.get_by_role("region", name="Routes from this cluster")
    told = nights.route()["down"]["why"]
    expect(routes).to_contain_text("down since", timeout=LATER)
    expect(routes).not_to_contain_text(told)
