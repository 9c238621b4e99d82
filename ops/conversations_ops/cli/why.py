"""``conversations why``: why a dialog or a service stalls, as a chain of causes, and the next command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, NamedTuple

import typer

from conversations.config import Kafka
from conversations.errors import LogError
from conversations_ops.cli import completion
from conversations_ops.cli.catching_up import read_model
from conversations_ops.cli.clusters import (
    AlsoAt,
    complete_at,
    everywhere,
    exit_for,
    there_of,
    unread_fields,
    unread_lines,
)
from conversations_ops.cli.kafka_options import Command, kafka_of
from conversations_ops.cli.one_side import answering, id_or_none
from conversations_ops.cli.output import Json, show
from conversations_ops.console.exit_codes import Exit
from conversations_ops.console.times import ahead, moment
from conversations_ops.printable import counted, one_line
from conversations_ops.read_model.file import File
from conversations_ops.read_model.letters import Waits, groups, open_groups
from conversations_ops.read_model.peers import peer_waits
from conversations_ops.read_model.services import service_names
from conversations_ops.why.across import causes_across, sides_of
from conversations_ops.why.cause import Cause, Clock, next_command
from conversations_ops.why.causes import headline
from conversations_ops.why.collected import facts_of, facts_of_service
from conversations_ops.why.facts import Facts
from conversations_ops.why.service import causes_of_service

app = typer.Typer()
About = Annotated[
    str,
    typer.Argument(
        metavar="ID|SERVICE", help="Id of a dialog, or name of a service.", autocompletion=completion.services
    ),
]


@app.command(
    "why", epilog="Exit codes: 0 nothing waits for a person, 1 something does, 2 no such dialog or service, 3 Kafka unreachable.", cls=Command
)  # fmt: skip
def why(context: typer.Context, about: About, cluster: AlsoAt = None, as_json: Json = False) -> None:
    """Say why a dialog or a service does not go on: the causes in the order in which they act, and the next command.

    The command can be run as it is printed. docs/why.md has all causes, and says which of them a command mends.

    With --cluster, a dialog with a service on that cluster is looked at from both sides, and a service may live there. If the cluster cannot be
    read, that is said, with the causes on this one.

    \b
    Causes: queue-off, no-owner, no-forwarder, cluster-away, set-aside, open-transaction, unfit, held, brake, retry-waits, slow-handler, unread, gap, unknown-destination,
    right-missing, delayed, pool, broken, peer-stalls, unacknowledged, lifetime-near, expired, letters.

    \b
    Examples:
      conversations why 0199c1f2-0000-7000-8000-000000000001
      conversations why 0199c1f2-0000-7000-8000-000000000001 --json | jq -r '.causes[].cause'
      conversations why orders
      conversations why 0199c1f2-0000-7000-8000-000000000001 --cluster emea
    """
    kafka, own = kafka_of(context), id_or_none(about)
    with answering(as_json):
        others = there_of(kafka, cluster or ())
        told, unread = _look(kafka, {name: it.kafka for name, it in others.items()}, about, own)
        told = told._replace(
            causes=[it._replace(next=complete_at(context, it.next, it.cluster, others)) for it in told.causes]
        )
        command = next_command(told.causes)
        data = {
            told.kind: told.name, "headline": told.headline, "causes": [_plain(it) for it in told.causes], "next": command or None,
            "unread_clusters": unread_fields(unread),
        }  # fmt: skip
        lines = [
            f"{told.name}  {told.headline}",
            *(f"  {number}. {_place(it)}: {it.says}" for number, it in enumerate(told.causes, 1)),
        ]
        if not told.causes:
            lines.append(f"  nothing stalls{told.otherwise}")
        lines += [f"  {line}" for line in unread_lines(unread)]
        if command:
            lines.append(f"next: {command}")
        show(data, "\n".join(map(one_line, lines)), as_json=as_json)
    if any(it.needs_person for it in told.causes):
        raise typer.Exit(Exit.HUMAN)
    exit_for(unread)


class _Told(NamedTuple):
    kind: str
    name: str
    headline: str
    causes: list[Cause]
    otherwise: str


def _look(
    kafka: Kafka, others: Mapping[str, Kafka], about: str, own: bytes | None
) -> tuple[_Told, dict[str, LogError]]:
    """Look at each cluster. Return what is told, and the clusters that cannot be read, with the reasons.

    Raises:
        LookupError: no cluster knows the dialog or the service.
        LogError: this cluster cannot be read.
    """
    if own is None:

        def of_service(name: str, at: Kafka) -> _Told:
            with read_model(at) as file:
                return _about_service(at, file, about, name)

        told, unread = everywhere(kafka, others, of_service)
        return next(iter(told.values())), unread
    services: dict[str, list[str]] = {}

    def of_dialog(name: str, at: Kafka) -> Facts:
        with read_model(at) as file:
            services[name] = service_names(file)
            return facts_of(at, file, own)

    facts, unread = everywhere(kafka, others, of_dialog)
    return _about_dialog(facts, services), unread


def _about_dialog(facts: Mapping[str, Facts], services: Mapping[str, Sequence[str]]) -> _Told:
    first = next(iter(facts.values()))
    both = replace(first, sides=sides_of(facts))
    otherwise = ": both sides are over, or wait for their application"
    return _Told(
        "conversation",
        first.sides[0].name,
        headline(both),
        causes_across(facts, services, _clock(first.now)),
        otherwise,
    )


def _about_service(kafka: Kafka, file: File, service: str, cluster: str) -> _Told:
    facts = facts_of_service(kafka, file, service)
    held, retried = (groups(file, waits, service) for waits in (Waits.PERSON, Waits.RETRY))
    found = causes_of_service(
        facts, service, held, retried, open_groups(file, service), peer_waits(file, service), _clock(facts.now)
    )
    where = f" on {cluster}" if cluster else ""
    told = [it._replace(cluster=cluster) for it in found]
    return _Told("service", service, f"{counted(len(facts.queues), 'partition')}{where}", told, "")


def _place(it: Cause) -> str:
    return f"{it.service} on {it.cluster}" if it.cluster else it.service


def _plain(it: Cause) -> dict[str, object]:
    return {
        "cause": it.name, "cluster": it.cluster or None, "service": it.service, "says": it.says, "since": None if it.since is None else moment(it.since),
        "needs_person": it.needs_person, "next": it.next or None,
    }  # fmt: skip


def _clock(now: int) -> Clock:
    def write(at: int) -> str:
        return ahead(at, now / 1_000_000) if at > now else moment(at)

    return write
