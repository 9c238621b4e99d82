"""``conversations why``: why a dialog stalls, as a chain of causes, and the next command."""

from __future__ import annotations

import typer

from conversations_ops.cli.catching_up import read_model
from conversations_ops.cli.kafka_options import Command, kafka_of
from conversations_ops.cli.one_side import Id, answering, id_of
from conversations_ops.cli.output import Json, show
from conversations_ops.console.exit_codes import Exit
from conversations_ops.console.times import ahead, moment
from conversations_ops.printable import one_line
from conversations_ops.why.causes import Cause, Clock, causes, headline, next_command
from conversations_ops.why.collected import facts_of

app = typer.Typer()


@app.command(
    "why", epilog="Exit codes: 0 nothing waits for a person, 1 something does, 2 no such dialog, 3 Kafka unreachable.", cls=Command
)  # fmt: skip
def why(context: typer.Context, conversation: Id, as_json: Json = False) -> None:
    """Say why a dialog does not go on: the causes at both sides in the order in which they act, and the next command.

    \b
    Causes: queue-off, no-owner, held, brake, retry-waits, slow-handler, unread, gap, unknown-destination, delayed, pool, broken, unacknowledged,
    lifetime-near, letters.

    \b
    Examples:
      conversations why 0199c1f2-0000-7000-8000-000000000001
      conversations why 0199c1f2-0000-7000-8000-000000000001 --json | jq -r '.causes[].cause'
    """
    kafka, own = kafka_of(context), id_of(conversation)
    with answering(as_json):
        with read_model(kafka) as file:
            facts = facts_of(kafka, file, own)
        found = causes(facts, _clock(facts.now))
        command = next_command(found)
        data = {
            "conversation": facts.sides[0].name, "headline": headline(facts), "causes": [_plain(it) for it in found], "next": command or None,
        }  # fmt: skip
        lines = [
            f"{facts.sides[0].name}  {headline(facts)}",
            *(f"  {number}. {it.service}: {it.says}" for number, it in enumerate(found, 1)),
        ]
        if not found:
            lines.append("  nothing stalls: both sides are over, or wait for their application")
        if command:
            lines.append(f"next: {command}")
        show(data, "\n".join(map(one_line, lines)), as_json=as_json)
    if any(it.needs_person for it in found):
        raise typer.Exit(Exit.HUMAN)


def _plain(it: Cause) -> dict[str, object]:
    return {
        "cause": it.name, "service": it.service, "says": it.says, "since": None if it.since is None else moment(it.since),
        "needs_person": it.needs_person, "next": it.next or None,
    }  # fmt: skip


def _clock(now: int) -> Clock:
    def write(at: int) -> str:
        return ahead(at, now / 1_000_000) if at > now else moment(at)

    return write
