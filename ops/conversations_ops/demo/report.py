"""The report of the demo: a table, the dead letters, the faults, the check; or one JSON object."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict

import rich.box
from rich.markup import escape
from rich.table import Table

from conversations_ops.demo.clusters import DATA, HANGAR
from conversations_ops.demo.pipeline import Pipeline
from conversations_ops.demo.run import Result
from conversations_ops.demo.screen import Screen

BUSIEST = 8
SHOWN = 10
"""Maximum number of printed mismatches. For the other mismatches, only their number is printed."""


def facts(result: Result) -> dict[str, object]:
    """Return the whole result as plain data, for programs."""
    faults, outcome = result.faults, result.outcome
    return {
        "dialogs": len(result.expected),
        "messages": messages(result),
        "legs": len(result.flights),
        "replies": outcome.desks.replies,
        "duplicates_injected": len(faults.duplicates),
        "duplicates_dropped": dropped(result),
        "duplicates_counted": faults.counted,
        "crashes": faults.crashes,
        "forwarders_killed": int(faults.forwarder_killed is not None),
        "crossed": [asdict(it) for it in result.crossings],
        "dead_letters": len(outcome.letters),
        "dead_letters_by_reason": dict(sorted(Counter(letter.reason for letter in outcome.letters).items())),
        "held": len(outcome.held),
        "held_at_the_end": outcome.waiting,
        "edited": result.mending.edited.letter,
        "redriven": result.mending.redriven,
        "summaries_equal": result.comparison.equal,
        "mismatches": len(result.comparison.mismatches),
        "mismatch_examples": result.comparison.mismatches[:SHOWN],
        "archived": result.pipeline.archived,
        "audit": result.pipeline.audit or None,
        "dialogs_begun": result.pipeline.begun,
        "dialogs_ended": result.pipeline.ended,
        "utilisation_days": result.pipeline.days,
        "utilisation_mismatches": len(result.pipeline.mismatches),
        "spark_left_out": result.pipeline.left_out or None,
        "spark_seconds": result.pipeline.seconds,
        "seconds": round(result.seconds, 1),
        "messages_per_second": round(messages(result) / result.seconds),
        "kept": str(result.kept) if result.kept else None,
    }


def messages(result: Result) -> int:
    """Return the number of messages that the services and the client have sent: legs, replies and summaries."""
    summaries = sum(len(result.outcome.desks.of(aircraft).summaries) for aircraft in result.expected)
    return len(result.flights) + result.outcome.desks.replies + summaries


def dropped(result: Result) -> int:
    """Return the number of duplicates that were read and had no effect: no dead letter, no surplus reply and no surplus summary."""
    places = {(*place, offset) for place, offset in result.faults.duplicates}
    kept = sum(letter.source in places for letter in result.outcome.letters)
    surplus = 0
    for aircraft, wanted in result.expected.items():
        desk = result.outcome.desks.of(aircraft)
        surplus += max(0, desk.replies - len(wanted.logged)) + max(0, len(desk.summaries) - 1)
    return result.faults.read - kept - surplus


def tell(screen: Screen, result: Result) -> None:
    """Print the whole result for people."""
    screen.console.print(logs(result))
    screen.console.print(held(result))
    for line in lines(result):
        screen.say(line)


def logs(result: Result) -> Table:
    """Return a table with the logs of the busiest aircraft."""
    table = _table(f"\nThe logs of the {BUSIEST} busiest aircraft, of {len(result.expected):,}")
    table.add_column("aircraft")
    for name in ("flown", "cancelled", "diverted", "minutes", "airports", "longest gap"):
        table.add_column(name, justify="right")
    table.add_column("= CSV")
    busiest = sorted(result.expected, key=lambda aircraft: -len(result.expected[aircraft].logged))[:BUSIEST]
    for aircraft in busiest:
        summary = result.outcome.summary_of(aircraft)
        if summary is None:
            table.add_row(aircraft, *[""] * 6, "[red]no summary[/]")
            continue
        same = summary.model_dump() == result.expected[aircraft].summary
        table.add_row(
            aircraft, f"{summary.flown:,}", str(summary.cancelled), str(summary.diverted), f"{summary.air_minutes:,}",
            str(len(summary.airports)), _duration(summary.longest_gap),
            "yes" if same else "[red]NO[/]",
        )  # fmt: skip
    return table


def held(result: Result) -> Table:
    """Return a table of the flights that were held, each with the number of flights that waited behind it."""
    table = _table("Held flights: they departed and never arrived, so the handler raised four times")
    for name in ("aircraft", "flight", "route", "scheduled", "waited behind it", "became"):
        table.add_column(name, justify="right" if name == "waited behind it" else "left")
    for it in sorted(result.outcome.held, key=lambda it: it.leg.row):
        leg, edited = it.leg, it.letter == result.mending.edited.letter
        table.add_row(
            it.aircraft, leg.flight, f"{leg.origin}-{leg.destination}", f"{leg.scheduled:%d %b %H:%M}", str(it.behind),
            "flown (edited)" if edited else "diverted (redriven)",
        )  # fmt: skip
    return table


def lines(result: Result) -> Iterator[str]:
    """Yield lines about the run, and about the results of the checks."""
    redriven = ", ".join(f"{count} {outcome}" for outcome, count in result.mending.redriven.items() if count)
    yield (
        f"{len(result.flights):,} flights, {result.outcome.desks.replies:,} logged and answered; "
        f"{len(result.outcome.held)} were held, 1 of them edited, the rest redriven ({redriven}) in "
        f"{result.mending.seconds:.1f} s; {result.outcome.waiting} are held now"
    )
    yield from _faults(result)
    yield from _crossings(result)
    count = messages(result)
    yield f"{count:,} messages in {result.seconds:.1f} s: {count / result.seconds:,.0f} a second"
    yield from _check(result)
    yield from _pipeline(result.pipeline)
    if result.kept:
        yield f"\nTo look at the data in {result.kept}:"
        yield f"  conversations broker start --name demo --data {result.kept / DATA[0]}"
        if result.crossings:
            yield f"  conversations broker start --name {HANGAR} --data {result.kept / DATA[1]}"
        if result.pipeline.archived:
            yield f"  conversations spark archive {result.kept / 'archive'} --dialog ID"
        yield "    (topics conv.operations.* and conv.aircraft-log.*: queue, commands, state, dead-letter)"
        yield f"  less {' '.join(map(str, result.logs))}"
        yield "  conversations broker stop demo"
        if result.crossings:
            yield f"  conversations broker stop {HANGAR}"


def _faults(result: Result) -> Iterator[str]:
    faults = result.faults
    if faults.duplicates:
        yield (
            f"{len(faults.duplicates):,} records were put on the wire a second time: {faults.read:,} read, "
            f"{dropped(result):,} dropped without effect"
        )
    if faults.killed is not None:
        back = f"; {faults.back_after:.1f} s later a new process worked in its place" if faults.back_after else ""
        yield (
            f"Worker {faults.killed.pid} of {faults.killed.service} was killed (SIGKILL) after "
            f"{faults.killed_after:,} replies{back}"
        )


def _crossings(result: Result) -> Iterator[str]:
    """Yield a line for each direction between two clusters. Messages, acknowledgements and what was transmitted again are envelopes."""
    if result.faults.forwarder_killed is not None:
        yield f"Forwarder {result.faults.forwarder_killed} to the cluster {HANGAR} was killed (SIGKILL) at the same time"
    for it in result.crossings:
        yield (
            f"To {it.service} on the cluster {it.cluster}: {it.sent:,} envelopes in the transmission topic, "
            f"{it.arrived:,} appended to the queue there"
        )


def _check(result: Result) -> Iterator[str]:
    comparison = result.comparison
    colour = "red" if comparison.mismatches else "green"
    for mismatch in comparison.mismatches[:SHOWN]:
        yield f"[red]  {escape(mismatch)}[/]"
    if len(comparison.mismatches) > SHOWN:
        yield f"[red]  ... and {len(comparison.mismatches) - SHOWN:,} more[/]"
    text = f"{comparison.equal:,} of {len(result.expected):,} summaries equal the CSV"
    count = len(comparison.mismatches)
    more = f"; {count:,} mismatch{'es' if count > 1 else ''}" if count else ""
    yield f"[bold {colour}]{text}{more}[/]"


def _pipeline(pipeline: Pipeline) -> Iterator[str]:
    if pipeline.left_out:
        yield f"Left out: archive, audit and utilisation by Spark ({escape(pipeline.left_out)})"
        return
    yield (
        f"Spark archived {pipeline.archived:,} messages in Parquet files; by its metrics {pipeline.begun:,} dialogs were begun, "
        f"{pipeline.ended:,} ended"
    )
    faults, totals = pipeline.audit["faults"], pipeline.audit["totals"]
    for fault in pipeline.audit["listed"][:SHOWN]:
        yield f"[red]  {escape(str(fault))}[/]"
    yield (
        f"[bold {'red' if faults else 'green'}]The audit of all topics found {faults:,} faults: {totals['sent']:,} messages sent, "
        f"{totals['settled']:,} settled, {totals['duplicates']:,} duplicates[/]"
    )
    for mismatch in pipeline.mismatches[:SHOWN]:
        yield f"[red]  {escape(mismatch)}[/]"
    equal, colour = pipeline.days - len(pipeline.mismatches), "red" if pipeline.mismatches else "green"
    yield f"[bold {colour}]{equal:,} of {pipeline.days:,} daily sums of flights and minutes, by aircraft, equal the CSV[/]"


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", box=rich.box.SIMPLE_HEAD, padding=(0, 1, 0, 0))


def _duration(minutes: int | None) -> str:
    return "" if minutes is None else f"{minutes // 60}:{minutes % 60:02} h"
