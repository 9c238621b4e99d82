"""``conversations queue``: shows queues, turns queues off and on, and aborts transactions that hide records of a queue."""

from __future__ import annotations

import getpass
import time
from typing import Annotated, Any

import typer

from conversations.config import Kafka
from conversations.protocol.command import Switch
from conversations_ops.cli import completion
from conversations_ops.cli.catching_up import read_model
from conversations_ops.cli.changes import DryRun, Reason, Wait, announce, check_reason, refusals
from conversations_ops.cli.kafka_options import Command, kafka_of
from conversations_ops.cli.output import Json, failures, show
from conversations_ops.console.exit_codes import EXIT_CODES, Exit
from conversations_ops.console.tables import as_text
from conversations_ops.console.times import ahead, moment
from conversations_ops.operate.open_letters import Request
from conversations_ops.operate.queues import Queue
from conversations_ops.printable import counted, one_line
from conversations_ops.read_model.queues import queues
from conversations_ops.read_model.services import chosen

app = typer.Typer(
    help="Show queues, turn them off and on, and abort transactions that hide their records. A queue that is off accepts messages, but calls no handler.",
    no_args_is_help=True,
    epilog=EXIT_CODES,
)

Service = Annotated[
    str,
    typer.Argument(
        metavar="SERVICE",
        autocompletion=completion.services,
        help="Service whose queue is meant, in all partitions.",
    ),
]
AnyService = Annotated[
    str,
    typer.Argument(
        metavar="[SERVICE]",
        autocompletion=completion.services,
        help="Only the queue of this service. Default: all services.",
    ),
]


@app.command("show", epilog=EXIT_CODES, cls=Command)
def show_queues(
    context: typer.Context,
    service: AnyService = "",
    every: Annotated[bool, typer.Option("--all", help="Show also the partitions in which nothing waits.")] = False,
    as_json: Json = False,
) -> None:
    """Show which queues are off and why, and how many messages wait for them. The queue of each partition has its own line.

    Without --all, partitions are left out whose queue is on and for which no message waits. With --json, all are there.

    DEADLINE is the first end of a lifetime among the dialogs that wait: then the messages of this dialog become dead letters, and it is
    broken with -8489.

    \b
    Examples:
      conversations queue show --bootstrap localhost:9092
      conversations queue show orders --all
      conversations queue show orders --json | jq '.queues[] | select(.off != "")'

    Exit codes: 0 all queues are on, 1 a queue is off, 2 no such service, 3 Kafka unreachable.
    """
    with failures(as_json=as_json):
        found = _queues(kafka_of(context), service)
    if as_json:
        show({"queues": [_plain(it) for it in found]}, "", as_json=True)
    else:
        _show(found, every=every)
    if any(it.off for it in found):
        raise typer.Exit(Exit.HUMAN)


@app.command("off", epilog=EXIT_CODES, cls=Command)
def turn_off(
    context: typer.Context,
    service: Service,
    reason: Reason = "",
    dry_run: DryRun = False,
    wait: Wait = 30.0,
    as_json: Json = False,
) -> None:
    """Turn a queue off. No handler of the service is called. Messages that arrive wait, in order. No sender gets an error.

    Acknowledgements, errors of peers, commands and lifetimes still take effect.

    \b
    Example:
      conversations queue off orders --reason INC-4711
    """
    _turn(kafka_of(context), service, Switch(False, reason), wait, dry_run, as_json)


@app.command("on", epilog=EXIT_CODES, cls=Command)
def turn_on(
    context: typer.Context,
    service: Service,
    reason: Reason = "",
    dry_run: DryRun = False,
    wait: Wait = 30.0,
    as_json: Json = False,
) -> None:
    """Turn a queue on again. Messages that waited are handled, in order.

    \b
    Example:
      conversations queue on orders --reason "mended in release 12"
    """
    _turn(kafka_of(context), service, Switch(True, reason), wait, dry_run, as_json)


@app.command("abort", epilog=EXIT_CODES, cls=Command)
def abort(
    context: typer.Context,
    service: Service,
    reason: Reason = "",
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Abort the open transactions that hide the newest records of a queue. No record of such a transaction is ever read.

    A program that wrote to the queue in a transaction, and stands still or has died, keeps every later record of its partitions from being
    read. Only transactions that are open for five seconds or more are aborted, in all their partitions. Their programs cannot commit them any
    more, and must begin new ones.

    It needs the right to read __transaction_state, and to write with the transactional id.

    \b
    Examples:
      conversations queue abort orders --dry-run
      conversations queue abort orders --reason INC-4711
    """
    from conversations_ops.operate.open_transactions import end, hiding

    check_reason(reason, dry_run=dry_run)
    kafka = kafka_of(context)
    with failures(as_json=as_json):
        with read_model(kafka) as file:
            chosen(kafka, file, service)
        found = hiding(kafka, service)
        names = [it.transactional_id for it in found]
        what = f"{counted(len(names), 'transaction')}{': ' if names else ''}{', '.join(names)}"
        if not dry_run:
            announce(f"abort {what}", as_json=as_json)
            end(kafka, service, found, Request(getpass.getuser(), reason, 0))
    data = {"service": service, "transactions": names, "done": not dry_run}
    show(data, one_line(f"{'would abort' if dry_run else 'aborted'} {what}"), as_json=as_json)


def _queues(kafka: Kafka, service: str) -> list[Queue]:
    with read_model(kafka) as file:
        return [it for name in chosen(kafka, file, service) for it in queues(file, name)]


def _turn(kafka: Kafka, service: str, operation: Switch, wait: float, dry_run: bool, as_json: bool) -> None:
    from conversations_ops.operate.queues import turn

    check_reason(operation.reason, dry_run=dry_run)
    with failures(as_json=as_json), refusals("the owner of a partition", as_json=as_json):
        found = _queues(kafka, service)
        if not dry_run:
            announce(_turned(found, service, operation, done=False), as_json=as_json)
        answers = [] if dry_run else turn(kafka, service, operation, getpass.getuser(), wait)
    changed, waits = _changed(found, operation), sum(it.messages for it in found)
    text = (
        f"would {_turned(found, service, operation, done=False)}"
        if dry_run
        else _turned(found, service, operation, done=True)
    )
    data = {
        "service": service, "on": operation.on, "partitions": len(found), "changed": changed, "answered": len(answers),
        "waiting": waits, "done": not dry_run,
    }  # fmt: skip
    show(data, one_line(text), as_json=as_json)


def _changed(found: list[Queue], operation: Switch) -> int:
    return sum(bool(it.off) == operation.on for it in found)


def _turned(found: list[Queue], service: str, operation: Switch, *, done: bool) -> str:
    """Say what a switch does to the queues that were found before it; with ``done``, what it has done."""
    waits = sum(it.messages for it in found)
    verb = ("waited" if operation.on and done else "wait") + ("s" if waits == 1 and not (operation.on and done) else "")
    return (
        f"{'turned' if done else 'turn'} the queue of {service} {'on' if operation.on else 'off'} in {_changed(found, operation)} of "
        f"{counted(len(found), 'partition')}; {counted(waits, 'message')} {verb} for it"
    )


def _show(found: list[Queue], *, every: bool) -> None:
    shown = found if every else [it for it in found if it.off or it.dialogs]
    if shown:
        show({}, _table(shown), as_json=False)
    if rest := len(found) - len(shown):
        which = "all queues are" if not shown else "all other queues are"
        services = counted(len({it.service for it in found}), "service")
        text = f"{which} on: {counted(rest, 'partition')} of {services} (--all lists them)"
        typer.echo(text, err=bool(shown))
    elif not found:
        show({}, "there is no service", as_json=False)


def _table(found: list[Queue]) -> str:
    rows = [
        (it.service, it.partition, "OFF" if it.off else "on", moment(it.since) if it.off else "", it.by, it.reason,
         it.dialogs, it.messages, "" if it.deadline is None else ahead(it.deadline, time.time()))
        for it in found
    ]  # fmt: skip
    return as_text(("SERVICE", "PARTITION", "QUEUE", "SINCE", "BY", "WHY", "DIALOGS", "MESSAGES", "DEADLINE"), rows)


def _plain(it: Queue) -> dict[str, Any]:
    deadline = None if it.deadline is None else moment(it.deadline)
    return {**it._asdict(), "since": moment(it.since) if it.off else None, "deadline": deadline}
