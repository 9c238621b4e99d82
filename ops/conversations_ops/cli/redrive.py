"""``conversations redrive``: gives many held messages back to their handlers, by a plan."""

from __future__ import annotations

import getpass
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from conversations.config import Kafka
from conversations.errors import DeclarationError
from conversations.protocol.command import Action
from conversations.protocol.parked import Decision
from conversations_ops.cli import completion
from conversations_ops.cli.catching_up import bar
from conversations_ops.cli.changes import DryRun, Reason, check_reason
from conversations_ops.cli.kafka_options import Command, kafka_of
from conversations_ops.cli.output import Json, failures, show
from conversations_ops.console.exit_codes import EXIT_CODES, Exit
from conversations_ops.console.tables import as_text
from conversations_ops.console.times import micros, moment
from conversations_ops.operate.redrive.journal import Journal
from conversations_ops.operate.redrive.known import known
from conversations_ops.operate.redrive.outcomes import Outcome, count
from conversations_ops.operate.redrive.plan import NO_PLAN, Care, Plan, from_json, is_name, plan_of, to_json
from conversations_ops.operate.redrive.selection import Selector
from conversations_ops.printable import counted, one_line
from conversations_ops.read_model.parked import parked_messages
from conversations_ops.read_model.projector import current

app = typer.Typer(
    help="Give many held messages back to their handlers by a plan: a few first, then the rest at a limited rate.",
    no_args_is_help=True,
    epilog=EXIT_CODES,
)

Redrive = Annotated[
    str,
    typer.Argument(
        metavar="REDRIVE",
        help="Plan file of the redrive, or its name, e.g. rd-1f3a9c20, which stands for the file rd-1f3a9c20.json.",
    ),
]
Named = Annotated[
    str, typer.Argument(metavar="REDRIVE", help="Name of the redrive, e.g. rd-1f3a9c20, or its plan file.")
]


def _time(text: str) -> int:
    """Read the time of an option, in microseconds since 1970; 0 for an empty text."""
    try:
        return micros(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


@app.command("plan", epilog=EXIT_CODES, cls=Command)
def plan(
    context: typer.Context,
    service: Annotated[
        str, typer.Option(autocompletion=completion.services, help="Only letters of this service.")
    ] = "",
    exception: Annotated[
        str, typer.Option(help="Only messages whose last exception has this class, e.g. KeyError (without its module).")
    ] = "",
    type_: Annotated[str, typer.Option("--type", help="Only messages of this type.")] = "",
    contract: Annotated[str, typer.Option(help="Only dialogs under this contract.")] = "",
    peer: Annotated[str, typer.Option(help="Only dialogs with this service.")] = "",
    conversation: Annotated[str, typer.Option(help="Only this dialog.")] = "",
    since: Annotated[
        str, typer.Option(metavar="TIME", help="Only messages that first failed at this time (UTC) or later.")
    ] = "",
    until: Annotated[
        str, typer.Option(metavar="TIME", help="Only messages that first failed before this time (UTC).")
    ] = "",
    canary: Annotated[
        int,
        typer.Option(min=0, help="Number of letters to try first, one by one. If one of them fails, the redrive ends."),
    ] = 3,
    rate: Annotated[float, typer.Option(min=0.01, help="Letters per second after the canary letters.")] = 20.0,
    max_returns: Annotated[
        int, typer.Option(min=1, help="Leave out letters that were given back this many times or more.")
    ] = 3,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="File for the plan. Default: REDRIVE.json, e.g. rd-1f3a9c20.json."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a plan with the held letters that match now. Later letters are not in the plan. No message is retried now.

    \b
    Examples:
      conversations redrive plan --service credit --exception KeyError
      conversations redrive plan --type credit.Check --since 2026-11-21T02:50:00 --canary 5 --rate 50 -o rd.json
    """
    selector = Selector(service, exception, type_, contract, peer, conversation, _time(since), _time(until))
    kafka = kafka_of(context)
    with failures(as_json=as_json):
        made = _made(kafka, selector, Care(canary, rate, max_returns))
        path = out or Path(f"{made.redrive}.json")
        if made.letters:
            _write_new(path, to_json(made))
    data = {
        "redrive": made.redrive, "plan": str(path) if made.letters else None, "letters": len(made.letters),
        "behind": made.behind, "left_out": made.left_out,
    }  # fmt: skip
    show(data, _described(made, path), as_json=as_json)


def _write_new(path: Path, text: str) -> None:
    """Write a plan file. An existing file stays as it is, because it may be the plan of another redrive."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise typer.BadParameter(f"--out {path}: this file exists; remove it, or choose another name") from None
    except OSError as error:
        raise typer.BadParameter(f"--out {path}: {error.strerror}") from error


def _made(kafka: Kafka, selector: Selector, care: Care) -> Plan:
    with bar() as told, current(kafka, told) as file:
        found, now = parked_messages(kafka, file, selector.service), time.time_ns() // 1_000
    return plan_of(found, selector, care, kafka.namespace, by=getpass.getuser(), now=now, random=os.urandom(4))


def _described(made: Plan, path: Path) -> str:
    out = (
        f"; {counted(made.left_out, 'letter')} left out, given back {counted(made.care.max_returns, 'time')} or more before"
        if made.left_out
        else ""
    )
    if not made.letters:
        return f"no letter matches{out}"
    return (
        f"{made.redrive}: {counted(len(made.letters), 'letter')} as of {one_line(made.made_at)} (later letters are not included){out}; "
        f"canary: the {min(made.care.canary, len(made.letters))} oldest; behind all letters: {counted(made.behind, 'record')}\n"
        f"nothing is changed yet; next: conversations redrive start {path} --reason WHY"
    )


@app.command("start", epilog=EXIT_CODES, cls=Command)
def start(
    context: typer.Context,
    redrive: Redrive,
    reason: Reason = "",
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Carry out a plan. Stop it with Ctrl-C, or with `redrive stop` on any machine. Continue it with `redrive resume`.

    A letter that changed after the plan was made is not given back.

    \b
    Examples:
      conversations redrive start rd.json --reason "fixed in release 12"
      conversations redrive start rd-1f3a9c20 --dry-run

    Exit codes: 0 no letter failed again, 1 a letter failed again or the redrive ended early, 2 no such plan, or it was
    started before, 3 Kafka unreachable.
    """
    kafka, plan_file = kafka_of(context), _file_of(redrive)
    with failures(as_json=as_json):
        made = _read(plan_file, kafka)
        if Journal(plan_file, made.redrive).exists:
            raise DeclarationError(f"{plan_file} was started already: conversations redrive resume {plan_file}")
        if dry_run:
            show(
                {"redrive": made.redrive, "letters": len(made.letters), "done": False},
                _described(made, plan_file),
                as_json=as_json,
            )
            return
        _drive(kafka, made, plan_file, reason, as_json)


@app.command("resume", epilog=EXIT_CODES, cls=Command)
def resume(
    context: typer.Context,
    redrive: Redrive,
    reason: Reason = "",
    as_json: Json = False,
) -> None:
    """Continue a stopped redrive with the remaining letters. Letters that failed again are not tried again.

    The plan file must be on this machine, because only the file has the letters, and its journal the outcomes.

    \b
    Example:
      conversations redrive resume rd-1f3a9c20 --reason "fixed in release 12"
    """
    kafka, plan_file = kafka_of(context), _file_of(redrive)
    with failures(as_json=as_json):
        made = _read(plan_file, kafka)
        journal = Journal(plan_file, made.redrive)
        if not journal.exists:
            raise DeclarationError(f"{plan_file} was not started yet: conversations redrive start {plan_file}")
        if journal.is_over(made.letters):
            counts = count({letter: entry.outcome for letter, entry in journal.read().items()})
            data = {"redrive": made.redrive, "end": "done", "outcomes": counts}
            show(
                data, f"{made.redrive} is done already, nothing is left to resume: {_counted(counts)}", as_json=as_json
            )
            if counts[Outcome.BACK]:
                raise typer.Exit(Exit.HUMAN)
            return
        _drive(kafka, made, plan_file, reason, as_json)


@app.command("stop", epilog=EXIT_CODES, cls=Command)
def stop(
    context: typer.Context,
    redrive: Named,
    reason: Reason = "",
    as_json: Json = False,
) -> None:
    """Ask a redrive to stop. It may run on any machine. Letters that were given back are still handled. The other letters stay held.

    \b
    Example:
      conversations redrive stop rd-1f3a9c20 --reason "the release is wrong"
    """
    from conversations_ops.operate.redrive.drive import stop as ask_to_stop

    kafka = kafka_of(context)
    check_reason(reason)
    with failures(as_json=as_json):
        name = _name_of(redrive, kafka)
        ask_to_stop(kafka, name, getpass.getuser(), reason)
    show({"redrive": name, "asked": True}, f"{name} was asked to stop", as_json=as_json)


@app.command("watch", epilog=EXIT_CODES, cls=Command)
def watch(
    context: typer.Context,
    redrive: Named,
    as_json: Json = False,
) -> None:
    """Show the progress of a redrive until it ends. With --json, print the present progress and exit.

    \b
    Example:
      conversations redrive watch rd-1f3a9c20
    """
    from conversations.protocol.events import RedriveCounts, RedriveEnded
    from conversations_ops.operate.redrive.drive import events_of

    kafka = kafka_of(context)
    with failures(as_json=as_json):
        name = _name_of(redrive, kafka)
        while True:
            found = [event for event in events_of(kafka, name) if isinstance(event, RedriveCounts)]
            if not found:
                raise DeclarationError(f"there is no redrive {name!r} in namespace {kafka.namespace!r}")
            last = found[-1]
            end = last.end if isinstance(last, RedriveEnded) else None
            data = {"redrive": name, "by": last.by, "outcomes": dict(last.outcomes), "end": end}
            show(
                data,
                _counted(last.outcomes) + (f"; ended: {one_line(end)}" if end is not None else ""),
                as_json=as_json,
            )
            if end is not None or as_json:
                return
            time.sleep(1)  # the display changes once a second


@app.command("list", epilog=EXIT_CODES, cls=Command)
def list_redrives(
    context: typer.Context,
    as_json: Json = False,
) -> None:
    """List the redrives of the namespace, the newest last. A redrive is listed as long as the events topic keeps its events.

    A redrive without an END runs, or its process was killed: then NEWS, the time of its last report, is more than some seconds ago.

    \b
    Examples:
      conversations redrive list
      conversations redrive list --json | jq '.redrives[] | select(.end == null)'
    """
    from conversations_ops.operate.redrive.drive import all_events

    kafka = kafka_of(context)
    with failures(as_json=as_json):
        found = known(all_events(kafka))
    if as_json:
        plain = [{**it._asdict(), "started": moment(it.started), "news": moment(it.news)} for it in found]
        show({"redrives": plain}, "", as_json=True)
        return
    rows = [
        (
            it.redrive,
            it.letters,
            it.end or "",
            moment(it.started),
            moment(it.news),
            it.by,
            _counted(it.outcomes),
            it.reason,
        )
        for it in found
    ]
    headers = ("REDRIVE", "LETTERS", "END", "STARTED", "NEWS", "BY", "OUTCOMES", "REASON")
    show({}, as_text(headers, rows) if rows else "there is no redrive", as_json=False)


# -- carry a plan out --------------------------------------------------------------------------------------------------------


def _file_of(redrive: str) -> Path:
    """Return the plan file of a redrive. A name stands for the file that `redrive plan` writes without --out."""
    file = Path(redrive)
    return Path(f"{redrive}.json") if is_name(redrive) and not file.is_file() else file


def _name_of(redrive: str, kafka: Kafka) -> str:
    """Return the name of a redrive, which a plan file has."""
    return redrive if is_name(redrive) and not Path(redrive).is_file() else _read(Path(redrive), kafka).redrive


def _read(file: Path, kafka: Kafka) -> Plan:
    try:
        made = from_json(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise DeclarationError(f"{file}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise DeclarationError(f"{file}: {NO_PLAN}: it is not UTF-8") from None
    if made.namespace != kafka.namespace:
        raise DeclarationError(
            f"the plan is for namespace {made.namespace!r}, not {kafka.namespace!r}: give --namespace"
        )
    return made


def _drive(kafka: Kafka, made: Plan, file: Path, reason: str, as_json: bool) -> None:
    from conversations_ops.operate.redrive.drive import Drive, End

    check_reason(reason)
    journal = Journal(file, made.redrive)
    shown = Progress(
        TextColumn(made.redrive), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[told]}"), TimeElapsedColumn(),
        console=Console(stderr=True), transient=as_json,
    )  # fmt: skip
    with journal.alone(), shown:
        task = shown.add_task("", total=len(made.letters), told="")

        def tell(counts: dict[str, int]) -> None:
            over = sum(number for name, number in counts.items() if Outcome(name).final)
            shown.update(task, completed=over, told=_counted(counts))

        drive = Drive(kafka, made, journal, Decision(Action.RETRY, getpass.getuser(), reason), tell)
        end = drive.run()
    counts = count(drive.outcomes)
    data: dict[str, Any] = {"redrive": made.redrive, "end": end.value, "outcomes": counts}
    show(
        data,
        f"{made.redrive} {_END[end.value].format(plan=file)}: {_counted(counts)}",
        as_json=as_json,
    )
    if end is not End.DONE or counts[Outcome.BACK]:
        raise typer.Exit(Exit.HUMAN)


_END = {
    "done": "is done",
    "stopped": "was stopped (conversations redrive resume {plan})",
    "canary failed": "ended: a canary letter failed again, and no further letter was tried",
    "no news": "ended: no answer about the letters that were given back. Does the service run, and is its queue on? "
    "(conversations redrive resume {plan})",
}


def _counted(counts: Mapping[str, int]) -> str:
    return one_line(", ".join(f"{number} {name}" for name, number in counts.items() if number))
