"""Every page of the web console, among records that somebody wrote to hurt those who read them: it opens, and shows text only."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import pytest

from conversations_ops.read_model.live import Live
from conversations_ops.web.application import application
from conversations_ops.web.desk import Desk
from conversations_ops.web.guard import COOKIE
from conversations_ops.web.redrives import Redrives
from conversations_ops.web.users import Role, User
from tests.hostile.support.planted_rows import REDRIVE, Planted
from tests.hostile.support.texts import raw_in
from tests.support.asgi import Answer, Question, answer

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]
SECRET = "card-4711-0815"
MARKUP = '"><script>alert(1)</script><img src=x onerror=alert(1)>{{ 7*7 }}\x1b[31m\u202e'
TAGS = {"script": 1, "img": 0, "iframe": 0, "style": 0, "object": 0, "base": 0, "embed": 0}
"""How many of these elements a page has: the one script of the console."""


class Read(HTMLParser):
    """The elements of a page, and their attributes that run something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: dict[str, int] = dict.fromkeys(TAGS, 0)
        self.runs: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in self.tags:
            self.tags[tag] += 1
        for name, value in attrs:
            local = (value or "").startswith(("/", "?", "#"))
            if name.startswith("on") or name == "style" or (name in ("href", "src", "action") and not local):
                self.runs.append(f"{tag} {name}={value}")


@pytest.fixture(scope="module")
def planted(kafka_bootstrap: str) -> Planted:
    made = Planted(kafka_bootstrap)
    for event in (
        {
            "event": MARKUP,
            "service": MARKUP,
            "conversation": MARKUP,
            "dialog": MARKUP,
            "by": MARKUP,
            "reason": MARKUP,
            MARKUP: MARKUP,
        },
        {
            "event": "LATER",
            "at": 10**30,
            "conversation": str(made.dialog),
            "by": ["a"],
            "dialog": {"a": 1},
            "reason": 7,
        },
        {
            "event": "REDRIVE_STARTED",
            "redrive": MARKUP,
            "by": MARKUP,
            "reason": MARKUP,
            "letters": 3,
            "outcomes": {MARKUP: 3},
        },
        {"event": "REDRIVE_ODD", "redrive": 7},
    ):
        made.event(json.dumps(event).encode())
    return made


@pytest.fixture
def desk(planted: Planted, tmp_path: Path) -> Iterator[Desk]:
    with Live(planted.kafka, tmp_path, every=0.1) as live:
        assert live.look_now(60), live.progress.trouble
        assert live.progress.trouble == ""
        yield Desk(planted.kafka, live, None, None, Redrives(live))


def pages(planted: Planted) -> Iterator[tuple[str, bytes, int]]:
    """Yield the path and the query of pages, and the status that each must have."""
    yield from (
        (f"/{name}", b"", 200)
        for name in (
            "",
            "dialogs",
            "letters",
            "retries",
            "detached",
            "queues",
            "redrives",
            "charts",
            "events",
            "journal",
        )
    )
    yield "/dialogs", b"waits=1&failed=1", 200
    for text in (
        str(planted.dialog),
        MARKUP,
        planted.letter,
        planted.over,
        "5",
        "\x00",
        "%",
        "abcd-" * 7,
        "\U0010ffff",
    ):
        yield "/dialogs", f"q={quote(text)}".encode(), 303 if text in (str(planted.dialog), planted.letter) else 0
    for dialog in (planted.dialog, planted.odd):
        yield f"/dialogs/{dialog}", b"", 200
        yield f"/dialogs/{dialog}/why", b"", 200
    for name in ("desk", "clerk"):
        yield f"/queues/{name}", b"", 200
    for letter in (planted.letter, planted.over):
        yield f"/letters/{letter}", b"", 200
    yield f"/letters/{planted.letter}/edit", b"", 200
    yield "/letters/of", b"service=desk&exception=" + quote(MARKUP).encode() + b"&what=%00&since=99999999999999", 200
    yield f"/redrives/{REDRIVE}", b"", 200
    yield "/redrives/rd-7", b"", 200
    name = MARKUP.replace("/", "")
    for path in (f"/dialogs/{name}", f"/letters/{name}", f"/queues/{name}", f"/redrives/{name}", f"/{name}"):
        yield path, b"", 404
    for query in (b"before=zz", b"before=" + b"f" * 9_000, b"state=%3Cb%3E", b"service=%00"):
        yield "/dialogs", query, 200
    yield "/events", b"before=-1", 400
    yield "/events", b"before=1e9", 400
    yield "/detached", b"begin=" + b"9" * 40, 400
    yield "/retries", b"since=" + b"9" * 40, 400
    yield "/letters/of", b"service=desk&since=" + b"9" * 40, 400


def test_every_page_opens_and_shows_only_text(planted: Planted, desk: Desk) -> None:
    app = application(desk)
    token = desk.sessions.begin(User("ann", Role.OPERATOR, bodies=True))
    for path, query, status in pages(planted):
        found = answer(app, Question(path, headers={"cookie": f"{COOKIE}={token}"}, query=query))
        what = (path, query)
        assert found.status == status or (status == 0 and found.status in (200, 303)), (
            what,
            found.status,
            found.body[-2_000:],
        )
        if found.status != 303:
            shows_only_text(found.body.decode(), path, query)


def shows_only_text(text: str, path: str, query: bytes) -> None:
    what = (path, query)
    # A form has the body as it is, because it is sent back. A browser shows it as text.
    shown = re.sub(r"<textarea.*?</textarea>", "", text, flags=re.DOTALL)
    assert raw_in(shown) == [], what
    read = Read(text)
    assert (what, read.tags) == (what, TAGS)
    assert (what, read.runs) == (what, [])
    assert "49" not in text or "{{ 7*7 }}" in text or "7*7" not in query.decode(), what


def test_no_page_tells_a_viewer_what_a_body_says(planted: Planted, desk: Desk) -> None:
    """Neither the body, nor an exception that quotes it, nor a search that finds the dialog of a guessed word."""
    secret = SECRET
    letter, dialog = planted.plant_secret(secret)
    assert desk.live.look_now(60), desk.live.progress.trouble
    app = application(desk)

    def seen(path: str, token: str, query: str = "") -> Answer:
        found = answer(app, Question(path, headers={"cookie": f"{COOKIE}={token}"}, query=query.encode()))
        assert found.status in (200, 303), (path, found.status)
        return found

    ben = desk.sessions.begin(User("ben", Role.VIEWER, bodies=False))
    ann = desk.sessions.begin(User("ann", Role.OPERATOR, bodies=True))
    shown = []
    for path, query in (
        ("/letters", ""), ("/letters/of", "service=desk&exception=ValueError&what=Task"), (f"/letters/{letter}", ""), ("/retries", ""),
        ("/detached", ""), ("/events", ""), ("/journal", ""), (f"/dialogs/{dialog}", ""), (f"/dialogs/{dialog}/why", ""), ("/", ""),
        ("/dialogs", "waits=1"), ("/queues/desk", ""), ("/redrives", ""),
    ):  # fmt: skip
        assert (path, secret.encode() in seen(path, ben, query).body) == (path, False)
        shown += [path] if secret.encode() in seen(path, ann, query).body else []
    assert shown == [
        "/letters",
        "/letters/of",
        f"/letters/{letter}",
        "/events",
        "/journal",
        f"/dialogs/{dialog}",
        f"/dialogs/{dialog}/why",
    ]
    assert seen("/dialogs", ann, f"q={secret[:9]}").headers["location"] == f"/dialogs/{dialog}"
    found = seen("/dialogs", ben, f"q={secret[:9]}")
    assert (found.status, str(dialog).encode() in found.body) == (200, False)
    assert seen("/dialogs", ben, f"q={letter}").headers["location"] == f"/dialogs/{dialog}"


def test_lists_of_another_cluster_show_only_text_and_nothing_to_a_viewer(planted: Planted, desk: Desk) -> None:
    """The records of the other cluster are as hostile as those of this one: here both are the same."""
    secret = SECRET  # the same in both tests: a list shows one message of a cause, and either may be it
    planted.plant_secret(secret)
    assert desk.live.look_now(60), desk.live.progress.trouble
    several = Desk(planted.kafka, desk.live, None, None, desk.redrives, others={"emea": desk.live})
    app = application(several)
    ann = several.sessions.begin(User("ann", Role.OPERATOR, bodies=True))
    ben = several.sessions.begin(User("ben", Role.VIEWER, bodies=False))
    lists = [f"/{name}" for name in ("", "dialogs", "letters", "retries", "detached", "queues")]
    hostile = quote(MARKUP).encode()
    asked = [(path, query, 200) for path in lists for query in (b"", b"cluster=emea")]
    asked += [(path, b"cluster=" + hostile, 404) for path in lists[2:]]
    asked += [
        ("/dialogs", b"cluster=" + hostile, 200),
        ("/dialogs", b"cluster=.", 200),
        ("/dialogs", b"cluster=emea&q=no-such", 200),
    ]
    seen = 0
    for path, query, status in asked:
        for token in (ann, ben):
            found = answer(app, Question(path, headers={"cookie": f"{COOKIE}={token}"}, query=query))
            assert ((path, query), found.status) == ((path, query), status)
            shows_only_text(found.body.decode(), path, query)
            assert token == ann or secret.encode() not in found.body, (path, query)
            seen += secret.encode() in found.body
    assert seen >= 2, "an operator sees it, here and there"
