"""``conversations status``: one line for each service: its queue, its dialogs, what waits, and the first cause."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated

import typer

from conversations.config import Kafka
from conversations_ops.cli.catching_up import read_model
from conversations_ops.cli.kafka_options import Command, complete, kafka_of
from conversations_ops.cli.output import Json, failures, show
from conversations_ops.console.exit_codes import Exit
from conversations_ops.console.tables import as_text
from conversations_ops.console.times import clock_of, moment, written
from conversations_ops.printable import one_line
from conversations_ops.read_model.status import Status, cause, next_command, plain, statuses

app = typer.Typer()
EVERY = 2.0
"""Seconds between two looks of ``--watch``."""
HEADERS = ("SERVICE", "QUEUE", "OPEN", "PENDING", "PARKED", "HELD", "LETTERS", "OLDEST WAIT", "FIRST CAUSE")


@app.command(
    "status",
    epilog="Exit codes: 0 fine, 1 something waits for a person, 2 no such namespace, 3 Kafka unreachable.",
    cls=Command,
)
def status(
    context: typer.Context,
    watch: Annotated[bool, typer.Option("--watch", help="Look again every two seconds, until Ctrl-C.")] = False,
    as_json: Json = False,
) -> None:
    """Show each service in one line: its queue, its dialogs, what waits, and the first cause.

    OPEN counts sides of dialogs, PENDING sent envelopes that the peer has not acknowledged, PARKED failed messages with the records behind
    them. HELD counts failed messages that wait for your decision, LETTERS open dead letters of dialogs that are over.

    The first look reads the state topics. It keeps what it has read in a local file, so that later looks read only what is new.

    \b
    Examples:
      conversations status --bootstrap localhost:9092
      conversations status --watch
      conversations status --json | jq -r '.services[] | select(.needs_person) | .next'
      conversations status > /dev/null || mail -s "A dialog waits" ops@example.com < /dev/null     in a crontab
    """
    kafka = kafka_of(context)
    with failures(as_json=as_json):
        found = _look(kafka)
        while watch:
            if sys.stdout.isatty():
                typer.echo("\x1b[H\x1b[2J", nl=False)  # to the top of an empty screen
            _show(context, found, as_json=as_json)
            time.sleep(EVERY)
            found = _look(kafka)
    _show(context, found, as_json=as_json)
    if any(it.needs_person for it in found):
        raise typer.Exit(Exit.HUMAN)


def _look(kafka: Kafka) -> Sequence[Status]:
    with read_model(kafka) as file:
        return statuses(file)


def _show(context: typer.Context, found: Sequence[Status], *, as_json: bool) -> None:
    now = time.time_ns() // 1_000
    commands = [complete(context, next_command(it)) for it in found]
    services = [{**plain(it, moment), "next": command} for it, command in zip(found, commands, strict=True)]
    person = [command for it, command in zip(found, commands, strict=True) if it.needs_person and command]
    show({"services": services}, _text(found, person, now), as_json=as_json)


def _text(found: Sequence[Status], commands: Sequence[str], now: int) -> str:
    if not found:
        return "the namespace has no service with topics"
    clock = clock_of(now)
    rows = [
        (
            it.service, _queue(it), it.open, it.pending, it.parked, it.held, it.letters,
            "" if it.oldest is None else written(timedelta(microseconds=now - it.oldest)), cause(it, clock, texts=True),
        )
        for it in found
    ]  # fmt: skip
    table = as_text(HEADERS, rows, whole=HEADERS[:-1])
    return "\n".join([table, *(one_line(f"next: {command}") for command in commands)])


def _queue(it: Status) -> str:
    if not it.off:
        return "on"
    return "OFF" if it.off == it.partitions else f"OFF {it.off}/{it.partitions}"
