"""Why one dialog does not go on: the causes on each of its clusters."""

from __future__ import annotations

import shlex
from dataclasses import replace

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import Response

from conversations.errors import LogError
from conversations_ops.read_model.services import service_names
from conversations_ops.web.desk import Desk
from conversations_ops.web.hidden import letters_for, queues_for, sides_for, ways_for
from conversations_ops.web.pages.dialogs import id_of, unknown
from conversations_ops.web.rendering import Pages, clock, session_of
from conversations_ops.web.users import User
from conversations_ops.why.across import causes_across
from conversations_ops.why.cause import Cause
from conversations_ops.why.collected import facts_of
from conversations_ops.why.facts import Facts


def routes(desk: Desk, pages: Pages) -> APIRouter:
    """Return the page about the causes of a dialog."""
    router = APIRouter()

    @router.get("/dialogs/{name}/why")
    def why(request: Request, name: str) -> Response:
        conversation = id_of(name)
        user = session_of(request).user
        facts: dict[str, Facts] = {}
        services: dict[str, list[str]] = {}
        troubles = {cluster: live.progress.trouble for cluster, live in desk.others.items() if live.progress.trouble}
        for cluster, live in desk.clusters.items():
            if cluster in troubles:
                continue  # it would only be waited for
            try:
                with live.file() as file:
                    services[cluster] = service_names(file)
                    facts[cluster] = _seen(user, facts_of(live.kafka, file, conversation))
            except LookupError:
                continue
            except LogError as error:
                if not cluster:
                    raise
                troubles[cluster] = str(error)
        if not facts:
            raise HTTPException(404, unknown(name))
        found = [_at(desk, it) for it in causes_across(facts, services, clock)]
        first = next(iter(facts.values()))
        return pages.page(request, "why.html", name=first.sides[0].name, causes=found, troubles=troubles)

    return router


def _seen(user: User, facts: Facts) -> Facts:
    """Return facts as a user may see them."""
    shown = dict(zip(facts.queues, queues_for(user, list(facts.queues.values())), strict=True))
    ways = {peer: ways_for(user, it) for peer, it in facts.ways.items()}
    sides, letters = sides_for(user, facts.sides), letters_for(user, facts.letters)
    return replace(facts, sides=sides, letters=letters, queues=shown, ways=ways)


def _at(desk: Desk, it: Cause) -> Cause:
    """Let the command of a cause on another cluster name that cluster."""
    if not it.cluster or not it.next.startswith("conversations "):
        return it
    kafka = desk.others[it.cluster].kafka
    where = shlex.join([f"--bootstrap={kafka.bootstrap}", f"--namespace={kafka.namespace}"])
    return it._replace(next=f"{it.next} {where}")
