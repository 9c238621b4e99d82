"""All pages of the web console behind their guard: what a request needs before a page sees it."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute

from conversations import Kafka
from conversations_ops.operate.redrive.plan import Care, Plan, PlannedLetter
from conversations_ops.operate.redrive.selection import Selector
from conversations_ops.operate.redrive.stored import records_of
from conversations_ops.read_model.live import Live
from conversations_ops.web.application import application
from conversations_ops.web.desk import LOG_INS, Desk
from conversations_ops.web.guard import COOKIE, FORM, LARGEST, Guard
from conversations_ops.web.pages.decisions import CONTEXT, _diff
from conversations_ops.web.pages.login import _local
from conversations_ops.web.redrives import Redrives
from conversations_ops.web.sessions import Pauses
from conversations_ops.web.users import Role, Users
from tests.support.asgi import Answer, Question, answer

NOWHERE = Kafka("127.0.0.1:1")
WORD = "a horse and a battery"


class Web:
    """A console whose Kafka is out of reach."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.users = Users(directory / "users.json")
        self.users.add("ann", Role.OPERATOR, WORD)
        self.users.add("ben", Role.VIEWER, WORD)
        live = Live(NOWHERE, directory / "model")
        self.desk = Desk(NOWHERE, live, self.users, None, Redrives(live))
        self.guard: Guard = application(self.desk)

    def session(self, name: str) -> str:
        return self.desk.sessions.begin(next(it for it in self.users.all() if it.name == name))

    def ask(self, path: str, method: str = "GET", token: str = "", body: bytes = b"") -> Answer:
        headers = {"cookie": f"{COOKIE}={token}", "content-type": "application/x-www-form-urlencoded"}
        return answer(self.guard, Question(path, method, headers, (body,)))


@pytest.fixture
def web(tmp_path: Path) -> Web:
    return Web(tmp_path)


def routes(web: Web, method: str) -> list[str]:
    """Return an address of every page that answers a method."""
    app: Any = web.guard._app
    parts = [
        getattr(it, "original_router", None) for it in app.routes
    ]  # a router that was included, in new releases of FastAPI
    every = [*app.routes, *(route for part in parts if part is not None for route in part.routes)]
    found = [it.path for it in every if isinstance(it, APIRoute) and method in (it.methods or ())]
    return [re.sub(r"{(\w+)}", lambda it: {"action": "skip", "to": "off"}.get(it[1], "x"), path) for path in found]


def test_no_page_that_changes_something_is_open(web: Web) -> None:
    """Neither without a session, nor for a viewer, nor without the token of the session's form, whatever the page itself checks."""
    acting = [it for it in routes(web, "POST") if it not in ("/login", "/logout")]
    assert len(acting) >= 7
    ann, ben = web.session("ann"), web.session("ben")
    for path in acting:
        assert (path, web.ask(path, "POST").status) == (path, 401)
        assert (path, web.ask(path, "POST", ben).status) == (path, 403)
        for body in (b"reason=x", b"reason=x&form=guess", b"reason=x&form="):
            found = web.ask(path, "POST", ann, body)
            assert (path, found.status) == (path, 403)
            assert b"The form is too old" in found.body


def test_no_page_is_open_without_a_session(web: Web) -> None:
    looking = [it for it in routes(web, "GET") if it not in ("/login", "/health")]
    assert len(looking) >= 14
    for path in looking:
        assert (path, web.ask(path).headers["location"].startswith("/login?next=")) == (path, True)


def test_pages_are_shown_although_kafka_is_out_of_reach(web: Web) -> None:
    ann = web.session("ann")
    for path in ("/", "/dialogs", "/letters", "/retries", "/detached", "/queues", "/redrives", "/events", "/journal"):
        found = web.ask(path, token=ann)
        assert (path, found.status) == (path, 200)
        assert b"The topics are being read" in found.body
    assert web.ask("/nonsense", token=ann).status == 404
    assert web.ask("/dialogs/nonsense", token=ann).status == 404
    assert web.ask("/letters/nonsense", token=ann).status == 404
    assert web.ask("/queues/nonsense", token=ann).status == 404
    assert web.ask("/redrives/../../etc/passwd", token=ann).status == 404


def test_wrong_passwords_are_slowed_down(web: Web) -> None:
    web.desk.pauses = Pauses(clock=lambda: 0.0)  # a busy machine may take longer than the first pause
    asked = [web.ask("/login", "POST", body=b"name=ann&password=guess") for _ in range(6)]
    assert [it.status for it in asked] == [403] * 5 + [429]
    assert int(asked[-1].headers["retry-after"]) >= 1
    right = f"name=ann&password={WORD}".replace(" ", "+").encode()
    assert web.ask("/login", "POST", body=right).status == 429
    other = f"name=ben&password={WORD}".replace(" ", "+").encode()
    assert web.ask("/login", "POST", body=other).status == 429  # from the same address


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(web: Web) -> None:
    right = f"name=ann&password={WORD}&next=/queues".replace(" ", "+").encode()
    found = web.ask("/login", "POST", body=right)
    cookie = found.headers["set-cookie"]
    assert (found.status, found.headers["location"]) == (303, "/queues")
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    token = cookie.partition("=")[2].partition(";")[0]
    assert web.ask("/queues", token=token).status == 200
    assert web.ask("/logout", "POST", token).status == 303
    assert web.ask("/queues", token=token).status == 303


def test_people_who_log_in_at_once_leave_threads_for_the_pages(web: Web) -> None:
    for _ in range(LOG_INS):
        assert web.desk.log_ins.acquire(blocking=False)
    right = f"name=ann&password={WORD}".replace(" ", "+").encode()
    found = web.ask("/login", "POST", body=right)
    assert (found.status, found.headers["retry-after"]) == (429, "1")
    web.desk.log_ins.release()
    assert web.ask("/login", "POST", body=right).status == 303
    assert web.ask("/login", "POST", body=b"name=ann&password=guess").status == 403
    assert web.ask("/login", "POST", body=right).status == 303  # each of them left again


def test_no_answer_repeats_the_host_that_a_request_names(web: Web) -> None:
    ann = web.session("ann")
    for path in ("/dialogs/", "/health/", "/login/", "/letters/"):
        found = answer(web.guard, Question(path, headers={"cookie": f"{COOKIE}={ann}", "host": "evil.example"}))
        assert (path, found.status) == (path, 404)
        assert b"evil" not in found.body


def test_a_body_that_is_too_large_is_said_to_be(web: Web) -> None:
    parts = [b"a=" + b"x" * 100_000 + b"&"] * (LARGEST // 100_000 + 1)
    headers = {"cookie": f"{COOKIE}={web.session('ann')}", "content-type": FORM}
    found = answer(web.guard, Question("/letters/x/edit", "POST", headers, parts))
    assert (found.status, b"a request has at most" in found.body) == (413, True)


def test_a_read_model_that_is_damaged_is_no_fault_of_the_page(web: Web) -> None:
    with web.desk.live.file() as file:
        path = file.path
    path.write_bytes(b"no database at all" * 1_000)
    found = web.ask("/dialogs", token=web.session("ann"))
    assert (found.status, b"made anew" in found.body or b"makes it anew" in found.body) == (503, True)


def test_a_letter_is_shown_although_kafka_is_out_of_reach(web: Web) -> None:
    row = (
        "desk",
        0,
        1,
        "desk.queue-0-7",
        "x.desk.queue",
        7,
        "breach",
        "ValueError",
        "bad text",
        "",
        1,
        0,
        "Task",
        5,
        "",
        0,
        "",
        "",
        1,
    )
    with web.desk.live.file() as file, file.transaction() as connection:
        connection.execute(f"INSERT INTO letters VALUES ({','.join('?' * len(row))})", row)
    found = web.ask("/letters/desk.queue-0-7", token=web.session("ann"))
    assert (found.status, b"bad text" in found.body, b"cannot be read now" in found.body) == (200, True, True)
    assert b"has no body" not in found.body  # nobody knows


def test_a_redrive_without_news_can_be_continued(web: Web) -> None:
    """Its console was killed, so that no event tells its end."""
    ann, name = web.session("ann"), "rd-abcdef01"
    letters = (PlannedLetter("desk.queue-0-7", "desk", 3, "ValueError", 0),)
    plan = Plan(name, "n", "now", "ann", Selector("desk", "ValueError", "Task"), Care(3, 20.0, 3), letters)
    with web.desk.live.file() as file, file.transaction() as connection:
        for offset, (key, fields) in enumerate(records_of(plan, "a")):
            connection.execute("INSERT INTO operators VALUES (?, ?, ?)", (key, offset, json.dumps(fields)))
    assert b"planned" in web.ask(f"/redrives/{name}", token=ann).body
    now = time.time_ns() // 1_000
    for offset, at in enumerate((now, now - 20_000_000)):
        told = {
            "event": "REDRIVE_STARTED",
            "redrive": name,
            "at": at,
            "by": "ann",
            "reason": "x",
            "letters": 1,
            "outcomes": {},
        }
        with web.desk.live.file() as file, file.transaction() as connection:
            connection.execute(
                "INSERT INTO events VALUES (?, ?, 'REDRIVE_STARTED', '', '', '', 'ann', ?)",
                (offset, at, json.dumps(told)),
            )
        page = web.ask(f"/redrives/{name}", token=ann).body
        every = web.ask("/redrives", token=ann).body
        runs = offset == 0
        assert (b"/stop" in page, b"/start" in page) == (runs, not runs)
        assert (b"no news" in page, b"no news" in every) == (not runs, not runs)


def test_a_comparison_of_many_lines_that_look_alike_is_quick_and_shows_each_change() -> None:
    old = [f"line {n} of many" for n in range(3_000)]
    assert len(_diff("\n".join(old), "\n".join(it.replace("many", "mony") for it in old))) == 2_001
    new = [*old[:2_500], "changed", *old[2_501:]]
    found = _diff("\n".join(old), "\n".join(new))
    assert ("-", old[2_500]) in found
    assert ("+", "changed") in found
    assert len(found) == 2 + 2 * (1 + 2 * CONTEXT)


@pytest.mark.parametrize("to", ["//evil", "http://evil", "/\\evil", "javascript:1", "", "/a\nb", "\\/evil", "/\t/evil"])
def test_a_log_in_never_leads_elsewhere(to: str) -> None:
    assert _local(to) == "/"


def test_metrics_are_open_only_if_somebody_wants_it(web: Web) -> None:
    assert web.ask("/metrics").status == 303
    assert web.ask("/metrics", token=web.session("ben")).status == 200
    guard = application(web.desk, open_metrics=True)
    found = answer(guard, Question("/metrics"))
    assert (found.status, found.headers["content-type"].split(";")[0]) == (200, "text/plain")
    assert answer(guard, Question("/dialogs")).status == 303
