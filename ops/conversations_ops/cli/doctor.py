"""``conversations doctor``: what is wrong with a cluster, a namespace and this machine, each with its fix."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from conversations_ops.cli.declarations import entered_all
from conversations_ops.cli.kafka_options import Command, kafka_of, settings_of
from conversations_ops.cli.output import Json, failures, show
from conversations_ops.console.exit_codes import Exit
from conversations_ops.doctor.checks import findings
from conversations_ops.doctor.collected import Told, facts_of
from conversations_ops.doctor.findings import Finding, Severity, grouped
from conversations_ops.doctor.here import look_here
from conversations_ops.operate.rights import ROLES
from conversations_ops.printable import one_line
from conversations_ops.settings.given import shortened

app = typer.Typer()
FEW = 6
"""So many places of one finding are named in the text; --json has all of them."""


@app.command(
    "doctor",
    epilog="Exit codes: 0 nothing but notes, 1 something is fatal or a warning, 2 wrong usage, 3 Kafka unreachable.",
    cls=Command,
)
def doctor(
    context: typer.Context,
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TARGET...]",
            help="Services as module:attribute. The lifetimes of their contracts are then compared with the retention of topics.",
        ),
    ] = None,
    role: Annotated[
        list[str] | None,
        typer.Option(
            metavar="|".join(ROLES), help="A role that the user of this client must have. May be repeated. See `conversations acl`."
        ),
    ] = None,
    stores: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIRECTORY", help="A --state-dir of `conversations run`, by default that in the cache directory. May be repeated."
        ),
    ] = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Look for what is wrong with the cluster, the namespace and this machine, and name the fix of each finding. It writes nothing.

    A fatal finding: exactly-once, order or bytes can be lost, or something cannot work. A warning will hurt. A note is worth knowing. The
    list of all checks is in docs/doctor.md. `conversations apply` refuses a cluster with a fatal finding.

    The names of commands that end with .sh are those of Kafka's own tools.

    \b
    Examples:
      conversations doctor --bootstrap localhost:9092
      conversations doctor shop.orders:service shop.billing:service --role worker
      conversations doctor --json | jq -r '.findings[] | select(.severity == "fatal") | .fix'

    \b
    A clock of this machine that is ahead of the brokers is not seen, because Kafka tells its time only to writers. The reports of
    workers whose clock was wrong within the last day are shown.
    """
    for name in role or ():
        if name not in ROLES:
            raise typer.BadParameter(f"--role {name!r:.80}: one of {', '.join(ROLES)}")
    for path in stores or ():
        if not path.is_dir():
            raise typer.BadParameter(f"--stores {str(path)!r:.200}: there is no such directory")
    given = settings_of(context)
    kafka = kafka_of(context, given)
    with failures(as_json=as_json), entered_all(targets or []) as services, _progress() as told:
        settings = shortened(given.worker_settings(services[0].settings if services else None))
        told("this machine")
        machine = look_here(kafka, given, settings, stores or ())
        facts = facts_of(kafka, settings.periods, machine, [it.service.declaration() for it in services], told)
        found = findings(replace(facts, roles=tuple(role or ()), targets=tuple(targets or ())))
    show({"findings": [_plain(it) for it in found]}, _text(found), as_json=as_json)
    if any(it.check.severity is not Severity.NOTE for it in found):
        raise typer.Exit(Exit.HUMAN)


@contextmanager
def _progress() -> Iterator[Told]:
    """Give the block a function that shows at a terminal what is looked at."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    with Console(stderr=True).status("") as status:
        yield lambda what: status.update(f"Looking at {what}")


def _plain(it: Finding) -> dict[str, object]:
    return {
        "name": it.check.name, "severity": it.check.severity.value, "place": it.place, "found": it.found, "needed": it.needed,
        "why": it.check.why, "fix": it.fix,
    }  # fmt: skip


def _text(found: list[Finding]) -> str:
    if not found:
        return "nothing is wrong"
    lines = []
    for same in grouped(found).values():
        first = same[0]
        places = [it.place for it in same]
        more = f" and {len(places) - FEW} more" if len(places) > FEW else ""
        lines += [
            one_line(f"{first.check.severity.upper():8}{first.check.name}: {', '.join(places[:FEW])}{more}"),
            one_line(f"        {first.found}; needed: {first.needed}"),
            one_line(f"        {first.check.why}"),
            one_line(f"        fix: {first.fix}"),
        ]
    counts = [sum(it.check.severity is severity for it in found) for severity in Severity]
    lines.append(
        ", ".join(f"{count} {name}" for count, name in zip(counts, ("fatal", "warnings", "notes"), strict=True))
    )
    return "\n".join(lines)
