"""Dialogs: a list with search, and one dialog with its picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import RedirectResponse, Response

from conversations.errors import LogError
from conversations.protocol.code_table import of_error
from conversations.protocol.states import State
from conversations_ops.operate.dialogs import STATES, Side
from conversations_ops.operate.timeline import Seat, Timeline
from conversations_ops.read_model.dialogs import Found, Page, Wanted, both_sides, merged, page, search
from conversations_ops.read_model.events import events_of
from conversations_ops.read_model.letters import letters_of
from conversations_ops.read_model.services import service_names
from conversations_ops.web.desk import Desk
from conversations_ops.web.hidden import events_for, letters_for, sides_for
from conversations_ops.web.picture import SHOWN, picture
from conversations_ops.web.rendering import Pages, session_of

_STATE = {name: state for state, name in STATES.items()}


def routes(desk: Desk, pages: Pages) -> APIRouter:
    """Return the pages about dialogs."""
    router = APIRouter()

    @router.get("/dialogs")
    def dialogs(
        request: Request,
        q: Annotated[str, Query(max_length=200)] = "",
        service: str = "",
        state: str = "",
        waits: bool = False,
        failed: bool = False,
        before: str = "",
        cluster: str = "",
    ) -> Response:
        wanted = Wanted(service, _STATE.get(state), waits, failed, _bytes(before))
        sees = session_of(request).user.bodies
        names: set[str] = set()
        parts: dict[str, Page] = {}
        for name, live in desk.chosen(cluster).items():
            with live.file() as file:
                names.update(service_names(file))
                parts[name] = Page(search(file, q, bodies=sees), b"") if q.strip() else page(file, wanted)
        found = merged(list(parts.values())) if len(parts) > 1 else next(iter(parts.values()), Page([], b""))
        if q.strip() and len({it.conversation for it in found.sides}) == 1 and request.headers.get("x-live") is None:
            return RedirectResponse(f"/dialogs/{found.sides[0].conversation}", 303)
        at = {(it.own, it.service): name for name, part in parts.items() for it in part.sides}
        return pages.page(
            request, "dialogs.html", dialogs=_together(found.sides, at), more=found.more.hex(), q=q, service=service, state=state, waits=waits, failed=failed,
            services=sorted(names), states=list(_STATE), cluster=cluster,
        )  # fmt: skip

    @router.get("/dialogs/{name}")
    def dialog(request: Request, name: str, every: Annotated[bool, Query(alias="all")] = False) -> Response:
        conversation = id_of(name)
        with desk.live.file() as file:
            sides = both_sides(file, desk.kafka.namespace, conversation)
            elsewhere = _elsewhere(desk, conversation)
            if not sides and not elsewhere:
                raise HTTPException(404, unknown(name))
            sides = sorted([*sides, *(seat.side for seat in elsewhere.values())], key=lambda it: not it.initiator)
            events, kept = events_of(file, sides[0].name), letters_of(file, sides[0].name)
        user = session_of(request).user
        sides, events, kept = sides_for(user, sides), events_for(user, events), letters_for(user, kept)
        drawn, trouble = None, ""
        try:
            seats = {seat.side.identity: seat for seat in elsewhere.values()}
            found = desk.timelines.of([seats.get(it.identity) or Seat(desk.kafka, it) for it in sides])
        except LogError as error:
            found, trouble = Timeline((), 0, complete=False), str(error)
        else:
            drawn = picture(sides, found, len(found.steps) + SHOWN if every else SHOWN, kept, events)
            far = {head.letter for seat in elsewhere.values() for head in seat.side.heads}
            drawn = drawn._replace(rows=[it._replace(letter="") if it.letter in far else it for it in drawn.rows])
        return pages.page(
            request, "dialog.html", name=sides[0].name, sides=[_plain(it, elsewhere) for it in sides], timeline=found, drawn=drawn, trouble=trouble,
            letters=kept, every=every,
        )  # fmt: skip

    return router


def _together(sides: Sequence[Found], at: Mapping[tuple[bytes, str], str]) -> list[dict[str, Any]]:
    """Return one row for each dialog. The sides of a dialog follow each other, because their names begin with its id.

    ``at`` has the cluster of each side.
    """
    rows: list[dict[str, Any]] = []
    for _, group in groupby(sides, key=lambda it: it.own[:16]):
        both = sorted(group, key=lambda it: not it.initiator)
        first = both[0]
        peer = next((it.service for it in both[1:]), first.peer)
        names = (first.service, peer) if first.initiator else (peer, first.service)
        states = [
            {
                "service": it.service,
                "state": STATES[it.state],
                "error": _error(it.code),
                "parked": it.parked,
                "cluster": at[it.own, it.service],
            }
            for it in both
        ]
        rows.append({
            "clusters": sorted({it["cluster"] for it in states if it["cluster"]}), "id": first.conversation, "initiator": names[0], "target": names[1], "contract": next((it.contract for it in both if it.contract), ""),
            "key": next((it.key for it in both if it.key != first.conversation), ""), "states": states, "began": first.began,
            "pending": sum(it.pending for it in both), "parked": sum(it.parked for it in both),
        })  # fmt: skip
    return rows


def _elsewhere(desk: Desk, conversation: bytes) -> dict[str, Seat]:
    """Return the sides of a dialog on other clusters, by the names of the clusters."""
    found = {}
    for cluster, live in desk.others.items():
        with live.file() as file:
            for it in both_sides(file, live.kafka.namespace, conversation):
                found[cluster] = Seat(live.kafka, it)
    return found


def _plain(it: Side, elsewhere: Mapping[str, Seat]) -> dict[str, Any]:
    cluster = next((name for name, seat in elsewhere.items() if seat.side.identity == it.identity), "")
    return {
        "it": it,
        "cluster": cluster,
        "state": STATES[it.state],
        "error": _error(it.code),
        "over": it.state is State.CLOSED,
    }


def _error(code: int) -> str:
    known = of_error(code) if code else None
    return f"{code} {known.text}" if known is not None else str(code or "")


def id_of(name: str) -> bytes:
    """Return the id of a dialog in an address.

    Raises:
        HTTPException: the text is no id.
    """
    try:
        return UUID(name[:64]).bytes
    except ValueError:
        raise HTTPException(404, f"{name[:64]!r} is no id of a dialog") from None


def unknown(name: str) -> str:
    """Say that no service knows a dialog."""
    return f"No service knows the dialog {name[:64]}. It has not begun yet, or it is over and forgotten, or the id is wrong."


def _bytes(text: str) -> bytes:
    try:
        return bytes.fromhex(text[:64])
    except ValueError:
        return b""
