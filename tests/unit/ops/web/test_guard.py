"""The guard in front of every page, with a real application behind it and real requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

import pytest
from starlette.types import Message, Receive, Scope, Send

from conversations_ops.web import guard
from conversations_ops.web.guard import ADDRESSES, BURST, COOKIE, FORM, LARGEST, PER_SECOND, STRANGER, Guard, Rates
from conversations_ops.web.sessions import Sessions
from conversations_ops.web.users import Role, User
from tests.support.asgi import NONE, Answer, Question, answer

ANN, BEN = User("ann", Role.OPERATOR, bodies=True), User("ben", Role.VIEWER, bodies=False)


async def pages(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the name of the user, after the body of the request was read."""
    while (await receive()).get("more_body"):
        pass
    session = scope["state"]["session"]
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": session.user.name.encode() if session else b"nobody"})


class Door:
    """A guard, and those who knock."""

    def __init__(self, *, secure: bool = False, knows: Callable[[User], bool] = lambda user: True) -> None:
        self.now = 1_000.0
        self.sessions = Sessions()
        self.guard = Guard(pages, self.sessions, knows, secure=secure, clock=lambda: self.now)

    def knock(
        self,
        path: str = "/",
        method: str = "GET",
        *,
        token: str = "",
        address: str = "1.2.3.4",
        parts: Sequence[bytes] = (b"",),
        headers: Mapping[str, str] = NONE,
    ) -> Answer:
        cookie = {"cookie": f"{COOKIE}={token}"} if token else {}
        return answer(self.guard, Question(path, method, {**cookie, **headers}, parts, b"a=1&b=%2F", address))


def test_without_a_session_only_the_log_in_and_the_style_sheet_are_there() -> None:
    door = Door()
    found = door.knock("/dialogs")
    assert (found.status, found.headers["location"]) == (303, "/login?next=%2Fdialogs%3Fa%3D1%26b%3D%252F")
    assert door.knock("/dialogs", headers={"x-live": "1"}).status == 401
    assert door.knock("/dialogs", "POST").status == 401
    assert door.knock("/dialogs", "DELETE").status == 401
    for path in ("/login", "/static/console.css", "/health"):
        assert (path, door.knock(path).body) == (path, b"nobody")
    for path in ("/loginx", "/static", "/staticx/", "/LOGIN", "//login", "/login/x", "/healthx", "/health/x"):
        assert (path, door.knock(path).status) == (path, 303)


def test_a_session_passes_until_its_user_is_gone() -> None:
    known = {ANN}
    door = Door(knows=lambda user: user in known)
    token = door.sessions.begin(ANN)
    assert door.knock(token=token).body == b"ann"
    assert door.knock(token="guess").status == 303
    known.clear()
    assert door.knock(token=token).status == 303
    known.add(ANN)
    assert door.knock(token=token).status == 303  # the session has ended for good


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_a_viewer_changes_nothing_whatever_the_page_does(method: str) -> None:
    door = Door()
    token = door.sessions.begin(BEN)
    found = door.knock("/anything/at/all", method, token=token)
    assert (found.status, found.body) == (403, b"ben is a viewer, and viewers change nothing")
    assert door.knock("/logout", method, token=token).status == 200
    assert door.knock("/anything", method, token=door.sessions.begin(ANN)).body == b"ann"


@pytest.mark.parametrize(
    ("headers", "passes"),
    [
        ({}, True),
        ({"origin": "http://here:1"}, True),
        ({"origin": "http://elsewhere"}, False),
        ({"origin": "http://here:2"}, False),
        ({"origin": "null"}, False),
        ({"sec-fetch-site": "same-origin"}, True),
        ({"sec-fetch-site": "cross-site"}, False),
        ({"sec-fetch-site": "same-site"}, False),
    ],
)
def test_a_form_of_another_site_does_not_pass(headers: dict[str, str], passes: bool) -> None:
    door = Door()
    token = door.sessions.begin(ANN)
    assert (door.knock("/x", "POST", token=token, headers=headers).status == 200) is passes
    assert (door.knock("/login", "POST", headers=headers).status == 200) is passes
    assert door.knock("/x", token=token, headers=headers).status == 200


def test_a_request_is_not_larger_than_allowed_whatever_it_says() -> None:
    door = Door()
    token = door.sessions.begin(ANN)
    half = bytes(LARGEST // 2 + 1)
    assert door.knock("/x", "POST", token=token, headers={"content-length": str(LARGEST + 1)}).status == 413
    assert door.knock("/x", "POST", token=token, headers={"content-length": "many"}).status == 413
    assert door.knock("/x", "POST", token=token, parts=(half, half)).status == 413
    assert door.knock("/x", "POST", token=token, parts=(half, b"")).status == 200


def test_a_stranger_sends_no_more_than_a_name_and_a_password() -> None:
    door = Door()
    for path in ("/login", "/health", "/x"):
        assert door.knock(path, "POST", headers={"content-length": str(STRANGER + 1)}).status == 413
    assert door.knock("/login", "POST", parts=(bytes(STRANGER), b"")).status == 200
    assert door.knock("/login", "POST", parts=(bytes(STRANGER), b"x")).status == 413


def test_a_request_with_two_lengths_is_refused() -> None:
    found = Door().knock("/login", headers={"content-length": "4", "transfer-encoding": "chunked"})
    assert (found.status, found.headers["connection"]) == (400, "close")


@pytest.mark.parametrize("kind", ["multipart/form-data; boundary=x", "application/json", "text/plain", ""])
def test_a_form_has_one_content_type(kind: str) -> None:
    door = Door()
    token = door.sessions.begin(ANN)
    assert door.knock("/x", "POST", token=token, headers={"content-type": kind}).status == 415
    assert door.knock("/x", "POST", token=token, headers={"content-type": f"{FORM}; charset=utf-8"}).status == 200


def test_a_body_that_comes_too_slowly_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "PATIENCE", 0.05)

    async def never() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    async def read() -> None:
        receive = guard._limited(never, 10)
        with pytest.raises(guard.Refused) as refused:
            await receive()
        assert refused.value.status_code == 408

    asyncio.run(asyncio.wait_for(read(), 10))


@pytest.mark.parametrize(
    ("address", "same"),
    [("1.2.3.4", "1.2.3.4"), ("::ffff:1.2.3.4", "1.2.3.4"), ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"), ("fe80::1%eth0", "fe80::/64"),
     ("", ""), ("a name", "a name")],
)  # fmt: skip
def test_one_machine_is_one_address_although_it_has_many_of_ipv6(address: str, same: str) -> None:
    assert guard.network(address) == same


def test_addresses_of_one_machine_share_a_rate() -> None:
    door = Door()
    assert {door.knock("/login", address=f"2001:db8::{n:x}").status for n in range(BURST)} == {200}
    assert door.knock("/login", address="2001:db8::ffff").status == 429


def test_cookies_of_other_programs_do_not_hide_the_session() -> None:
    door = Door()
    token = door.sessions.begin(ANN)
    for other in ('a={"b": 1}', "a b=c", "=", '"', "x" * 9_000):
        assert door.knock(headers={"cookie": f"{other}; {COOKIE}={token}; z=1"}).body == b"ann"


def test_every_answer_has_the_headers_for_the_browsers_protections() -> None:
    door = Door()
    for found in (
        door.knock("/x"),
        door.knock("/login"),
        door.knock("/x", "POST"),
        door.knock("/x", "POST", headers={"content-length": "9999999"}),
    ):
        policy = found.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert found.headers["x-content-type-options"] == "nosniff"
        assert found.headers["cache-control"] == "no-store"
        assert "strict-transport-security" not in found.headers
    assert "strict-transport-security" in Door(secure=True).knock("/login").headers


def test_an_address_that_asks_too_often_waits_and_others_do_not() -> None:
    door = Door()
    assert {door.knock("/login").status for _ in range(BURST)} == {200}
    assert door.knock("/login").status == 429
    assert door.knock("/login", address="5.6.7.8").status == 200
    door.now += 1
    assert [door.knock("/login").status for _ in range(PER_SECOND + 1)] == [200] * PER_SECOND + [429]


def test_rates_of_many_addresses_stay_bounded() -> None:
    rates = Rates(lambda: 0.0)
    for number in range(3 * ADDRESSES):
        assert rates.allows(str(number))
    assert len(rates._left) == ADDRESSES


def test_a_cookie_that_is_none_is_no_session() -> None:
    door = Door()
    for cookie in (
        "",
        ";;;",
        f"{COOKIE}=",
        f'{COOKIE}="\\',
        "x" * 100_000,
        f"{COOKIE}=\udcff".encode("utf-8", "replace").decode(),
    ):
        assert door.knock("/x", headers={"cookie": cookie}).status == 303
