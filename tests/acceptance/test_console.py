"""The web console: a real browser, the real console in a process of its own, a real Kafka and real workers."""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from conversations import Client, Kafka
from conversations.kafka.admin import apply, create_metrics_topic
from conversations.kafka.appending import append
from conversations_ops.operate.parked import parked_messages
from conversations_ops.operate.queues import queues
from tests.acceptance.services.fragile import SUMS, Entry, asker, fragile
from tests.acceptance.support.browser import CHROMIUM, MISSING, SCREENS, Browser, Console, browser, overflow, raw_ids
from tests.acceptance.support.command_line import Running
from tests.acceptance.support.operator import Terminal
from tests.support.waiting import until

pytestmark = [
    pytest.mark.acceptance, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600),
    pytest.mark.skipif(not CHROMIUM, reason=MISSING),
]  # fmt: skip
HOSTILE = "<script>document.title='owned'</script><img src=x onerror=alert(1)>\x1b[31m\u202ered"
HELD = 30


@dataclass
class Night:
    """Thirty dialogs that are held at one service, and those who look at them."""

    kafka: Kafka
    out: Path
    console: Console
    chromium: Browser
    terminal: Terminal
    dialogs: list[str]

    def waiting(self) -> list[Any]:
        return [it for it in parked_messages(self.kafka, "fragile") if it.held]


@pytest.fixture(scope="module")
def night(kafka_bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Night]:
    out = tmp_path_factory.mktemp("night")
    kafka = Kafka(kafka_bootstrap, namespace=f"console-{out.name}")
    apply(kafka, [asker.declaration(), fragile.declaration()], 2, 1)
    with Client(asker, kafka) as client, Running(kafka, out, "fragile:fragile", "fragile:asker"):
        dialogs = [begin(client, "1", "one" if n else HOSTILE, "5") for n in range(HELD)]
        begin(client, "later", "2")
        begin(client, "7", "0")
        until(lambda: len(parked_messages(kafka, "fragile")) == HELD + 1)
        plant_minutes(kafka)
        with Console(kafka, out) as console, browser(console) as chromium:
            yield Night(kafka, out, console, chromium, Terminal(kafka, out), dialogs)
            assert chromium.faults == []


def begin(client: Client, *entries: str) -> str:
    with client.begin_dialog("fragile", SUMS, lifetime=timedelta(hours=5)) as dialog:
        for entry in entries:
            dialog.send(Entry(text=entry))
    return dialog.id


def plant_minutes(kafka: Kafka) -> None:
    """Write what Spark's job publishes about the last ten minutes; tests/spark has the job itself."""
    newest = int(time.time()) // 60 * 60 - 60
    rows = []
    for number in range(10):
        at = datetime.fromtimestamp(newest - 60 * number, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        row = {
            "begun": 5,
            "messages": 9,
            "ended": 3,
            "errored": 1,
            "expired": 0,
            "open": 7,
            "backlog": 2,
            "reply_p95": 0.25,
        }
        rows.append((f"asker/Sums/{at}".encode(), json.dumps(row).encode()))
    append(kafka, create_metrics_topic(kafka, 1), rows)


PAGES = (
    "",
    "dialogs",
    "dialogs?waits=1",
    "letters",
    "retries",
    "detached",
    "queues",
    "queues/fragile",
    "redrives",
    "charts",
    "charts?span=7d&service=asker",
    "events",
    "journal",
    "nonsense",
)


@pytest.mark.parametrize("screen", SCREENS)
def test_every_page_fits_names_things_and_is_accessible(night: Night, screen: str) -> None:
    page = night.chromium.person("ann", SCREENS[screen])
    letter = night.waiting()[0]
    more = (f"dialogs/{letter.conversation}", f"dialogs/{letter.conversation}/why", f"letters/{letter.letter}", f"letters/{letter.letter}/edit",
            "letters/of?service=fragile&exception=ValueError&what=Entry")  # fmt: skip
    for path in (*PAGES, *more):
        page.goto(f"{night.console.address}/{path}")
        assert overflow(page) <= 0, path
        assert raw_ids(page) == [], path
        assert page.title() != "owned"
        found = Axe().run(page).response["violations"]
        assert [
            (path, it["id"], it["nodes"][0]["html"]) for it in found if it["impact"] in ("serious", "critical")
        ] == []


def test_a_dialog_is_found_by_id_by_letter_and_by_a_word_in_its_body(night: Night) -> None:
    page, letter = night.chromium.person("ann"), night.waiting()[0]
    for text in (letter.conversation[:30], letter.conversation, letter.letter):
        page.goto(f"{night.console.address}/dialogs")
        page.fill("input[name=q]", text)
        page.keyboard.press("Enter")
        page.wait_for_url(f"**/dialogs/{letter.conversation}")
    page.goto(f"{night.console.address}/dialogs?q=onerror")
    page.wait_for_url(f"**/dialogs/{night.dialogs[0]}")
    picture = page.get_by_label("Picture")
    expect(picture).to_contain_text("#1 Entry")
    expect(picture).to_contain_text("failed 1 time: ValueError")
    expect(picture).to_contain_text("waiting behind the failed one")
    page.goto(f"{night.console.address}/dialogs?q=nothing+like+this")
    expect(page.get_by_text("No dialog matches")).to_be_visible()


def test_the_metrics_of_spark_are_charts_with_their_figures(night: Night) -> None:
    page = night.chromium.person("ann")
    page.goto(f"{night.console.address}/charts")
    for title, told in (
        ("Dialogs per minute", "begun 5"),
        ("Time to the first reply", "95 % 250 ms"),
        ("Open dialogs", "open dialogs 7"),
    ):
        chart = page.locator("section.chart").filter(has_text=title)
        expect(chart).to_contain_text(told)
        assert chart.locator("svg[role=img] path[d^=M]").first.bounding_box()["width"] > 10  # type: ignore[index]  # the path is there
    expect(page.locator("section.chart").filter(has_text="Time to the end")).to_contain_text("Nothing in this time")
    page.get_by_text("Figures", exact=True).click()
    expect(page.get_by_label("Figures").locator("tbody tr").first).to_contain_text("0.25")
    page.select_option("select[name=span]", "7d")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**/charts?service=&span=7d")
    expect(page.locator("section.chart").first).to_contain_text("begun")


def test_what_strangers_wrote_is_inert(night: Night) -> None:
    letter = next(it for it in night.waiting() if it.conversation == night.dialogs[0])
    page = night.chromium.person("ann")
    page.goto(f"{night.console.address}/letters/{letter.letter}")
    body = page.get_by_label("Body of the message").inner_text()
    assert "<script>document.title='owned'</script>" in body
    assert "\x1b" not in page.content()
    assert "\u202e" not in page.content()
    assert page.title() != "owned"
    assert page.locator("main img, main script").count() == 0
    page.goto(f"{night.console.address}/letters/{letter.letter}/edit")
    assert "onerror" in page.input_value("textarea")
    assert page.locator("main img, main script").count() == 0


def test_a_viewer_looks_and_changes_nothing(night: Night) -> None:
    letter = night.waiting()[0]
    page = night.chromium.person("ben")
    page.goto(f"{night.console.address}/letters/{letter.letter}")
    expect(page.get_by_text("Viewers do not see bodies")).to_be_visible()
    assert page.locator("main form").count() == 0
    assert page.locator("main pre[aria-label='Body of the message']").count() == 0
    page.goto(f"{night.console.address}/letters/{letter.letter}/edit")
    expect(page.get_by_text("Not allowed")).to_be_visible()
    for path in (f"letters/{letter.letter}/retry", f"letters/{letter.letter}/skip", "queues/fragile/off", "redrives"):
        answer = page.request.post(f"{night.console.address}/{path}", form={"reason": "because", "service": "fragile"})
        assert (path, answer.status) == (path, 403)
    assert not any(it.off for it in queues(night.kafka, "fragile"))


def test_an_operator_edits_a_message_and_its_dialog_goes_on(night: Night) -> None:
    letter = next(it for it in night.waiting() if it.conversation == night.dialogs[0])
    page = night.chromium.person("ann", SCREENS["phone"])
    page.goto(f"{night.console.address}/letters/{letter.letter}")
    page.get_by_role("link", name="Edit…").click()
    page.fill("textarea", "{not json")
    page.get_by_role("button", name="Compare…").click()
    expect(page.get_by_role("alert")).to_contain_text("not JSON")
    page.fill("textarea", '{"text": "41"}')
    page.get_by_role("button", name="Compare…").click()
    expect(page.get_by_label("Comparison")).to_contain_text('+ {"text": "41"}')
    page.fill("input[name=reason]", "INC-4711 mended by hand")
    page.get_by_role("button", name="Send it to the handler").click()
    expect(page.get_by_role("status")).to_contain_text("The message was handled")
    until(lambda: letter.letter not in {it.letter for it in parked_messages(night.kafka, "fragile")})
    page.goto(f"{night.console.address}/journal")
    row = page.locator("tr", has_text="INC-4711 mended by hand")
    expect(row).to_contain_text("ann")


def test_a_queue_is_turned_off_and_on_and_every_terminal_sees_it(night: Night) -> None:
    page = night.chromium.person("ann")
    page.goto(f"{night.console.address}/queues/fragile")
    page.fill("input[name=reason]", "release 13")
    page.get_by_role("button", name="Turn off").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("off")
    code, told = night.terminal("queue", "show", "fragile")
    assert (code, {(it["off"], it["by"], it["reason"]) for it in told["queues"]}) == (
        1,
        {("operator", "ann", "release 13")},
    )
    assert night.terminal("queue", "on", "fragile", "--reason", "back")[0] == 0
    expect(page.get_by_role("heading", level=1)).to_contain_text("on")  # the page is live: nobody has loaded it again


def test_a_redrive_with_canaries_is_watched_and_stopped_by_a_terminal_and_continued_here(night: Night) -> None:
    page = night.chromium.person("ann")
    page.goto(f"{night.console.address}/letters")
    page.get_by_role("link", name=re.compile("ValueError")).click()
    before = len(night.waiting())
    page.fill("input[name=rate]", "0.7")  # slow enough for a machine on which two commands take twenty seconds
    page.get_by_role("button", name="Make a plan").click()
    page.wait_for_url("**/redrives/rd-*")
    name = page.url.rpartition("/")[2]
    expect(page.get_by_role("heading", level=2)).to_contain_text(f"0 of {before} letters")
    (night.out / "mended").touch()
    start(page, "Start")
    until(lambda: night.terminal("redrive", "watch", name)[1].get("outcomes", {}).get("handled", 0) >= 4)
    expect(page.get_by_label("Progress")).to_contain_text("handled")
    assert night.terminal("redrive", "stop", name, "--reason", "wait a moment")[0] == 0
    expect(page.get_by_role("heading", level=1)).to_contain_text("stopped")
    left = len(night.waiting())
    assert 0 < left < before
    start(page, "Resume")
    expect(page.get_by_role("heading", level=1)).to_contain_text("done", timeout=90_000)
    expect(page.get_by_role("heading", level=2)).to_contain_text(f"{before} of {before} letters")
    until(lambda: night.waiting() == [])
    code, told = night.terminal("redrive", "watch", name)
    assert (code, told["end"], told["outcomes"]["handled"], told["by"]) == (0, "done", before, "ann")
    page.goto(f"{night.console.address}/letters")
    expect(page.get_by_text("No message waits for a decision")).to_be_visible()


def start(page: Page, button: str) -> None:
    page.fill("input[name=reason]", "INC-4711")
    page.get_by_role("button", name=button).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("runs")


def test_no_page_opens_without_a_session_and_a_removed_user_is_out(night: Night) -> None:
    window = night.chromium.window()
    for path in (*PAGES, "letters/x/edit"):
        window.goto(f"{night.console.address}/{path}")
        assert "/login?next=" in window.url, path
    for path in ("letters/x/retry", "queues/fragile/off", "redrives", "logout", "detached/x/discard"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{night.console.address}/{path}", data=b"reason=x")
        assert (path, refused.value.code) == (path, 401)
    page = night.chromium.person("ben")
    night.console.users.remove("ben")
    page.goto(f"{night.console.address}/dialogs")
    assert "/login?next=" in page.url


def test_a_form_of_another_site_is_refused(night: Night) -> None:
    page = night.chromium.person("ann")
    here = night.console.address
    for headers in ({"origin": "http://evil.example"}, {"origin": here}):
        answer = page.request.post(f"{here}/queues/fragile/off", form={"reason": "x", "form": "guess"}, headers=headers)
        assert answer.status == 403
    assert not any(it.off for it in queues(night.kafka, "fragile"))
