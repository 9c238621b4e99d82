"""``conversations redrive``: gives many held messages back to their handlers, by a plan."""

from __future__ import annotations

import getpass
import os
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from conversations.config import Kafka
from conversations.errors import DeclarationError
from conversations.protocol.command import Action
from conversations.protocol.parked import Decision, Parked
from conversations_ops.cli import completion
from conversations_ops.cli.catching_up import read_model
from conversations_ops.cli.changes import DryRun, Reason, check_reason
from conversations_ops.cli.kafka_options import Command, kafka_of
from conversations_ops.cli.one_redrive import described, outcomes_in_words, planned, went
from conversations_ops.cli.output import Json, failures, show
from conversations_ops.cli.watching import follow
from conversations_ops.console.exit_codes import EXIT_CODES, Exit
from conversations_ops.console.tables import as_text
from conversations_ops.console.times import micros, moment
from conversations_ops.operate.redrive.journal import History, Journal
from conversations_ops.operate.redrive.outcomes import End, Outcome, Outcomes
from conversations_ops.operate.redrive.plan import NO_PLAN, Care, Plan, from_json, is_name, plain, plan_of, to_json
from conversations_ops.operate.redrive.selection import Selector
from conversations_ops.operate.redrive.stored import store
from conversations_ops.printable import one_line
from conversations_ops.read_model.file import File
from conversations_ops.read_model.parked import parked_messages
from conversations_ops.read_model.redrives import history, redrives, refuse_running, refuse_stopped
from conversations_ops.read_model.redrives import plan as plan_named
from conversations_ops.read_model.redrives import redrive as redrive_named

app = typer.Typer(
    help="Give many held messages back to their handlers by a plan: a few first, then the rest at a limited rate.",
    no_args_is_help=True,
    epilog=EXIT_CODES,
)

Redrive = Annotated[
    str,
    typer.Argument(
        metavar="REDRIVE",
        autocompletion=completion.redrives,
        help="Name of the redrive, e.g. rd-1f3a9c20, or a file with its plan, which is stored first.",
    ),
]
Named = Annotated[
    str,
    typer.Argument(
        metavar="REDRIVE",
        autocompletion=completion.redrives,
        help="Name of the redrive, e.g. rd-1f3a9c20, or a file with its plan.",
    ),
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
        typer.Option("--out", "-o", metavar="FILE", help="Write the plan into this file, too, for people to read."),
    ] = None,
    begin: Annotated[
        bool, typer.Option("--start", help="Carry out the plan at once, as `redrive start` does.")
    ] = False,
    reason: Reason = "",
    as_json: Json = False,
) -> None:
    """Make a plan with the held letters that match now. Later letters are not in the plan. Without --start, no message is retried now.

    The plan is stored in Kafka, so that any terminal and the web console can start, watch, stop and resume it.

    \b
    Examples:
      conversations redrive plan --service credit --exception KeyError
      conversations redrive plan --type credit.Check --since 2026-11-21T02:50:00 --canary 5 --rate 50 -o rd.json
      conversations redrive plan --service credit --exception KeyError --start --reason "fixed in release 12"
    """
    if begin:
        check_reason(reason)
    selector = Selector(service, exception, type_, contract, peer, conversation, _time(since), _time(until))
    kafka = kafka_of(context)
    with failures(as_json=as_json):
        made = _made(kafka, selector, Care(canary, rate, max_returns))
        if made.letters:
            if out is not None:
                _write_new(out, to_json(made))
            store(kafka, made)
        if begin and made.letters:
            typer.echo(planned(made), err=True)
            with read_model(kafka) as file:
                _, given, at = _opened(kafka, file, made.redrive)
            _drive(kafka, made, Journal(kafka, given, at), reason, as_json)
            return
    data = {
        "redrive": made.redrive if made.letters else None, "plan": str(out) if made.letters and out else None,
        "letters": len(made.letters), "behind": made.behind, "left_out": made.left_out,
    }  # fmt: skip
    show(data, described(made), as_json=as_json)


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
    with read_model(kafka) as file:
        found, now = parked_messages(kafka, file, selector.service), time.time_ns() // 1_000
    return plan_of(found, selector, care, kafka.namespace, by=getpass.getuser(), now=now, random=os.urandom(4))


@app.command("show", epilog=EXIT_CODES, cls=Command)
def show_plan(
    context: typer.Context,
    redrive: Named,
    as_json: Json = False,
) -> None:
    """Show the plan of a redrive and its letters. With --json, print the plan as a file has it.

    \b
    Examples:
      conversations redrive show rd-1f3a9c20
      conversations redrive show rd-1f3a9c20 --json > rd.json
    """
    kafka = kafka_of(context)
    with failures(as_json=as_json), read_model(kafka) as file:
        made, given, _ = _opened(kafka, file, redrive)
        known = redrive_named(file, made.redrive)
    rows = [
        (
            it.letter,
            it.service,
            given.entries[it.letter].outcome if it.letter in given.entries else Outcome.OPEN,
            it.behind,
            it.failure,
        )
        for it in made.letters
    ]
    headers = ("LETTER", "SERVICE", "OUTCOME", "BEHIND", "FAILURE")
    told = described(made) if not given.run else went(made, given, known)
    show(plain(made), f"{told}\n{as_text(headers, rows)}", as_json=as_json)


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
      conversations redrive start rd-1f3a9c20 --reason "fixed in release 12"
      conversations redrive start rd-1f3a9c20 --dry-run

    Exit codes: 0 no letter failed again, 1 a letter failed again or the redrive ended early, 2 no such plan, or it was
    started before, 3 Kafka unreachable.
    """
    kafka = kafka_of(context)
    with failures(as_json=as_json):
        with read_model(kafka) as file:
            made, given, since = _opened(kafka, file, redrive)
        if given.run:
            raise DeclarationError(f"{made.redrive} was started already: conversations redrive resume {made.redrive}")
        if dry_run:
            data = {"redrive": made.redrive, "letters": len(made.letters), "done": False}
            show(data, described(made), as_json=as_json)
            return
        check_reason(reason)
        _store_file(kafka, redrive, made)
        _drive(kafka, made, Journal(kafka, given, since), reason, as_json)


@app.command("resume", epilog=EXIT_CODES, cls=Command)
def resume(
    context: typer.Context,
    redrive: Redrive,
    reason: Reason = "",
    as_json: Json = False,
) -> None:
    """Continue a stopped redrive with the remaining letters. Letters that failed again are not tried again.

    \b
    Example:
      conversations redrive resume rd-1f3a9c20 --reason "fixed in release 12"
    """
    kafka = kafka_of(context)
    with failures(as_json=as_json):
        with read_model(kafka) as file:
            made, given, since = _opened(kafka, file, redrive)
            refuse_running(file, made.redrive, time.time_ns() // 1_000)
        if not given.run:
            raise DeclarationError(f"{made.redrive} was not started yet: conversations redrive start {made.redrive}")
        if given.is_over(made.letters):
            counts = Outcomes({letter: entry.outcome for letter, entry in given.entries.items()}).counts()
            data = {"redrive": made.redrive, "end": "done", "outcomes": counts}
            show(
                data,
                f"{made.redrive} is done already, nothing is left to resume: {outcomes_in_words(counts)}",
                as_json=as_json,
            )
            if counts[Outcome.BACK]:
                raise typer.Exit(Exit.HUMAN)
            return
        check_reason(reason)
        _store_file(kafka, redrive, made)
        _drive(kafka, made, Journal(kafka, given, since), reason, as_json)


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
        with read_model(kafka) as file:
            refuse_stopped(file, name)
        ask_to_stop(kafka, name, getpass.getuser(), reason)
    show({"redrive": name, "asked": True}, f"{name} was asked to stop", as_json=as_json)


@app.command("watch", epilog=EXIT_CODES, cls=Command)
def watch(
    context: typer.Context,
    redrive: Named,
    as_json: Json = False,
) -> None:
    """Show the progress of a redrive until it ends: a line for each change. With --json, print the present progress and exit.

    \b
    Example:
      conversations redrive watch rd-1f3a9c20
    """
    kafka = kafka_of(context)
    with failures(as_json=as_json):
        follow(kafka, _name_of(redrive, kafka), as_json=as_json)


@app.command("list", epilog=EXIT_CODES, cls=Command)
def list_redrives(
    context: typer.Context,
    as_json: Json = False,
) -> None:
    """List the redrives of the namespace, the newest last. STATE is planned, runs, how the redrive ended, or "no news".

    A redrive that runs tells its progress every few seconds. After "no news", its process was killed: resume it.

    \b
    Examples:
      conversations redrive list
      conversations redrive list --json | jq '.redrives[] | select(.state == "runs")'
    """
    kafka, now = kafka_of(context), time.time_ns() // 1_000
    with failures(as_json=as_json), read_model(kafka) as file:
        found = [(it, it.end or it.state(now).value, moment(it.started) if it.started else "") for it in redrives(file)]
    data = [
        {**it._asdict(), "state": state, "started": started or None, "news": moment(it.news)}
        for it, state, started in found
    ]
    rows = [
        (
            it.redrive,
            it.letters,
            state,
            started,
            moment(it.news),
            it.by,
            outcomes_in_words(it.outcomes),
            it.reason,
            f"{it.ended_by}: {it.ended_why}" if it.end == End.STOPPED and it.ended_by else "",
        )
        for it, state, started in found
    ]
    headers = ("REDRIVE", "LETTERS", "STATE", "STARTED", "NEWS", "BY", "OUTCOMES", "REASON", "STOPPED BY")
    show({"redrives": data}, as_text(headers, rows) if rows else "there is no redrive", as_json=as_json)


# -- carry a plan out --------------------------------------------------------------------------------------------------------


def _is_file(redrive: str) -> bool:
    return not is_name(redrive) or Path(redrive).is_file()


def _name_of(redrive: str, kafka: Kafka) -> str:
    """Return the name of a redrive, which a plan file has."""
    return _read(Path(redrive), kafka).redrive if _is_file(redrive) else redrive


def _opened(kafka: Kafka, file: File, redrive: str) -> tuple[Plan, History, int]:
    """Return the plan with a name, or in a file; what its runs have written; and the offset up to which this is known.

    Raises:
        DeclarationError: there is no such plan, or the redrive was started with other letters than the file has.
        LogError: the namespace has no operators topic.
    """
    given = _read(Path(redrive), kafka) if _is_file(redrive) else None
    name = redrive if given is None else given.redrive
    stored = plan_named(file, name)
    made = given or stored
    if made is None:
        raise DeclarationError(
            f"there is no plan {name}: 'conversations redrive list' shows all; a plan file needs its path"
        )
    written, since = history(file, name)
    if stored is not None and stored.letters != made.letters and written.run:
        raise DeclarationError(f"{redrive}: {name} was started with other letters: make a new plan for these")
    return made, written, since


def _store_file(kafka: Kafka, redrive: str, made: Plan) -> None:
    """Store the plan of a file, so that other machines can watch and resume the redrive, and so that an edited pace is known."""
    if _is_file(redrive):
        store(kafka, made)


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


def _drive(kafka: Kafka, made: Plan, journal: Journal, reason: str, as_json: bool) -> None:
    from conversations_ops.operate.redrive.drive import Drive

    shown = Progress(
        TextColumn(made.redrive), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[told]}"), TimeElapsedColumn(),
        console=Console(stderr=True), transient=as_json,
    )  # fmt: skip
    with journal, shown:
        task = shown.add_task("", total=len(made.letters), told="")

        def tell(counts: dict[str, int]) -> None:
            over = sum(number for name, number in counts.items() if Outcome(name).final)
            shown.update(task, completed=over, told=outcomes_in_words(counts))

        decision = Decision(Action.RETRY, getpass.getuser(), reason)
        drive = Drive(kafka, made, journal, decision, lambda: _parked(kafka), tell)
        end = drive.run()
    counts, stop = drive.outcomes.counts(), drive.stopped if end is End.STOPPED else None
    data: dict[str, Any] = {
        "redrive": made.redrive, "end": end.value, "outcomes": counts,
        "ended_by": stop.by if stop else decision.by, "ended_why": stop.reason if stop else decision.reason,
    }  # fmt: skip
    told = _END[end.value].format(name=made.redrive, stop=f" by {stop.by}: {stop.reason}" if stop else "")
    show(data, f"{made.redrive} {one_line(told)}: {outcomes_in_words(counts)}", as_json=as_json)
    if end is not End.DONE or counts[Outcome.BACK]:
        raise typer.Exit(Exit.HUMAN)


def _parked(kafka: Kafka) -> list[Parked]:
    with read_model(kafka) as file:
        return parked_messages(kafka, file)


_END = {
    "done": "is done",
    "stopped": "was stopped{stop} (conversations redrive resume {name})",
    "canary failed": "ended: a canary letter failed again, and no further letter was tried",
    "taken over": "goes on elsewhere: another run of it began (conversations redrive watch {name})",
    "no news": "ended: no answer about the letters that were given back. Does the service run, and is its queue on? "
    "(conversations redrive resume {name})",
}
