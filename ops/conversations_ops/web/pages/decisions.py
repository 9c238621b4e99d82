"""What a person may decide about a failed message: try it again, edit it, skip it, or end its dialog. And notes on groups."""

from __future__ import annotations

import difflib
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Form, HTTPException, Request
from fastapi.responses import RedirectResponse, Response

from conversations.protocol.codes import POISON
from conversations.protocol.command import Action
from conversations.protocol.parked import Decision, Parked
from conversations_ops.operate.decisions import decide, not_json
from conversations_ops.operate.notes import About, note
from conversations_ops.operate.redrive.outcomes import Outcome
from conversations_ops.read_model.letters import parked_letter
from conversations_ops.web.desk import Desk
from conversations_ops.web.rendering import Pages, session_of

WAIT = 20.0
"""Seconds that a decision waits for the owner of the dialog, and then for the outcome of the message."""
CONTEXT = 20
"""Lines before and after a change that a comparison shows."""
Reason = Annotated[str, Form(max_length=500)]
_DONE = {
    Outcome.HANDLED: ("good", "The message was handled, and what waited behind it goes on."),
    Outcome.BACK: ("bad", "The message failed again."),
    Outcome.ENDED: ("bad", "The dialog ended before the message was tried."),
    Outcome.CHANGED: ("bad", "Somebody else made another decision first."),
}


def routes(desk: Desk, pages: Pages) -> APIRouter:
    """Return the decisions about failed messages."""
    router = APIRouter()
    _notes(desk, router)

    @router.get("/letters/{name}/edit")
    def form(request: Request, name: str) -> Response:
        it = waiting(name)
        if not session_of(request).user.decides:
            raise HTTPException(403, "Only an operator can edit a message.")
        return pages.page(request, "edit.html", it=it, body=_editable(it.body), reason="", trouble="", diff=None)

    @router.post("/letters/{name}/edit")
    def edit(
        request: Request,
        name: str,
        body: Annotated[str, Form()],
        reason: Reason = "",
        sure: Annotated[str, Form()] = "",
    ) -> Response:
        it = waiting(name)
        new = body.replace("\r\n", "\n") if b"\r" not in it.body else body
        trouble = _trouble(it, new) or ("" if reason.strip() or not sure else "Give a reason. It is in the journal.")
        if trouble or not sure:
            return pages.page(
                request, "edit.html", 400 if trouble else 200, it=it, body=new, reason=reason, trouble=trouble, diff=_diff(_editable(it.body), new)
            )  # fmt: skip
        return decided(request, it, Decision(Action.EDIT, session_of(request).user.name, reason.strip(), new.encode()))

    @router.post("/letters/{name}/{action}")
    def act(
        request: Request,
        name: str,
        action: str,
        reason: Reason = "",
        code: Annotated[int, Form(ge=1, le=2**31 - 1)] = POISON.number,
        description: Annotated[str, Form(max_length=1_000)] = POISON.text,
    ) -> Response:
        actions = {"retry": Action.RETRY, "skip": Action.SKIP, "end": Action.END}
        if action not in actions:
            raise HTTPException(404, "There is no such decision.")
        it, by = waiting(name), session_of(request).user.name
        decision = Decision(actions[action], by, reason.strip())
        if action == "end":
            decision = decision._replace(code=code, description=description)
        return decided(request, it, decision)

    def waiting(name: str) -> Parked:
        with desk.live.file() as file:
            it = parked_letter(file, desk.kafka.namespace, name)
        if it is None:
            raise HTTPException(404, f"No dialog waits for {name[:200]} any more. Somebody may have decided already.")
        return it

    def decided(request: Request, it: Parked, decision: Decision) -> Response:
        def act() -> tuple[str, str]:
            return _told(decision.action, decide(desk.kafka, it, decision, WAIT))

        desk.carry_out(session_of(request), decision.reason, act)
        with desk.live.file() as file:
            still = parked_letter(file, desk.kafka.namespace, it.letter) is not None
        return RedirectResponse(f"/letters/{it.letter}" if still else f"/dialogs/{it.conversation}", 303)

    return router


def _told(action: Action, outcome: Outcome | None) -> tuple[str, str]:
    if action is Action.SKIP:
        return (
            "good",
            "The message was skipped, and what waited behind it goes on. Its bytes stay in the dead-letter topic.",
        )
    if action is Action.END:
        return "good", "The dialog was ended with an error for the peer."
    slow = (
        "plain",
        f"The owner has the decision, but no outcome is known after {WAIT:g} s. The handler may be slow, or the queue is off.",
    )
    return slow if outcome is None else _DONE[outcome]


_LOST = {chr(number) for number in (*range(32), *range(127, 160))} - {"\n", "\t", "\r"}
"""Characters that a browser does not keep, or does not show, in a form."""


def _editable(body: bytes) -> str | None:
    """Return a body for a form; None if it is no text, or if a browser would change it."""
    try:
        found = body.decode()
    except UnicodeDecodeError:
        return None
    return None if _LOST & set(found) else found


def _trouble(it: Parked, body: str) -> str:
    """Say why a new body cannot be sent; empty if it can."""
    new = body.encode("utf-8", "replace")
    if new == it.body:
        return "The body was not changed."
    why = not_json(it, new)
    return f"{why[:1].upper()}{why[1:]}"


def _diff(old: str | None, new: str) -> list[tuple[str, str]]:
    """Return the lines of a comparison, each with ``+``, ``-`` or a blank."""
    before, after = (old or "").splitlines(), new.splitlines()
    found: list[tuple[str, str]] = []
    # Whole lines only: to compare the characters of many lines that look alike takes minutes.
    for what, a, b, c, d in difflib.SequenceMatcher(None, before, after).get_opcodes():
        if what != "equal":
            found += [*(("-", it) for it in before[a:b]), *(("+", it) for it in after[c:d])]
        elif b - a <= 2 * CONTEXT:
            found += [(" ", it) for it in before[a:b]]
        else:
            left_out = (" ", f"… {b - a - 2 * CONTEXT:,} lines that stay")
            found += [
                *((" ", it) for it in before[a : a + CONTEXT]),
                left_out,
                *((" ", it) for it in before[b - CONTEXT : b]),
            ]
    return [*found[:2_000], *([(" ", f"… {len(found) - 2_000:,} more lines")] if len(found) > 2_000 else [])]


def _notes(desk: Desk, router: APIRouter) -> None:
    @router.post("/groups/note")
    def noted(
        request: Request,
        service: Annotated[str, Form(max_length=128)],
        exception: Annotated[str, Form(max_length=500)] = "",
        what: Annotated[str, Form(max_length=500)] = "",
        mended: Annotated[str, Form(max_length=3)] = "",
        reason: Reason = "",
    ) -> Response:
        session, about = session_of(request), About(service, exception, what)

        def act() -> None:
            note(desk.kafka, about, session.user.name, reason.strip(), mended=bool(mended))

        desk.carry_out(session, reason, act)
        query = urlencode({"service": service, "exception": exception, "what": what})
        return RedirectResponse(f"/letters/of?{query}", 303)
