"""``conversations timers``: the timers of dialogs, when they are due, and how late they are."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated

import typer

from conversations.config import Kafka
from conversations_ops.cli import completion
from conversations_ops.cli.catching_up import read_model
from conversations_ops.cli.kafka_options import Command, kafka_of
from conversations_ops.cli.one_side import answering, id_of, id_or_none
from conversations_ops.cli.option_errors import about_option
from conversations_ops.cli.output import Json, show
from conversations_ops.console.exit_codes import Exit
from conversations_ops.console.tables import as_text
from conversations_ops.console.times import moment, span, written
from conversations_ops.operate.dialogs import not_known
from conversations_ops.printable import counted, side_word
from conversations_ops.read_model.services import chosen
from conversations_ops.read_model.timers import Timer, Timers, timers, timers_of

app = typer.Typer()
HEADERS = ("TIMER", "DUE", "IN", "LATE", "SERVICE", "SIDE", "DIALOG", "CONTRACT", "PEER")
_MICROS = timedelta(microseconds=1)


@app.command(
    "timers", epilog="Exit codes: 0 no timer is overdue, 1 a timer is overdue, 2 no such service or dialog, 3 Kafka unreachable.", cls=Command
)  # fmt: skip
def list_timers(
    context: typer.Context,
    about: Annotated[
        str,
        typer.Argument(
            metavar="[ID|SERVICE]",
            autocompletion=completion.services,
            help="Only timers of this dialog, or of the dialogs of this service. Default: all services.",
        ),
    ] = "",
    service: Annotated[
        str, typer.Option(autocompletion=completion.services, help="The same as an argument SERVICE.")
    ] = "",
    conversation: Annotated[str, typer.Option(metavar="ID", help="The same as an argument ID.")] = "",
    late: Annotated[
        str, typer.Option(metavar="SPAN", help="A timer is overdue if it was due longer ago than this, e.g. 30s or 5m.")
    ] = "1m",
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="List at most so many timers.")] = 100,
    as_json: Json = False,
) -> None:
    """List the timers of dialogs, the one that is due first comes first.

    A timer that fires leaves this list. If its handler fails, `retries list` or `dead-letters list` has it. The end of a lifetime and
    the time of another attempt are not timers.

    A timer is overdue if it was due more than a minute ago (--late), by the clock of this machine. Then no worker of the service owns the
    partition, or the worker is behind: `conversations why SERVICE` says more.

    \b
    Examples:
      conversations timers orders
      conversations timers 0199c1f2-0000-7000-8000-000000000001
      conversations timers --late 5m > /dev/null || mail -s "A timer is overdue" ops@example.com < /dev/null     in a crontab
      conversations timers --json | jq -r '.timers[] | select(.overdue) | .conversation'
    """
    with about_option("--late"):
        patience = span(late)
    wanted, own = _about(about, service, conversation)
    kafka = kafka_of(context)
    with answering(as_json):
        now = time.time_ns() // 1_000
        before = now - patience // _MICROS
        found = _find(kafka, wanted, own, before, limit)
        rest = found.total - len(found.first[:limit])
        if as_json:
            data = {
                "timers": [_plain(it, now, before) for it in found.first[:limit]], "total": found.total, "overdue": found.overdue,
            }  # fmt: skip
            show(data, "", as_json=True)
        else:
            show({}, _text(found.first[:limit], now), as_json=False)
            if rest:
                typer.echo(f"{counted(rest, 'more timer')} (--limit lists more)", err=True)
    if found.overdue:
        raise typer.Exit(Exit.HUMAN)


def _find(kafka: Kafka, service: str, own: bytes, before: int, limit: int) -> Timers:
    with read_model(kafka) as file:
        if service:
            chosen(kafka, file, service)
        if not own:
            return timers(file, service, before, limit)
        found = timers_of(file, own, service, before)
    if found is None:
        raise not_known(own, service)
    return found


def _about(about: str, service: str, conversation: str) -> tuple[str, bytes]:
    """Return the name of a service and the id of a dialog; empty if none is meant.

    Raises:
        typer.BadParameter: one of them is given twice, or is no id.
    """
    own = id_or_none(about) or b""
    if about and own and conversation:
        raise typer.BadParameter("give the dialog once: as the argument, or with --conversation")
    if about and not own and service:
        raise typer.BadParameter("give the service once: as the argument, or with --service")
    return service or (about if not own else ""), own or (id_of(conversation) if conversation else b"")


# -- showing -----------------------------------------------------------------------------------------------------------


def _text(found: Sequence[Timer], now: int) -> str:
    if not found:
        return "no timer is set"
    rows = [
        (
            it.name or "(no name)", moment(it.due), _distance(it.due - now), _distance(now - it.due), it.service,
            side_word(initiator=it.initiator), it.conversation, it.contract, it.peer,
        )
        for it in found
    ]  # fmt: skip
    return as_text(HEADERS, rows, whole=("DUE", "IN", "LATE", "DIALOG"))


def _distance(micros: int) -> str:
    """Write a span of time; empty if it is not ahead."""
    if micros < 0:
        return ""
    try:
        return written(timedelta(microseconds=micros))
    except OverflowError:
        return f"{micros} us"


def _plain(it: Timer, now: int, before: int) -> dict[str, object]:
    return {
        "name": it.name, "due": moment(it.due), "late_seconds": max(0, now - it.due) / 1_000_000, "overdue": it.due < before,
        "service": it.service, "partition": it.partition, "conversation": it.conversation, "side": side_word(initiator=it.initiator), "contract": it.contract,
        "peer": it.peer,
    }  # fmt: skip
