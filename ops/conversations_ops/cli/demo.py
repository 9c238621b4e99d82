"""``conversations demo``: sends a month of real flights through two services, with faults, and checks the results."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Annotated

import typer
from rich.console import Console

from conversations_ops.cli.output import Json, failures, show_error
from conversations_ops.console.exit_codes import Exit
from conversations_ops.demo.failing import DemoFailed
from conversations_ops.demo.flights import NoFlights
from conversations_ops.host.foreground import ended_by_sigterm

NoFaults = Annotated[bool, typer.Option("--no-faults", help="Do not duplicate records, and kill no worker.")]
Keep = Annotated[
    bool, typer.Option("--keep", help="Keep Kafka's data and the workers' log, and print their directory.")
]
NoSpark = Annotated[
    bool, typer.Option("--no-spark", help="Do not run the Spark jobs at the end: archive, audit and sums.")
]
ByHand = Annotated[bool, typer.Option("--console", help="Redrive the held flights by hand, in the web console.")]
Clusters = Annotated[
    int, typer.Option(min=1, max=2, help="2 puts each service on a Kafka of its own, with forwarders between them.")
]


app = typer.Typer()


@app.command("demo")
def demo(
    no_faults: NoFaults = False,
    keep: Keep = False,
    no_spark: NoSpark = False,
    by_hand: ByHand = False,
    clusters: Clusters = 1,
    as_json: Json = False,
) -> None:
    """Run two services on real flight data, and check that every message took effect once, in order.

    Starts a Kafka broker on this machine (Java 17 or newer, no Docker; the
    first start downloads 45 MB) and two services in worker processes of
    `conversations run`. Sends every flight of January 2013 from New York
    (CC0, from the extra `examples`): 26,849 messages on 3,148 dialogs.

    \b
      operations     begins a dialog for each aircraft and sends its flights;
                     ends it after the last answer, and receives a summary
      aircraft-log   answers every flight; keeps the log of each aircraft as
                     the state of the dialog's group: flights flown and
                     cancelled, minutes, airports, longest gap between departures

    Meanwhile the demo causes faults. It appends 2 % of the records a second
    time: half of them at once, the others at the end. It kills one worker
    of aircraft-log (SIGKILL). The handlers need no code for these faults:
    ops/conversations_ops/demo/aircraft_log.py has no deduplication, no lock
    and no retry loop.

    15 flights of 14 aircraft departed, but have no arrival in the data. For
    these flights the handler raises an exception. The handler runs again at
    once, after 0.5 s and after 1 s. Then the flight is held. Later flights of
    the same aircraft wait behind it, in order. The flights of all other
    aircraft are handled meanwhile.

    Then the demo acts as an operator. It enters the arrival of one flight
    (dead-letters edit). For the other held flights it starts a new release of
    aircraft-log. The new release counts a flight without an arrival as diverted
    (ops/conversations_ops/demo/mended.py). The demo gives the held flights back
    to the new release: three first, then the rest (redrive). With --console you
    give them back yourself, in the web console.

    At the end every summary is compared with the result of plain code on the
    same file. Every flight must be answered, once and in order; none may be held.

    Then Spark archives all messages in Parquet files. It audits all topics for
    lost, repeated and misordered messages. It adds up the flights and minutes
    of each aircraft and day. These sums must equal the sums of the CSV file.

    With --clusters 2, operations is on one Kafka and aircraft-log on another one.
    Two forwarders in each direction carry the messages. One of them is killed.
    At the end, every envelope that left a cluster must be in the queue on the
    other one, once. Spark is left out, because its archive reads one cluster.

    \b
    Examples:
      conversations demo
      conversations demo --no-faults
      conversations demo --console     # you redrive, in a browser
      conversations demo --clusters 2  # the services are on two Kafkas
      conversations demo --keep        # keeps the topics, to look at them later
      conversations demo --json | tail -1 | jq .mismatches

    Exit codes: 0 all results are equal, 1 a result differs, or the demo failed.
    """
    from conversations_ops.demo import report
    from conversations_ops.demo.run import demonstrate
    from conversations_ops.demo.screen import Screen

    screen = Screen(Console(stderr=as_json))
    with failures(as_json=as_json), _explained(as_json=as_json), ended_by_sigterm():
        result = demonstrate(
            screen, faults=not no_faults, keep=keep, spark=not no_spark, by_hand=by_hand, clusters=clusters
        )
    if as_json:
        typer.echo(json.dumps(report.facts(result)))
    else:
        report.tell(screen, result)
    pipeline = result.pipeline
    if result.comparison.mismatches or pipeline.mismatches or pipeline.audit.get("faults"):
        raise typer.Exit(Exit.HUMAN)


@contextlib.contextmanager
def _explained(*, as_json: bool) -> Iterator[None]:
    try:
        yield
    except (NoFlights, DemoFailed) as error:
        show_error(str(error), type(error).__name__, as_json=as_json)
        raise typer.Exit(Exit.HUMAN) from error
