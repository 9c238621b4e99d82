"""``conversations status``: one line for each service: its queue, its dialogs, what waits, and the first cause; and one line for each route."""

from __future__ import annotations

import sys
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from datetime import timedelta
from typing import Annotated, NamedTuple

import typer

from conversations.config import Kafka
from conversations.errors import LogError
from conversations_ops.cli.catching_up import read_model
from conversations_ops.cli.clusters import (
    HERE,
    AlsoAt,
    There,
    complete_at,
    exit_for,
    there_of,
    unread_fields,
    unread_lines,
)
from conversations_ops.cli.kafka_options import Command, kafka_of
from conversations_ops.cli.output import Json, failures, show
from conversations_ops.console.exit_codes import Exit
from conversations_ops.console.tables import as_text
from conversations_ops.console.times import clock_of, moment, next_try, written
from conversations_ops.printable import one_line
from conversations_ops.read_model.file import File
from conversations_ops.read_model.services import service_names
from conversations_ops.read_model.status import Status, cause, mending, next_command, plain, plain_stall, statuses
from conversations_ops.why.cause import Clock
from conversations_ops.why.routes import Reach, Route, condition, counted_most, routes_of, with_stalls
from conversations_ops.why.unowned import unowned_partitions, with_unowned

app = typer.Typer()
EVERY = 2.0
"""Seconds between two looks of ``--watch``."""
HEADERS = ("SERVICE", "QUEUE", "OPEN", "PENDING", "PARKED", "HELD", "LETTERS", "OLDEST WAIT", "FIRST CAUSE")
ROUTES = ("ROUTE TO", "FORWARDED", "UNACKNOWLEDGED", "NEXT TRY", "NOT CARRIED", "STATE")


class _Look(NamedTuple):
    """What one cluster shows."""

    cluster: str
    """Its name; empty for the cluster of ``--bootstrap``."""
    services: Sequence[Status] = ()
    routes: Sequence[Route] = ()
    failure: LogError | None = None
    """Why it cannot be looked at; None if it can."""
    without_routes: str = ""
    """Why its routes cannot be looked at; empty if they can."""
    without_owners: str = ""
    """Why it is not known which partitions have an owner; empty if it is."""

    @property
    def needs_person(self) -> bool:
        return any(it.needs_person for it in self.services)


@app.command(
    "status",
    epilog="Exit codes: 0 fine, 1 something waits for a person, 2 no such namespace or cluster, 3 Kafka unreachable.",
    cls=Command,
)
def status(
    context: typer.Context,
    watch: Annotated[bool, typer.Option("--watch", help="Look again every two seconds, until Ctrl-C.")] = False,
    cluster: AlsoAt = None,
    as_json: Json = False,
) -> None:
    """Show each service in one line: its queue, its dialogs, what waits, and the first cause.

    OPEN counts sides of dialogs, PENDING sent envelopes that the peer has not acknowledged, PARKED failed messages with the records behind
    them. HELD counts failed messages that wait for your decision, LETTERS open dead letters of dialogs that are over. FIRST CAUSE also says
    whether no worker runs while dialogs are open or records wait.

    A second table has the routes to other clusters: the partitions with a forwarder, what is not acknowledged, when it is tried again, and whether
    it is carried. NOT CARRIED counts envelopes that are not on the other cluster yet; it is known if --cluster names that cluster.

    With --cluster, both tables also have the rows of that cluster, and the exit code is that of all clusters. A cluster that cannot be read is named, and the
    others are shown.

    The first look reads the state topics. It keeps what it has read in a local file, so that later looks read only what is new.

    \b
    Examples:
      conversations status --bootstrap localhost:9092
      conversations status --watch
      conversations status --cluster emea --cluster apac=apac.settings
      conversations status --json | jq -r '.services[] | select(.needs_person) | .next'
      conversations status > /dev/null || mail -s "A dialog waits" ops@example.com < /dev/null     in a crontab
    """
    kafka = kafka_of(context)
    with failures(as_json=as_json):
        others = there_of(kafka, cluster or ())
        found = _look(kafka, others)
        while watch:
            if sys.stdout.isatty():
                typer.echo("\x1b[H\x1b[2J", nl=False)  # to the top of an empty screen
            _show(context, found, others, as_json=as_json)
            time.sleep(EVERY)
            found = _look(kafka, others)
    _show(context, found, others, as_json=as_json)
    if any(it.needs_person for it in found):
        raise typer.Exit(Exit.HUMAN)
    exit_for({it.cluster: it.failure for it in found if it.failure is not None})


def _look(kafka: Kafka, others: Mapping[str, There]) -> list[_Look]:
    """Look at all clusters. Those that cannot be read are not asked anything else.

    Raises:
        LogError: the cluster of ``--bootstrap`` cannot be read.
    """
    places = {"": kafka, **{name: it.kafka for name, it in others.items()}}
    files: dict[str, File] = {}
    found: dict[str, _Look] = {}
    with ExitStack() as stack:
        for name, at in places.items():
            try:
                files[name] = stack.enter_context(read_model(at))
            except LogError as error:
                if not name:
                    raise
                found[name] = _Look(name, failure=error)
        mine = service_names(files[""])

        def from_here(name: str, _: Collection[str]) -> Kafka | None:
            return places[name] if name in files else None

        def from_there(_: str, services: Collection[str]) -> Kafka | None:
            # Only its services tell that a cluster of another catalog is this one: addresses have many names.
            return kafka if set(mine).intersection(services) else None

        for name, file in files.items():
            found[name] = _look_at(name, places[name], file, from_there if name else from_here)
    return [found[name] for name in places]


def _look_at(cluster: str, kafka: Kafka, file: File, reach: Reach) -> _Look:
    look = _Look(cluster, statuses(file))
    try:
        look = look._replace(services=with_unowned(look.services, unowned_partitions(kafka, file, look.services)))
    except LogError as error:  # for example, a right on the group of a service is missing
        look = look._replace(without_owners=str(error))
    try:
        routes = routes_of(kafka, file, reach, time.time_ns() // 1_000)
    except LogError as error:  # for example, a right on the group of the forwarders is missing
        return look._replace(without_routes=str(error))
    return look._replace(services=with_stalls(look.services, routes), routes=routes)


# -- showing -----------------------------------------------------------------------------------------------------------


def _show(context: typer.Context, found: Sequence[_Look], others: Mapping[str, There], *, as_json: bool) -> None:
    def ready(look: _Look, command: str) -> str:
        return complete_at(context, command, look.cluster, others)

    services = [
        {"cluster": look.cluster or None, **plain(it, moment), "next": ready(look, next_command(it))}
        for look in found
        for it in look.services
    ]
    routes = [_plain_route(look, route, ready(look, _mend(route))) for look in found for route in look.routes]
    unread = {look.cluster: look.failure for look in found if look.failure is not None}
    hidden = {look.cluster or HERE: look.without_routes for look in found if look.without_routes}
    ownerless = {look.cluster or HERE: look.without_owners for look in found if look.without_owners}
    person = dict.fromkeys(
        command for look in found for it in look.services if it.needs_person and (command := ready(look, next_command(it)))
    )  # fmt: skip
    text = _text(found, time.time_ns() // 1_000, several=bool(others))
    lines = [text, *unread_lines(unread)]
    lines += [one_line(f"the routes of {name} cannot be looked at: {why}") for name, why in hidden.items()]
    lines += [one_line(f"the workers of {name} cannot be looked at: {why}") for name, why in ownerless.items()]
    lines += [one_line(f"next: {command}") for command in person]
    data = {
        "services": services, "routes": routes, "unread_clusters": unread_fields(unread), "unread_routes": hidden, "unread_workers": ownerless,
    }  # fmt: skip
    show(data, "\n".join(lines), as_json=as_json)


def _mend(route: Route) -> str:
    stall = route.stall()
    return "" if stall is None else mending(stall)


def _text(found: Sequence[_Look], now: int, *, several: bool) -> str:
    clock = clock_of(now)
    services = [(look, _row(it, now, clock)) for look in found for it in look.services]
    if not services:
        return "the namespace has no service with topics"
    routes = [(look, _route_row(it, now, clock)) for look in found for it in look.routes]
    tables = [_table("CLUSTER", HEADERS, services, several=several)]
    if routes:
        tables += ["", _table("FROM", ROUTES, routes, several=several)]
    return "\n".join(tables)


def _table(first: str, headers: Sequence[str], rows: Sequence[tuple[_Look, Sequence[object]]], *, several: bool) -> str:
    if not several:
        return as_text(headers, [row for _, row in rows], whole=headers[:-1])
    named = [(look.cluster or HERE, *row) for look, row in rows]
    return as_text((first, *headers), named, whole=(first, *headers[:-1]))


def _row(it: Status, now: int, clock: Clock) -> Sequence[object]:
    oldest = "" if it.oldest is None else written(timedelta(microseconds=now - it.oldest))
    why = cause(it, clock, texts=True)
    return it.service, _queue(it), it.open, it.pending, it.parked, it.held, it.letters, oldest, why


def _route_row(it: Route, now: int, clock: Clock) -> Sequence[object]:
    again = next_try(it.next_try, now).removeprefix("next try ")
    forwarded = f"{len(it.way.carried)} of {it.way.partitions}"
    return it.way.cluster, forwarded, it.unacknowledged, again, counted_most(it.not_carried), condition(it, clock)


def _plain_route(look: _Look, it: Route, command: str) -> Mapping[str, object]:
    stall = it.stall()
    return {
        "from": look.cluster or None, "to": it.way.cluster, "partitions": it.way.partitions, "forwarded": sorted(it.way.carried),
        "unacknowledged": it.unacknowledged, "next_try": None if it.next_try is None else moment(it.next_try), "not_carried": it.not_carried,
        "down": None if stall is None else plain_stall(stall, moment), "services_not_found": {name: moment(at) for name, at in it.lacked.items()},
        "next": command or None,
    }  # fmt: skip


def _queue(it: Status) -> str:
    if not it.off:
        return "on"
    return "OFF" if it.off == it.partitions else f"OFF {it.off}/{it.partitions}"
