"""``conversations transmission``: what services have sent and their peers have not acknowledged, with the reason of each."""

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
from conversations_ops.cli.one_side import answering, id_of
from conversations_ops.cli.output import Json, show
from conversations_ops.console.exit_codes import EXIT_CODES
from conversations_ops.console.tables import as_text
from conversations_ops.console.times import clock_of, moment, written
from conversations_ops.operate.dialogs import not_known
from conversations_ops.operate.transmissions import NOT_KEPT, Transmission
from conversations_ops.printable import counted, side_word
from conversations_ops.read_model.services import chosen
from conversations_ops.read_model.transmissions import Transmissions, transmissions, transmissions_of
from conversations_ops.why.transmissions import reason, surroundings

app = typer.Typer(
    help="Show what was sent and is not acknowledged, as sys.transmission_queue does.",
    no_args_is_help=True,
    epilog=EXIT_CODES,
)
HEADERS = ("DIALOG", "SERVICE", "SIDE", "TO", "NUMBER", "TYPE", "BYTES", "AGE", "REASON")


@app.callback()
def group() -> None:
    """Keep ``list`` a command of its own: the only command of a group would replace the group."""


@app.command("list", epilog=EXIT_CODES, cls=Command)
def list_transmissions(
    context: typer.Context,
    service: Annotated[
        str,
        typer.Option(
            autocompletion=completion.services, help="Only what this service has sent. Default: all services."
        ),
    ] = "",
    dialog: Annotated[str, typer.Option(metavar="ID", help="Only what both sides of this dialog have sent.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="List at most so many.")] = 100,
    as_json: Json = False,
) -> None:
    """List each message, END and ERROR that waits for its peer, and the reason.

    It was transmitted, and the peer has not acknowledged it; or its destination cannot take it yet. The last column says what it waits for, as
    the transmission_status of Service Broker does. The oldest dialog comes first.

    Between two clusters, a side transmits again after 4, 8, 16, 32 and then always 64 seconds. How often it was tried is counted by this
    schedule. BYTES are those of the body. The type is ? if the side does not keep the message.

    \b
    Examples:
      conversations transmission list --service orders
      conversations transmission list --dialog 0199c1f2-0000-7000-8000-000000000001
      conversations transmission list --json | jq -r '.transmissions[] | select(.cluster) | .reason' | sort | uniq -c
    """
    own = id_of(dialog) if dialog else b""
    kafka = kafka_of(context)
    with answering(as_json), read_model(kafka) as file:
        chosen(kafka, file, service)
        found = (
            transmissions_of(file, kafka.namespace, own, service, limit)
            if own
            else transmissions(file, kafka.namespace, service, limit)
        )
        if found is None:
            raise not_known(own, service)
        now = time.time_ns() // 1_000
        known = surroundings(kafka, file, found, now)
        clock = clock_of(now)
        reasons = [reason(it, known, clock) for it in found.first]
        if as_json:
            clusters = {peer: way.cluster for peer, way in known.ways.items()}
            listed = [_plain(it, why, clusters.get(it.peer)) for it, why in zip(found.first, reasons, strict=True)]
            show({"transmissions": listed, "total": found.total}, "", as_json=True)
        else:
            show({}, _text(found, reasons, kafka, now), as_json=False)


# -- showing -----------------------------------------------------------------------------------------------------------


def _text(found: Transmissions, reasons: Sequence[str], kafka: Kafka, now: int) -> str:
    if not found.first:
        return f"everything that the services of {kafka.namespace} have sent is acknowledged"
    rows = [
        (
            it.conversation, it.service, side_word(initiator=it.initiator), it.peer, "" if it.number < 0 else it.number, it.what,
            "" if it.what == NOT_KEPT else it.size, _age(it, now), why,
        )
        for it, why in zip(found.first, reasons, strict=True)
    ]  # fmt: skip
    rest = found.total - len(found.first)
    more = f"; {rest:,} more (--limit lists more)" if rest else ""
    oldest = min((it for it in found.first if it.sent_at is not None), key=lambda it: it.sent_at or 0, default=None)
    age = "" if oldest is None else f", the oldest for {_age(oldest, now)}"
    return f"{as_text(HEADERS, rows, whole=HEADERS[:-1])}\n{counted(len(found.first), 'envelope')} not acknowledged{age}{more}"


def _age(it: Transmission, now: int) -> str:
    if it.sent_at is None:
        return ""
    try:
        return written(timedelta(microseconds=max(0, now - it.sent_at)))
    except OverflowError:
        return f"{now - it.sent_at} us"


def _plain(it: Transmission, why: str, cluster: str | None) -> dict[str, object]:
    return {
        "conversation": it.conversation, "service": it.service, "partition": it.partition, "side": side_word(initiator=it.initiator), "peer": it.peer,
        "cluster": cluster, "contract": it.contract, "number": None if it.number < 0 else it.number,
        "type": None if it.what == NOT_KEPT else it.what, "bytes": None if it.what == NOT_KEPT else it.size,
        "sent_at": None if it.sent_at is None else moment(it.sent_at), "delayed": it.delayed, "tries": it.tries,
        "next_try": None if it.next_try is None else moment(it.next_try), "reason": why,
    }  # fmt: skip
