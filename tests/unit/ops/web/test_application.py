"""All pages of the web console behind their guard: what a request needs before a page sees it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute

from conversations import Kafka
from conversations_ops.read_model.live import Live
from conversations_ops.web.application import application
from conversations_ops.web.desk import Desk
from conversations_ops.web.guard import COOKIE, Guard
from conversations_ops.web.pages.login import _local
from conversations_ops.web.redrives import Redrives
from conversations_ops.web.users import Role, User, Users
from tests.support.asgi import Answer, Question, answer

NOWHERE = Kafka("127.0.0.1:1")
WORD = "a horse and a battery"


class Web:
    """A console whose Kafka is out of reach."""

    def __init__(self, directory: Path) -> None:
        self.users = Users(directory / "users.json")
        self.users.add("ann", Role.OPERATOR, WORD)
        self.users.add("ben", Role.VIEWER, WORD)
        live = Live(NOWHERE, directory / "model")
        self.desk = Desk(NOWHERE, live, self.users, None, Redrives(live, directory))
        self.guard: Guard = application(self.desk)

    def session(self, name: str) -> str:
        role = Role.OPERATOR if name == "ann" else Role.VIEWER
        return self.desk.sessions.begin(User(name, role, bodies=role is Role.OPERATOR))

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


@pytest.mark.parametrize("to", ["//evil", "http://evil", "/\\evil", "javascript:1", "", "/a\nb", "\\/evil", "/\t/evil"])
def test_a_log_in_never_leads_elsewhere(to: str) -> None:
    assert _local(to) == "/"
