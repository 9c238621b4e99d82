"""``conversations send`` and ``conversations request``: speak for a service from a terminal, through the client."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from conversations.client import Client
from conversations.config import Kafka, Limits, Periods
from conversations.durations import SECOND
from conversations.errors import LocalError, LogError, NotAccepted, RequestTimeout
from conversations.kafka.catalog import Catalog, read_catalog
from conversations.protocol.admission import not_initiated, request_lifetime, unknown_service
from conversations.protocol.contract import Contract, MessageType
from conversations.protocol.identifiers import Handle
from conversations.protocol.states import Trigger, refuse
from conversations.service import Service
from conversations_ops.cli import completion, one_dialog
from conversations_ops.cli.asked import Asked, fail, goes_on, show_answer
from conversations_ops.cli.changes import DryRun
from conversations_ops.cli.kafka_options import Command, kafka_of
from conversations_ops.cli.one_side import Key, answering, chosen, id_of, sides_of
from conversations_ops.cli.option_errors import about_option
from conversations_ops.cli.output import Json, show, show_error
from conversations_ops.console.exit_codes import Exit, code_of
from conversations_ops.console.search_path import search_here
from conversations_ops.console.times import span
from conversations_ops.host.targets import HandlerLoop, entered
from conversations_ops.operate.catalogued import check_accepts, service_in
from conversations_ops.operate.dialogs import Side
from conversations_ops.operate.messages import body_of, message_type, noted
from conversations_ops.operate.requests import Listener, Opening, Said, begin, speak
from conversations_ops.printable import one_line
from conversations_ops.settings.given import periods

app = typer.Typer()
LARGEST = 8 * Limits().record_body
"""Maximum bytes of a body as it is given; JSON may be larger than what is sent."""

To = Annotated[
    str, typer.Argument(metavar="TARGET", autocompletion=completion.services, help="Name of the service that gets it.")
]
Type = Annotated[str, typer.Argument(metavar="TYPE", help="Name of the message type.")]
Input = Annotated[str, typer.Argument(metavar="[-]", help="A - reads the body from standard input.")]
From = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="SERVICE",
        autocompletion=completion.services,
        help="The service that sends: its name in the catalog, or its code as module:attribute.",
        show_default=False,
    ),
]
OfContract = Annotated[
    str, typer.Option("--contract", metavar="CONTRACT", help="Name of the contract of a new dialog.")
]
Body = Annotated[
    str, typer.Option(metavar="JSON", help="The body: JSON for a class or an Avro schema, else the bytes.")
]
BodyFile = Annotated[str, typer.Option(metavar="FILE", help="A file with the body; - is standard input.")]
NewId = Annotated[
    str,
    typer.Option(
        "--id", metavar="ID", help="Id of the new dialog, a UUIDv7. A repetition with it begins no second dialog."
    ),
]
Lifetime = Annotated[str, typer.Option(metavar="SPAN", help="Lifetime of the new dialog, e.g. 90s, 15m, 1h30m or 7d.")]
ToGroup = Annotated[
    str, typer.Option(help="Conversation group at the target, if the contract lets the initiator name it.")
]


@app.command("send", cls=Command)
def send(
    context: typer.Context,
    target: To,
    name: Type,
    stdin: Input = "",
    service: From = "",
    contract: OfContract = "",
    body: Body = "",
    body_file: BodyFile = "",
    dialog: Annotated[
        str, typer.Option("--dialog", metavar="ID", help="Send on this dialog with TARGET. Default: begin a dialog.")
    ] = "",
    side: Annotated[
        str, typer.Option(metavar="SIDE", help="With --dialog: initiator or target, if SERVICE has both sides.")
    ] = "",
    key: Key = "",
    new_id: NewId = "",
    lifetime: Lifetime = "",
    to_group: ToGroup = "",
    end: Annotated[bool, typer.Option("--end", help="End this side of the dialog after the message.")] = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Begin a dialog with a message, or send a message on a dialog with --dialog, as a client of a service.

    The body is checked against the message type before anything is sent. With the name of a service, the schemas of the catalog are used;
    patterns and formats of JSON schemas are then checked by the target only.

    Kafka keeps what it has accepted, and the workers of SERVICE carry it out when they run. This command does not wait for them:
    `conversations dialogs show ID` tells what became of it, and `conversations dialogs send` waits for them.

    \b
    Examples:
      conversations send bank Payment --contract Payments --from shop --body '{"amount": 5}' --dry-run
      conversations send bank Payment --contract Payments --from shop.orders:service --body-file payment.json --lifetime 1h
      conversations send bank Cancel --from shop --dialog 0199c1f2-0000-7000-8000-000000000001 --key INC-4711 --end
      jq -c .payment order.json | conversations send bank Payment - --contract Payments --from shop

    Exit codes: 0 Kafka has accepted it, 1 it is not known whether Kafka has accepted it, 2 it does not fit and nothing was sent, 3 Kafka unreachable.
    """  # fmt: skip
    _check(service, contract, dialog, {"--id": new_id, "--lifetime": lifetime, "--to-group": to_group})
    if side and not dialog:
        raise typer.BadParameter("--side goes with --dialog: who begins a dialog is its initiator")
    lives, kafka = _span("--lifetime", lifetime), kafka_of(context)
    data = _body(body, body_file, stdin)
    with answering(as_json), _accepted(as_json):
        catalog, of = read_catalog(kafka), periods()
        if dialog:
            with _code(service) as code:
                it = _side(sides_of(kafka, id_of(dialog)), dialog, target, side, service if code is None else code.name)
                refuse(it.state, Trigger.SEND)
                if contract not in ("", it.contract):
                    raise LocalError(f"the contract of {it.name} is {it.contract!r}, not {contract!r}")
                own = code or service_in(catalog, service, it.contract, name, initiates=it.initiator)
                said = _said(message_type(own, it, name), data, key=key, end=end)
                if not dry_run:
                    with Client(own, kafka, periods=of) as client:
                        speak(client, Handle(it.conversation, it.key, it.initiator).text, said)
                asked = Asked(it.name, own.name, target, it.contract, said)
            _told_send(asked, dry_run=dry_run, begun=False, as_json=as_json)
            return
        with _code(service) as code:
            own = code or service_in(catalog, service, contract, name, initiates=True)
            opening = _opening(catalog, own, target, contract, (new_id, lives, to_group))
            said = _said(opening.contract.outgoing(None, name, True), data, key=key, end=end)
            if dry_run:
                _check_opening(own, kafka, of, opening)
            else:
                with Client(own, kafka, periods=of) as client:
                    begin(client, opening, said)
            _told_send(
                Asked(opening.id, own.name, target, contract, said), dry_run=dry_run, begun=True, as_json=as_json
            )


@app.command("request", cls=Command)
def request(
    context: typer.Context,
    target: To,
    name: Type,
    stdin: Input = "",
    service: From = "",
    contract: OfContract = "",
    body: Body = "",
    body_file: BodyFile = "",
    new_id: NewId = "",
    lifetime: Lifetime = "",
    to_group: ToGroup = "",
    wait: Annotated[float, typer.Option(min=0.1, help="Seconds to wait for the reply.")] = 30.0,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Begin a dialog with one message, wait for the reply of the peer, print it, and end the dialog.

    The workers of SERVICE must run: they begin the dialog, they get the reply, and their handler handles it as always. This command only looks
    on: it joins no group and takes no partition from them. The reply is the first message of TARGET.

    Without a reply, the dialog lives on until it is ended or its lifetime is over. By default this is the setting periods.request_lifetime,
    or the time to wait if that is longer.

    \b
    Examples:
      conversations request bank Balance --contract Accounts --from shop --body '{"account": "42"}'
      conversations request bank Balance --contract Accounts --from shop --body '{"account": "42"}' --wait 5 --json | jq .reply.body

    Exit codes: 0 a reply, 1 an error of the peer, no reply in time, or not known whether Kafka has accepted it, 2 it does not fit and nothing was sent,
    3 Kafka unreachable.
    """  # fmt: skip
    _check(service, contract, "", {})
    lives, kafka = _span("--lifetime", lifetime), kafka_of(context)
    data = _body(body, body_file, stdin)
    with answering(as_json), _accepted(as_json):
        catalog, of = read_catalog(kafka), periods()
        with _code(service) as code:
            own = code or service_in(catalog, service, contract, name, initiates=True)
            opening = _opening(catalog, own, target, contract, (new_id, lives, to_group))
            if opening.lifetime is None:
                opening = opening._replace(lifetime=_lifetime(opening.contract, of, wait))
            said = _said(opening.contract.outgoing(None, name, True), data)
            _check_opening(own, kafka, of, opening)
            asked = Asked(opening.id, own.name, target, contract, said)
            if dry_run:
                show(
                    {**asked.plain(), "accepted": False, "done": False},
                    one_line(f"would send {asked.what()}"),
                    as_json=as_json,
                )
                return
            _ask(kafka, own, of, opening, asked, wait, as_json)


def _ask(
    kafka: Kafka, own: Service[Any], of: Periods, opening: Opening, asked: Asked, wait: float, as_json: bool
) -> None:
    """Begin the dialog, wait for the reply, and show what came."""
    listener = Listener(kafka, own, opening.id, of)
    with Client(own, kafka, periods=of) as client:
        begin(client, opening, asked.said)
        if not as_json:
            typer.echo(one_line(f"Kafka has accepted {asked.what()}"), err=True)
        try:
            answer = listener.wait(wait)
            ended = answer.is_open and answer.reply is not None and _ended(client, own, opening.id)
        except KeyboardInterrupt:
            typer.echo(one_line(f"interrupted: {goes_on(opening.id)}"), err=True)
            raise
        except (RequestTimeout, LogError) as error:
            fail(asked, f"{error}. {goes_on(opening.id)}", error, as_json)
    show_answer(asked, opening.contract, answer, ended, as_json)


def _ended(client: Client, own: Service[Any], dialog_id: str) -> bool:
    """End the dialog, and return whether Kafka has accepted this. The reply is there in any case."""
    try:
        with client.dialog(dialog_id) as dialog:
            dialog.end()
    except NotAccepted as error:
        typer.echo(one_line(f"the end of the dialog of {own.name} is not accepted: {error}"), err=True)
        return False
    return True


# -- arguments ---------------------------------------------------------------------------------------------------------


def _check(service: str, contract: str, dialog: str, of_new: dict[str, str]) -> None:
    """Check which options go together. ``of_new`` has those of new dialogs.

    Raises:
        typer.BadParameter: they do not.
    """
    if not service:
        raise typer.BadParameter("name the service that sends: --from SERVICE")
    if not contract and not dialog:
        raise typer.BadParameter("name the contract of the new dialog: --contract CONTRACT (or a dialog: --dialog ID)")
    if dialog and (given := [name for name, value in of_new.items() if value]):
        raise typer.BadParameter(f"{given[0]} is for a new dialog, and --dialog names one that has begun")


def _span(option: str, text: str) -> timedelta | None:
    with about_option(option):
        return span(text) if text else None


def _body(text: str, file: str, stdin: str) -> bytes:
    """Return the bytes of the body that is given in one of three ways; empty if none is.

    Raises:
        typer.BadParameter: it is given twice, is too large, or the file cannot be read.
    """
    if stdin not in ("", "-"):
        raise typer.BadParameter(f"{stdin[:80]!r}: give the body with --body or --body-file, or a - for standard input")
    if sum(map(bool, (text, file, stdin))) > 1:
        raise typer.BadParameter("give the body once: --body, --body-file or -")
    if text:
        return text.encode("utf-8", "surrogateescape")
    if not file and not stdin:
        return b""
    try:
        if file in ("", "-"):
            data = sys.stdin.buffer.read(LARGEST + 1)
        else:
            with Path(file).open("rb") as opened:
                data = opened.read(LARGEST + 1)
    except OSError as error:
        raise typer.BadParameter(f"--body-file {file}: {error.strerror}") from error
    if len(data) > LARGEST:
        raise typer.BadParameter(f"the body has more than {LARGEST:,} bytes")
    return data


@contextmanager
def _code(text: str) -> Iterator[Service[Any] | None]:
    """Give the block the service of a module:attribute; None if the text is the name of a service."""
    if ":" not in text:
        yield None
        return
    search_here()
    with HandlerLoop() as loop, entered(text, loop) as found:
        yield found.service


def _said(declared: MessageType, data: bytes, *, key: str = "", end: bool = False) -> Said:
    size = len(noted(declared, data).body)  # the check of the whole body
    return Said(declared, body_of(declared, data), size, key, end)


def _opening(
    catalog: Catalog, own: Service[Any], target: str, contract: str, wanted: tuple[str, timedelta | None, str]
) -> Opening:
    """Return the dialog to begin, after a check against the catalog. ``wanted`` has its id, its lifetime and its group at the target.

    Raises:
        UnknownService: the catalog does not name the target (8490).
        UnknownContract: the service does not initiate the contract, or the target does not accept it (8425).
    """
    if target not in catalog.services:
        raise unknown_service(target, catalog.services)
    found = own.initiates.get(contract)
    if found is None:
        raise not_initiated(own.name, contract, f"it initiates {', '.join(sorted(own.initiates)) or 'none'}")
    check_accepts(catalog, target, contract)
    new_id, lifetime, to_group = wanted
    return Opening(target, found, new_id or Client.new_id(), lifetime, to_group or None)


def _check_opening(own: Service[Any], kafka: Kafka, of: Periods, opening: Opening) -> None:
    """Check what the client checks when a dialog begins. Nothing is written."""
    client = Client(own, kafka, periods=of)
    client.begin_dialog(
        opening.to, opening.contract, id=opening.id, lifetime=opening.lifetime, to_group=opening.to_group
    )


def _lifetime(contract: Contract, of: Periods, wait: float) -> timedelta:
    """Return the lifetime of a request, as ``Client.request`` has it."""
    return request_lifetime(contract, int(wait * SECOND), of.request_lifetime)


def _side(sides: Sequence[Side], dialog: str, target: str, side: str, service: str) -> Side:
    """Return the side of the service that sends. A side that is closed does not know its peer any more."""
    found = [it for it in sides if it.service == service and it.peer in (target, "")]
    if not found:
        known = ", ".join(f"{it.service} ({one_dialog.word(it)}, with {it.peer or 'nobody any more'})" for it in sides)
        raise LookupError(f"dialog {dialog} has no side of {service} with {target}; it has {known}")
    return chosen(found, service, side)


@contextmanager
def _accepted(as_json: bool) -> Iterator[None]:
    """If Kafka has not confirmed a command of the block, show this, and exit."""
    try:
        yield
    except NotAccepted as error:
        cause = error.__cause__
        show_error(str(error), "NotAccepted", as_json=as_json)
        raise typer.Exit(code_of(cause) if isinstance(cause, LogError) else Exit.HUMAN) from error


def _told_send(asked: Asked, *, begun: bool, dry_run: bool, as_json: bool) -> None:
    text = f"would send {asked.what()}" if dry_run else f"sent {asked.what()}: Kafka has accepted it"
    data = {**asked.plain(), "begins": begun, "accepted": not dry_run, "done": not dry_run}
    show(data, one_line(text), as_json=as_json)
