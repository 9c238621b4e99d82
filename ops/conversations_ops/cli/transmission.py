"""``conversations transmission``: what services have sent and their peers have not acknowledged, with the reason of each."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, NamedTuple

import typer

from conversations.config import Kafka
from conversations_ops.cli import completion
from conversations_ops.cli.catching_up import read_model
from conversations_ops.cli.clusters import HERE, AlsoAt, clusters_of, everywhere, exit_for, unread_fields, unread_lines
from conversations_ops.cli.kafka_options import Command, kafka_of
from conversations_ops.cli.one_side import answering, id_of
from conversations_ops.cli.output import Json, show
from conversations_ops.console.exit_codes import EXIT_CODES
from conversations_ops.console.tables import as_text
from conversations_ops.console.times import clock_of, moment, written
from conversations_ops.operate.dialogs import not_known
from conversations_ops.operate.transmissions import NOT_KEPT, Transmission
from conversations_ops.printable import counted, side_word
from conversations_ops.read_model.file import File
from conversations_ops.read_model.services import chosen
from conversations_ops.read_model.transmissions import transmissions, transmissions_of
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
    cluster: AlsoAt = None,
    as_json: Json = False,
) -> None:
    """List each message, END and ERROR that waits for its peer, and the reason.

    It was transmitted, and the peer has not acknowledged it; or its destination cannot take it yet. The last column says what it waits for, as
    the transmission_status of Service Broker does. The oldest dialog comes first.

    Between two clusters, a side transmits again after 4, 8, 16, 32 and then always 64 seconds. How often it was tried is counted by this
    schedule. BYTES are those of the body. The type is ? if the side does not keep the message.

    With --cluster, what the services of that cluster have sent is listed, too, up to --limit envelopes of each cluster.

    \b
    Examples:
      conversations transmission list --service orders
      conversations transmission list --dialog 0199c1f2-0000-7000-8000-000000000001
      conversations transmission list --cluster emea
      conversations transmission list --json | jq -r '.transmissions[] | select(.cluster) | .reason' | sort | uniq -c
    """
    own = id_of(dialog) if dialog else b""
    kafka = kafka_of(context)
    with answering(as_json):
        others = clusters_of(kafka, cluster or ())
        now = time.time_ns() // 1_000

        def look(name: str, at: Kafka) -> Part:
            with read_model(at) as file:
                return _part(name, at, file, own, service, limit, now)

        found, unread = everywhere(kafka, others, look)
        parts = list(found.values())
        if as_json:
            listed = [_plain(it, part.cluster) for part in parts for it in part.waits]
            data = {"transmissions": listed, "total": sum(it.total for it in parts)}
            show({**data, "unread_clusters": unread_fields(unread)}, "", as_json=True)
        else:
            lines = [_text(parts, kafka, now, several=bool(others)), *unread_lines(unread)]
            show({}, "\n".join(lines), as_json=False)
    exit_for(unread)


class Waits(NamedTuple):
    """One envelope that waits, and why."""

    it: Transmission
    why: str
    to: str | None = None
    """The other cluster on which its peer lives; None if the peer lives on the same one."""


class Part(NamedTuple):
    """What waits on one cluster."""

    cluster: str
    """Its name; empty for the cluster of ``--bootstrap``."""
    waits: Sequence[Waits]
    total: int
    """Number of all envelopes that meet the conditions."""


def _part(cluster: str, kafka: Kafka, file: File, own: bytes, service: str, limit: int, now: int) -> Part:
    chosen(kafka, file, service)
    found = (
        transmissions_of(file, kafka.namespace, own, service, limit)
        if own
        else transmissions(file, kafka.namespace, service, limit)
    )
    if found is None:
        raise not_known(own, service)
    known, clock = surroundings(kafka, file, found, now), clock_of(now)
    to = {peer: way.cluster for peer, way in known.ways.items()}
    return Part(cluster, [Waits(it, reason(it, known, clock), to.get(it.peer)) for it in found.first], found.total)


# -- showing -----------------------------------------------------------------------------------------------------------


def _text(parts: Sequence[Part], kafka: Kafka, now: int, *, several: bool = False) -> str:
    every = [(part.cluster, waits.it, waits.why) for part in parts for waits in part.waits]
    if not every:
        return f"everything that the services of {kafka.namespace} have sent is acknowledged"
    headers = ("CLUSTER", *HEADERS) if several else HEADERS
    rows = [((cluster or HERE,) if several else ()) + _row(it, why, now) for cluster, it, why in every]
    rest = sum(it.total for it in parts) - len(every)
    more = f"; {rest:,} more (--limit lists more)" if rest else ""
    oldest = min((it for _, it, _ in every if it.sent_at is not None), key=lambda it: it.sent_at or 0, default=None)
    age = "" if oldest is None else f", the oldest for {_age(oldest, now)}"
    return (
        f"{as_text(headers, rows, whole=headers[:-1])}\n{counted(len(every), 'envelope')} not acknowledged{age}{more}"
    )


def _row(it: Transmission, why: str, now: int) -> tuple[object, ...]:
    return (
        it.conversation, it.service, side_word(initiator=it.initiator), it.peer, "" if it.number < 0 else it.number, it.what,
        "" if it.what == NOT_KEPT else it.size, _age(it, now), why,
    )  # fmt: skip


def _age(it: Transmission, now: int) -> str:
    if it.sent_at is None:
        return ""
    try:
        return written(timedelta(microseconds=max(0, now - it.sent_at)))
    except OverflowError:
        return f"{now - it.sent_at} us"


def _plain(waits: Waits, at: str) -> dict[str, object]:
    it = waits.it
    return {
        "at": at or None, "conversation": it.conversation, "service": it.service, "partition": it.partition, "side": side_word(initiator=it.initiator), "peer": it.peer,
        "cluster": waits.to, "contract": it.contract, "number": None if it.number < 0 else it.number,
        "type": None if it.what == NOT_KEPT else it.what, "bytes": None if it.what == NOT_KEPT else it.size,
        "sent_at": None if it.sent_at is None else moment(it.sent_at), "delayed": it.delayed, "tries": it.tries,
        "next_try": None if it.next_try is None else moment(it.next_try), "reason": waits.why,
    }  # fmt: skip
