"""``conversations events``: prints the events topic."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Annotated

import typer

from conversations.protocol.events import EVENTS
from conversations_ops.cli import completion
from conversations_ops.cli.kafka_options import Command, kafka_of
from conversations_ops.cli.option_errors import about_option
from conversations_ops.cli.output import Json, failures, show
from conversations_ops.console.exit_codes import EXIT_CODES
from conversations_ops.console.tables import as_text
from conversations_ops.console.times import moment, time_since
from conversations_ops.operate.events import Told, told
from conversations_ops.printable import one_line

app = typer.Typer()
HEADERS = ("AT", "EVENT", "SERVICE", "DIALOG", "SAYS")


@app.command("events", epilog=EXIT_CODES, cls=Command)
def events(
    context: typer.Context,
    service: Annotated[
        str, typer.Option(autocompletion=completion.services, help="Only events that name this service.")
    ] = "",
    dialog: Annotated[str, typer.Option(help="Only events about this dialog.")] = "",
    event: Annotated[str, typer.Option(metavar="NAME", help="Only events with this name, e.g. RESOLVED.")] = "",
    since: Annotated[
        str, typer.Option(metavar="TIME", help="Only events of this time (UTC) or later, or of the last 1h, 7d, ...")
    ] = "",
    follow: Annotated[bool, typer.Option("--follow", help="Print also each later event, until Ctrl-C.")] = False,
    as_json: Json = False,
) -> None:
    """Print the events of workers and operators: who decided what and why, what was given up on, which queues went off.

    docs/events.md lists all events. With --follow and --json, each event is one line of JSON.

    \b
    Examples:
      conversations events --event RESOLVED --since 2026-11-21
      conversations events --dialog 0199c1f2-0000-7000-8000-000000000001
      conversations events --service orders --since 1h
      conversations events --service orders --follow
      conversations events --json | jq '.events[] | select(.by == "root")'
    """
    if event and event not in EVENTS:
        raise typer.BadParameter(f"--event {event}: one of {', '.join(sorted(EVENTS))}")
    with about_option("--since"):
        after = time_since(since, time.time_ns() // 1_000)

    def wanted(it: Told) -> bool:
        return service in ("", it.service) and dialog in ("", *it.dialogs) and event in ("", it.name) and it.at >= after

    kafka = kafka_of(context)
    with failures(as_json=as_json):
        parts = told(kafka, service, follow=follow)
        _print([it for it in next(parts, []) if wanted(it)], as_json=as_json, follow=follow)
        for part in parts:
            _print_later([it for it in part if wanted(it)], as_json=as_json)


def _print(found: Sequence[Told], *, as_json: bool, follow: bool) -> None:
    if as_json and follow:
        _print_later(found, as_json=True)
    elif as_json:
        show({"events": [it.fields for it in found]}, "", as_json=True)
    elif found:
        show({}, as_text(HEADERS, map(_row, found), whole=("AT", "EVENT", "DIALOG")), as_json=False)
    elif not follow:
        show({}, "no such event", as_json=False)


def _print_later(found: Sequence[Told], *, as_json: bool) -> None:
    between = "  " if sys.stdout.isatty() else "\t"
    for it in found:
        show(it.fields, between.join(map(one_line, _row(it))), as_json=as_json)
    sys.stdout.flush()  # who reads the pipe sees each event at once


def _row(it: Told) -> tuple[str, ...]:
    return moment(it.at), it.name, it.service, " ".join(it.dialogs), it.says
