"""``conversations why``: why a dialog or a service stalls, as a chain of causes, and the next command."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import typer

from conversations.config import Kafka
from conversations_ops.cli import completion
from conversations_ops.cli.catching_up import read_model
from conversations_ops.cli.kafka_options import Command, complete, kafka_of
from conversations_ops.cli.one_side import answering, id_or_none
from conversations_ops.cli.output import Json, show
from conversations_ops.console.exit_codes import Exit
from conversations_ops.console.times import ahead, moment
from conversations_ops.printable import counted, one_line
from conversations_ops.read_model.file import File
from conversations_ops.read_model.letters import Waits, groups, open_groups
from conversations_ops.read_model.peers import peer_waits
from conversations_ops.why.cause import Cause, Clock, next_command
from conversations_ops.why.causes import causes, headline
from conversations_ops.why.collected import facts_of, facts_of_service
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
def why(context: typer.Context, about: About, as_json: Json = False) -> None:
    """Say why a dialog or a service does not go on: the causes in the order in which they act, and the next command.

    The command can be run as it is printed. docs/why.md has all causes, and says which of them a command mends.

    \b
    Causes: queue-off, no-owner, no-forwarder, cluster-away, set-aside, open-transaction, unfit, held, brake, retry-waits, slow-handler, unread, gap, unknown-destination,
    right-missing, delayed, pool, broken, peer-stalls, unacknowledged, lifetime-near, expired, letters.

    \b
    Examples:
      conversations why 0199c1f2-0000-7000-8000-000000000001
      conversations why 0199c1f2-0000-7000-8000-000000000001 --json | jq -r '.causes[].cause'
      conversations why orders
    """
    kafka, own = kafka_of(context), id_or_none(about)
    with answering(as_json):
        with read_model(kafka) as file:
            told = _about_service(kafka, file, about) if own is None else _about_dialog(kafka, file, own)
        told = told._replace(causes=[it._replace(next=complete(context, it.next)) for it in told.causes])
        command = next_command(told.causes)
        data = {
            told.kind: told.name, "headline": told.headline, "causes": [_plain(it) for it in told.causes], "next": command or None,
        }  # fmt: skip
        lines = [
            f"{told.name}  {told.headline}",
            *(f"  {number}. {it.service}: {it.says}" for number, it in enumerate(told.causes, 1)),
        ]
        if not told.causes:
            lines.append(f"  nothing stalls{told.otherwise}")
        if command:
            lines.append(f"next: {command}")
        show(data, "\n".join(map(one_line, lines)), as_json=as_json)
    if any(it.needs_person for it in told.causes):
        raise typer.Exit(Exit.HUMAN)


class _Told(NamedTuple):
    kind: str
    name: str
    headline: str
    causes: list[Cause]
    otherwise: str


def _about_dialog(kafka: Kafka, file: File, own: bytes) -> _Told:
    facts = facts_of(kafka, file, own)
    found = causes(facts, _clock(facts.now))
    otherwise = ": both sides are over, or wait for their application"
    return _Told("conversation", facts.sides[0].name, headline(facts), found, otherwise)


def _about_service(kafka: Kafka, file: File, service: str) -> _Told:
    facts = facts_of_service(kafka, file, service)
    held, retried = (groups(file, waits, service) for waits in (Waits.PERSON, Waits.RETRY))
    found = causes_of_service(
        facts, service, held, retried, open_groups(file, service), peer_waits(file, service), _clock(facts.now)
    )
    return _Told("service", service, counted(len(facts.queues), "partition"), found, "")


def _plain(it: Cause) -> dict[str, object]:
    return {
        "cause": it.name, "service": it.service, "says": it.says, "since": None if it.since is None else moment(it.since),
        "needs_person": it.needs_person, "next": it.next or None,
    }  # fmt: skip


def _clock(now: int) -> Clock:
    def write(at: int) -> str:
        return ahead(at, now / 1_000_000) if at > now else moment(at)

    return write
