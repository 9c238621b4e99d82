"""``conversations demo``: a month of real flights through two services, with faults, checked."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Annotated

import typer
from rich.console import Console

from conversations_ops.cli.output import Json, failures, show_error
from conversations_ops.console.exit_codes import Exit
from conversations_ops.demo.flights import NoFlights
from conversations_ops.demo.workers import DemoFailed
from conversations_ops.host.foreground import ended_by_sigterm


def demo(
    no_faults: Annotated[
        bool, typer.Option("--no-faults", help="No duplicates on the wire, no killed worker.")
    ] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep Kafka's data and the workers' log, and say where.")
    ] = False,
    no_spark: Annotated[
        bool, typer.Option("--no-spark", help="Without the archive, the audit and the sums by Spark at the end.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Watch two services talk: real flights, exactly once and in order.

    Starts a Kafka broker on this machine (Java 17 or newer, no Docker; the
    first time, 45 MB are fetched) and two services in worker processes of
    `conversations run`. Sends every flight of January 2013 from New York
    (CC0, from the extra `examples`): 26,849 messages on 3,148 dialogs.

    \b
      operations     begins a dialog for each aircraft and sends its flights,
                     ends it when the last is answered, gets the summary
      aircraft-log   keeps each aircraft's log as the state of its dialog's
                     group: flights flown and cancelled, minutes, airports,
                     longest gap between departures; answers every flight

    Meanwhile 2 % of the records are put on the wire a second time, some at
    once, some after their dialog is over, and one worker of aircraft-log is
    killed (SIGKILL). The handlers know nothing of it: there is no
    deduplication, no lock and no retry loop in ops/conversations_ops/demo/aircraft_log.py.

    15 flights of 14 aircraft departed and, by the file, never arrived: the
    handler raises. It is tried again at once, after 0.5 s and after 1 s, and
    then the flight is held, with the flights of its aircraft behind it in
    order, while all others go on. The arrival of one is entered by hand (dead-letters edit).
    A next release of aircraft-log, ops/conversations_ops/demo/mended.py, takes such flights
    for diverted; it is started, and what is held is given back to it, three
    flights first, then the rest (redrive).

    At the end every summary is compared with what plain code computes from
    the CSV; every flight has been answered, once and in order, and nothing
    is held.

    Then Spark archives all messages in Parquet files, audits all topics for
    anything lost, repeated or out of order, and adds up the flights and
    minutes of each aircraft and day, which must equal the CSV.

    \b
    Examples:
      conversations demo
      conversations demo --no-faults
      conversations demo --keep        # and look at the topics afterwards
      conversations demo --json | tail -1 | jq .mismatches

    Exit codes: 0 everything equal; 1 a difference, or the demo could not be
    carried out.
    """
    from conversations_ops.demo import report
    from conversations_ops.demo.run import demonstrate
    from conversations_ops.demo.screen import Screen

    screen = Screen(Console(stderr=as_json))
    with failures(as_json=as_json), _explained(as_json=as_json), ended_by_sigterm():
        result = demonstrate(screen, faults=not no_faults, keep=keep, spark=not no_spark)
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
