"""``conversations dialogs send``: sends a message on an existing dialog, as one of its services."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from conversations_ops.cli import one_dialog
from conversations_ops.cli.changes import DryRun, Wait
from conversations_ops.cli.kafka_options import Command, kafka_of
from conversations_ops.cli.one_side import Id, Key, SideName, answering, chosen, id_of, sides_of
from conversations_ops.cli.output import Json, show
from conversations_ops.console.exit_codes import EXIT_CODES
from conversations_ops.console.search_path import search_here
from conversations_ops.host.targets import HandlerLoop, entered
from conversations_ops.operate.messages import Message, message_type, noted, transmit
from conversations_ops.printable import counted, one_line

app = typer.Typer()


@app.command("send", epilog=EXIT_CODES, cls=Command)
def send(
    context: typer.Context,
    conversation: Id,
    name: Annotated[str, typer.Argument(metavar="TYPE", help="Name of the message type.")],
    body: Annotated[
        str,
        typer.Argument(
            metavar="BODY",
            help="Body: JSON for a class or an Avro schema, else the bytes. Default: standard input, if the type has a body.",
        ),
    ] = "",
    target: Annotated[
        str,
        typer.Option(
            "--service", metavar="TARGET", help="Target module:attribute of the service that sends.", show_default=False
        ),
    ] = "",
    side: SideName = "",
    key: Key = "",
    dry_run: DryRun = False,
    wait: Wait = 30.0,
    as_json: Json = False,
) -> None:
    """Send a message on a dialog that has begun, as the service of one of its sides. A handler, a client and this command may send at once.

    The body is checked against the message type. Without BODY it is read from standard input. The command ends when the owner of the dialog has put the message behind all messages that
    this side sent before. With --key, a command without an answer may be repeated.

    \b
    Examples:
      conversations dialogs send 0199c1f2-0000-7000-8000-000000000001 Note '{"text": "on its way"}' --service shop.orders:service
      conversations dialogs send 0199c1f2-0000-7000-8000-000000000001 Note --service shop.orders:service --key INC-4711

    Exit codes: 0 the message is sent, 1 refused or not answered, 2 no such dialog or not possible on it, 3 Kafka unreachable.
    """
    if not target:
        raise typer.BadParameter("name the service that sends, because it has the message types: --service TARGET")
    kafka, own = kafka_of(context), id_of(conversation)
    search_here()
    with answering(as_json), HandlerLoop() as loop, entered(target, loop) as found:
        service = found.service
        it = chosen(sides_of(kafka, own, service.name), service.name, side)
        declared = message_type(service, it, name)
        data = body.encode("utf-8", "surrogateescape")
        if not body and declared.body is not None:
            data = sys.stdin.buffer.read()
        message = Message(it, noted(declared, data), key)
        command = None if dry_run else transmit(kafka, message, wait)
        where = f"{it.name} as the {one_dialog.word(it)}, {it.service}"
        size = counted(len(message.send.body), "byte")
        told = f"{'would send' if dry_run else 'sent'} {declared.name} with {size} on {where}"
        plain = {
            "conversation": it.name, "service": it.service, "side": one_dialog.word(it), "type": declared.name,
            "bytes": len(message.send.body), "key": key, "command": command, "done": not dry_run,
        }  # fmt: skip
        show(plain, one_line(told), as_json=as_json)
