"""Failed messages that wait for a person or for another attempt, and one letter."""

from __future__ import annotations

import json
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import Response

from conversations.bodies import JSON
from conversations.errors import LogError
from conversations.protocol.codes import POISON
from conversations.protocol.parked import Parked
from conversations_ops.operate.open_letters import OpenLetter
from conversations_ops.operate.reasons import WHY
from conversations_ops.read_model.detached import newest_of
from conversations_ops.read_model.groups import noted_groups
from conversations_ops.read_model.letters import Waits, Wanted, heads, kept_letters, parked_letter
from conversations_ops.read_model.services import service_names
from conversations_ops.web.desk import Desk
from conversations_ops.web.elsewhere import about, place_of
from conversations_ops.web.hidden import failed_for, letters_for
from conversations_ops.web.rendering import Pages, session_of


def routes(desk: Desk, pages: Pages) -> APIRouter:
    """Return the pages about failed messages."""
    router = APIRouter()

    @router.get("/letters")
    def letters(request: Request, service: str = "", cluster: str = "") -> Response:
        place = place_of(desk, cluster)
        with place.live.file() as file:
            found = noted_groups(file, service)
            names = service_names(file)
        return pages.page(
            request,
            "letters.html",
            groups=[it._replace(group=failed_for(session_of(request).user, it.group)) for it in found],
            service=service,
            services=names,
            **about(desk, place, lambda it: it.held),
        )

    @router.get("/letters/of")
    def of_group(
        request: Request,
        service: str,
        exception: str = "",
        what: str = "",
        since: Annotated[int, Query(ge=0, le=2**62)] = 0,
        after: str = "",
    ) -> Response:
        wanted = Wanted(Waits.PERSON, service, exception, what, (since, after))
        with desk.live.file() as file:
            found = heads(file, wanted)
            of = [it for it in noted_groups(file, service) if (it.group.exception, it.group.what) == (exception, what)]
        return pages.page(
            request,
            "group.html",
            letters=[failed_for(session_of(request).user, it) for it in found],
            service=service,
            exception=exception,
            what=what,
            noted=of[0] if of else None,
        )

    @router.get("/letters/{name}")
    def letter(request: Request, name: str) -> Response:
        with desk.live.file() as file:
            it = parked_letter(file, desk.kafka.namespace, name)
            kept = kept_letters(file, name)
        if it is None and not kept:
            raise HTTPException(404, f"There is no letter {name[:200]}.")
        bytes_of, trouble = None, ""
        try:
            bytes_of = newest_of(desk.kafka, kept)
        except LogError as error:
            trouble = str(error)
        user = session_of(request).user
        sees, stack = user.bodies, bytes_of.stack if bytes_of and user.bodies else ""
        return pages.page(
            request, "letter.html", name=name, trouble=trouble, it=it and failed_for(user, it), kept=letters_for(user, kept), reasons=WHY, stack=stack,
            body=_body(it, bytes_of) if sees else None, sees=sees, code=POISON.number, description=POISON.text,
        )  # fmt: skip

    @router.get("/retries")
    def retries(
        request: Request,
        service: str = "",
        since: Annotated[int, Query(ge=0, le=2**62)] = 0,
        after: str = "",
        cluster: str = "",
    ) -> Response:
        place = place_of(desk, cluster)
        with place.live.file() as file:
            found = heads(file, Wanted(Waits.RETRY, service, after=(since, after)))
            names = service_names(file)
        seen = [failed_for(session_of(request).user, it) for it in found]
        told = about(desk, place, lambda it: sum(head.dialogs for head in it.heads if head.due is not None))
        return pages.page(request, "retries.html", letters=seen, service=service, services=names, **told)

    return router


def _text(body: bytes) -> str | None:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None


def _body(it: Parked | None, kept: OpenLetter | None) -> str | None:
    """Return the body for people; None if it is not text or there is none."""
    body, kind = (it.body, it.content_type) if it is not None else (b"", "")
    if it is None and kept is not None:
        envelope = kept.envelope()
        body, kind = (envelope.body, envelope.content_type) if envelope is not None else (kept.value, "")
    text = _text(body)
    if text is None:
        return f"{len(body):,} bytes that are no text: {body[:400].hex(' ')}{' …' if len(body) > 400 else ''}"
    if kind.partition(";")[0].strip() == JSON:
        try:
            return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
        except (ValueError, RecursionError):
            return text
    return text
