"""``conversations dialogs``: lists and shows dialogs, ends one side of a dialog, and sends again what the peer of a broken dialog has not accepted."""

from __future__ import annotations

import getpass
import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated

import typer

from conversations.config import Kafka
from conversations.kafka.catalog import read_catalog
from conversations.protocol.codes import LIFETIME, NOT_CONVERSING
from conversations.protocol.command import Cleanup, End, EndWithError, Resend
from conversations.protocol.states import State
from conversations_ops.cli import completion, left_letters, one_dialog, saying
from conversations_ops.cli.catching_up import read_model
from conversations_ops.cli.changes import DryRun, Reason, Wait, announce, check_reason
from conversations_ops.cli.clusters import HERE, AlsoAt, clusters_of, everywhere, exit_for, unread_fields, unread_lines
from conversations_ops.cli.kafka_options import Command, kafka_of
from conversations_ops.cli.one_side import Id, SideName, answering, chosen, id_of, sides_of
from conversations_ops.cli.option_errors import about_option
from conversations_ops.cli.output import Json, failures, show
from conversations_ops.console.exit_codes import EXIT_CODES
from conversations_ops.console.search_path import search_here
from conversations_ops.console.tables import as_text
from conversations_ops.console.times import ahead, span
from conversations_ops.host.targets import HandlerLoop, entered
from conversations_ops.operate.dialog_ends import NAMES, Ending, check, finish
from conversations_ops.operate.dialogs import STATES, Selector, Side
from conversations_ops.operate.open_letters import Request
from conversations_ops.printable import counted
from conversations_ops.read_model.dialogs import Listed, both_sides, known_sides, listed
from conversations_ops.read_model.file import File
from conversations_ops.read_model.letters import Kept, letters_of
from conversations_ops.read_model.services import chosen as known

app = typer.Typer(
    help="List and show dialogs, send a message, end one side of a dialog, and send again what was not accepted.",
    no_args_is_help=True,
    epilog=EXIT_CODES,
)
app.add_typer(saying.app)

OfService = Annotated[
    str, typer.Option("--service", autocompletion=completion.services, help="The service whose side is meant.")
]


@app.command("list", epilog=EXIT_CODES, cls=Command)
def list_dialogs(
    context: typer.Context,
    target: Annotated[
        str,
        typer.Argument(
            metavar="[SERVICE]",
            autocompletion=completion.services,
            help="Only sides of this service: its name, or a target module:attribute. Default: all services.",
        ),
    ] = "",
    service: Annotated[
        str, typer.Option(autocompletion=completion.services, help="The same as the argument SERVICE.")
    ] = "",
    contract: Annotated[str, typer.Option(help="Only dialogs under this contract.")] = "",
    state: Annotated[
        str, typer.Option(metavar="STATE", help=f"Only sides in this state: {', '.join(STATES.values())}.")
    ] = "",
    peer: Annotated[str, typer.Option(help="Only dialogs with this peer.")] = "",
    pending: Annotated[
        bool,
        typer.Option("--with-pending", help="Only sides with something that waits: held, waiting, parked or delayed."),
    ] = False,
    older_than: Annotated[
        str,
        typer.Option(metavar="SPAN", help="Only dialogs that began at least so long ago, e.g. 90s, 15m, 1h30m or 7d."),
    ] = "",
    every: Annotated[
        bool, typer.Option("--all", help="List also closed sides, as long as their tombstones are kept.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, help="List at most so many sides, the oldest dialogs first.")] = 100,
    cluster: AlsoAt = None,
    as_json: Json = False,
) -> None:
    """List the open sides of dialogs, with their numbers, what waits, and when their lifetime ends.

    SENT, ACKED, ACCEPTED and HANDLED count envelopes: sent by this side, acknowledged by the peer, accepted from the peer, and handled.
    A closed side has fewer facts, because its tombstone does not know its contract and its peer.

    With --cluster, the sides on that cluster are listed, too, up to --limit sides of each cluster.

    \b
    Examples:
      conversations dialogs list orders --with-pending
      conversations dialogs list --peer bank --older-than 1d
      conversations dialogs list orders --state error --json | jq -r '.dialogs[].conversation'
      conversations dialogs list --with-pending --cluster emea
      conversations dialogs list shop.orders:service --all
    """
    if target and service:
        raise typer.BadParameter("give the service once: as the argument, or with --service")
    wanted = Selector(contract, _state(state), peer, pending, _span(older_than), every)
    kafka = kafka_of(context)
    with failures(as_json=as_json):
        name, others = _named(target or service), clusters_of(kafka, cluster or ())

        def look(_: str, at: Kafka) -> Listed:
            with read_model(at) as file:
                known(at, file, name)
                return listed(file, at.namespace, name, wanted, limit)

        found, unread = everywhere(kafka, others, look)
    shown = [(at, it) for at, part in found.items() for it in part.first]
    total = sum(it.total for it in found.values())
    if as_json:
        plain = [{"cluster": at or None, **one_dialog.plain(it)} for at, it in shown]
        show({"dialogs": plain, "total": total, "unread_clusters": unread_fields(unread)}, "", as_json=True)
    else:
        nothing = "no dialog fits" if wanted != Selector() else "no dialog is open"
        lines = [_table(shown, several=bool(others)) if shown else nothing, *unread_lines(unread)]
        show({}, "\n".join(lines), as_json=False)
        if rest := total - len(shown):
            typer.echo(f"{counted(rest, 'more side')} (--limit lists more)", err=True)
    exit_for(unread)


@app.command("show", epilog=EXIT_CODES, cls=Command)
def show_dialog(
    context: typer.Context,
    conversation: Id,
    service: Annotated[
        str,
        typer.Option(
            "--service",
            autocompletion=completion.services,
            help="A service of the dialog.",
        ),
    ] = "",
    cluster: AlsoAt = None,
    as_json: Json = False,
) -> None:
    """Show a dialog: both sides, if both services are in the namespace, or on a cluster that --cluster names.

    For each side: its state, the numbers of both directions, what waits, the failed message and its next attempt, the timer, the end of the
    lifetime, the group, and its open letters.

    \b
    Examples:
      conversations dialogs show 0199c1f2-0000-7000-8000-000000000001
      conversations dialogs show 0199c1f2-0000-7000-8000-000000000001 --json | jq '.sides[].deadline'
      conversations dialogs show 0199c1f2-0000-7000-8000-000000000001 --cluster emea

    Exit codes: 0 shown, 2 no such dialog, 3 Kafka unreachable.
    """
    kafka, own = kafka_of(context), id_of(conversation)
    with answering(as_json):
        routes, others = read_catalog(kafka).routes, clusters_of(kafka, cluster or ())
        with read_model(kafka) as file:
            sides = known_sides(kafka, file, own, service)
            letters = {it.service: _open_letters(file, it) for it in sides}
        for other in others.values():
            with read_model(other) as file:
                found = both_sides(file, other.namespace, own)
                letters |= {it.service: _open_letters(file, it) for it in found}
            sides = sorted([*sides, *found], key=lambda it: not it.initiator)
        told = [
            {**one_dialog.plain(it), "open_letters": [letter.letter for letter in letters[it.service]]} for it in sides
        ]
        show(
            {"conversation": sides[0].name, "sides": told},
            one_dialog.described(sides, letters, routes),
            as_json=as_json,
        )


def _open_letters(file: File, it: Side) -> list[Kept]:
    """Return the open letters of a side."""
    return [
        letter
        for letter in letters_of(file, it.name)
        if letter.service == it.service and letter.is_open and letter.is_last
    ]


@app.command("end", epilog=EXIT_CODES, cls=Command)
def end(
    context: typer.Context,
    conversation: Id,
    service: OfService = "",
    side: SideName = "",
    code: Annotated[int | None, typer.Option("--error", min=1, help="End with this error code for the peer.")] = None,
    description: Annotated[str, typer.Option(help="Error text for the peer; needed with --error.")] = "",
    reason: Reason = "",
    dry_run: DryRun = False,
    wait: Wait = 30.0,
    as_json: Json = False,
) -> None:
    """End one side of a dialog, as its application would do it. Messages that wait at this side become open letters.

    Open letters wait for you: discard them, or send them again on a new dialog. The command prints how.

    Without --error, the peer gets an END after all messages that were sent. With --error, the peer gets the error, and envelopes that wait for
    the peer's topic are not sent.

    \b
    Examples:
      conversations dialogs end 0199c1f2-0000-7000-8000-000000000001 --service orders --reason INC-4711
      conversations dialogs end 0199c1f2-0000-7000-8000-000000000001 --service orders --error 410 --description "Order withdrawn." --reason INC-4711

    Exit codes: 0 the owner has ended it, 1 refused or not answered, 2 no such dialog or not possible in its state, 3 Kafka unreachable.
    """
    if (code is None) == bool(description):
        raise typer.BadParameter("--error CODE and --description TEXT go together: the peer gets both")
    ending: Ending = End() if code is None else EndWithError(code, description)
    check_reason(reason, dry_run=dry_run)
    kafka, request = kafka_of(context), Request(getpass.getuser(), reason, wait)
    with answering(as_json):
        it = chosen(sides_of(kafka, id_of(conversation), service), service, side)
        check(it, ending)
        if not dry_run:
            announce(_effect(it, ending), as_json=as_json)
        _carry_out(context, kafka, it, ending, request, dry_run, as_json)


@app.command("cleanup", epilog=EXIT_CODES, cls=Command)
def cleanup(
    context: typer.Context,
    conversation: Id,
    service: OfService = "",
    side: SideName = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    reason: Reason = "",
    dry_run: DryRun = False,
    wait: Wait = 30.0,
    as_json: Json = False,
) -> None:
    """Close one side of a dialog at once, without telling the peer. For a dialog that cannot end in order. It cannot be undone.

    Messages that wait at this side become dead letters, and messages that arrive later, too. The peer's side stays open until it sends more,
    or until its lifetime ends. If the peer can still be reached, `dialogs end` is the better command.

    \b
    Examples:
      conversations dialogs cleanup 0199c1f2-0000-7000-8000-000000000001 --service orders --dry-run
      conversations dialogs cleanup 0199c1f2-0000-7000-8000-000000000001 --service orders --reason INC-4711 --yes

    Exit codes: 0 the owner has closed it, 1 refused or not answered, 2 no such dialog, 3 Kafka unreachable.
    """
    check_reason(reason, dry_run=dry_run)
    asks = not yes and not dry_run
    if asks and (as_json or not sys.stdin.isatty()):
        raise typer.BadParameter("a cleanup cannot be undone: see its effect with --dry-run, and confirm it with --yes")
    kafka, request = kafka_of(context), Request(getpass.getuser(), reason, wait)
    with answering(as_json):
        it = chosen(sides_of(kafka, id_of(conversation), service), service, side)
        check(it, Cleanup())
        if not dry_run:
            announce(_effect(it, Cleanup()), as_json=as_json)
        if asks:
            typer.confirm("Close it?", abort=True)
        _carry_out(context, kafka, it, Cleanup(), request, dry_run, as_json)


@app.command("resend", epilog=EXIT_CODES, cls=Command)
def resend(
    context: typer.Context,
    conversation: Id,
    service: OfService = "",
    reason: Reason = "",
    dry_run: DryRun = False,
    wait: Wait = 30.0,
    as_json: Json = False,
) -> None:
    """Send what the peer of a broken dialog has not accepted again, in order, on a new dialog. The broken dialog ends.

    For a dialog whose on_error has failed, or waits. The peer is asked first what it has accepted, so nothing is sent twice. If it does not
    answer in time, or has given up on accepted messages, the messages become dead letters of this service.

    \b
    Examples:
      conversations dialogs list orders --state error
      conversations dialogs resend 0199c1f2-0000-7000-8000-000000000001 --dry-run
      conversations dialogs resend 0199c1f2-0000-7000-8000-000000000001 --reason INC-4711

    Exit codes: 0 the owner asks the peer, 1 refused or not answered, 2 no such dialog or not possible in its state, 3 Kafka unreachable.
    """
    check_reason(reason, dry_run=dry_run)
    kafka, request = kafka_of(context), Request(getpass.getuser(), reason, wait)
    with answering(as_json):
        it = chosen(sides_of(kafka, id_of(conversation), service), service, "initiator")
        check(it, Resend())
        if not dry_run:
            announce(_effect(it, Resend()), as_json=as_json)
        _carry_out(context, kafka, it, Resend(), request, dry_run, as_json)


# -- arguments ---------------------------------------------------------------------------------------------------------


def _state(text: str) -> State | None:
    wanted = text.lower().replace("-", " ").replace("_", " ")
    found = next((state for state, word in STATES.items() if word == wanted), None)
    if text and found is None:
        raise typer.BadParameter(f"--state {text}: one of {', '.join(STATES.values())}")
    return found


def _span(text: str) -> timedelta | None:
    with about_option("--older-than"):
        return span(text) if text else None


def _named(text: str) -> str:
    """Return the name of a service from its name, or from a target.

    Raises:
        TargetError: the target cannot be found.
    """
    if ":" not in text:
        return text
    search_here()
    with HandlerLoop() as loop, entered(text, loop) as found:
        return found.service.name


# -- effects -----------------------------------------------------------------------------------------------------------


def _carry_out(
    context: typer.Context, kafka: Kafka, it: Side, ending: Ending, request: Request, dry_run: bool, as_json: bool
) -> None:
    command = None if dry_run else finish(kafka, it, ending, request)
    count, head = _letters(it, ending), next((head.letter for head in it.heads if head.number >= 0), "")
    left = left_letters.commands(context, it.service, it.name, head=head, initiator=it.initiator) if count else []
    data = {
        "conversation": it.name, "service": it.service, "side": one_dialog.word(it), "action": NAMES[type(ending)],
        "dead_letters": count, "command": command, "done": not dry_run, "next": left,
    }  # fmt: skip
    text = f"would {_effect(it, ending)}" if dry_run else _effect(it, ending, done=True)
    show(data, left_letters.lines(text, [] if dry_run else left), as_json=as_json)


def _letters(it: Side, ending: Ending) -> int:
    """Return the number of messages that become dead letters at once. Held messages wait until the side is closed."""
    closes = isinstance(ending, Cleanup) or it.state not in (State.STARTED_OUTBOUND, State.CONVERSING)
    return it.waits.parked.messages + (it.waits.held.messages if closes else 0)


def _effect(it: Side, ending: Ending, *, done: bool = False) -> str:
    """Say what an ending does; with ``done``, what it has done."""
    where = f"the {one_dialog.word(it)}'s side of {it.name} at {it.service}"
    count = _letters(it, ending)
    letters = (
        left_letters.messages(it, count, done=done) or f"; no message {'became' if done else 'becomes'} a dead letter"
    )
    end, close, ask = ("ended", "closed", "asked") if done else ("end", "close", "ask")
    delayed = it.waits.delayed.records
    if isinstance(ending, Resend):
        rest = counted(it.waits.unacknowledged.messages, "message")
        return f"{ask} {it.peer} what it has accepted of {it.name}; the rest of {rest} without acknowledgement goes to a new dialog{letters}"
    if isinstance(ending, Cleanup):
        sent = (
            f"; {counted(delayed, 'envelope')} for {it.peer} that cannot be sent now become dead letters"
            if delayed
            else ""
        )
        return (
            f"{close} {where} at once; {it.peer} is told nothing, and learns it when it sends more ({NOT_CONVERSING.number}) or when its lifetime "
            f"ends ({LIFETIME.number}){letters}{sent}"
        )
    if it.state in (State.STARTED_OUTBOUND, State.DISCONNECTED_INBOUND, State.ERROR):
        return f"{end} {where}; {it.peer} gets nothing, because the state is {STATES[it.state]!r}{letters}"
    if isinstance(ending, EndWithError):
        dropped = f"; {counted(delayed, 'envelope')} that cannot be sent now are dropped" if delayed else ""
        return f"{end} {where} with error {ending.code}; {it.peer} gets the error{letters}{dropped}"
    return f"{end} {where}; {it.peer} gets an END after the messages that were sent{letters}"


# -- showing -----------------------------------------------------------------------------------------------------------

HEADERS = (
    "DIALOG", "SIDE", "SERVICE", "CONTRACT", "PEER", "STATE", "SENT", "ACKED", "ACCEPTED", "HANDLED", "WAITS", "LIFETIME ENDS", "ERROR"
)  # fmt: skip


def _table(found: Sequence[tuple[str, Side]], *, several: bool) -> str:
    """Write sides with the names of their clusters; the names are shown if ``several`` clusters were looked at."""
    now = time.time()
    rows = [
        (
            *((cluster or HERE,) if several else ()), it.name, one_dialog.word(it), it.service, it.contract, it.peer, STATES[it.state], it.sent,
            "" if it.closed else it.acknowledged, it.accepted, it.handled, _waits(it),
            "" if it.lifetime_ends is None else ahead(it.lifetime_ends, now), one_dialog.error(it),
        )
        for cluster, it in found
    ]  # fmt: skip
    headers = ("CLUSTER", *HEADERS) if several else HEADERS
    return as_text(headers, rows, whole=("CLUSTER", "DIALOG", "SIDE", "LIFETIME ENDS"))


def _waits(it: Side) -> str:
    """Say what waits: the counts of records by kind, and the handlers without a message."""
    piles = [f"{name} {pile.records}" for name, pile in one_dialog.piles(it) if pile.records]
    return ", ".join([*piles, *(head.what.lower() for head in it.heads if head.number < 0)])
