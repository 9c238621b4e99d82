"""``conversations dead-letters groups|note``: groups of failed messages, and notes on them."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

from conversations.errors import DeclarationError
from conversations_ops.cli import completion
from conversations_ops.cli.catching_up import read_model
from conversations_ops.cli.changes import DryRun, Reason, check_reason
from conversations_ops.cli.kafka_options import Command, kafka_of
from conversations_ops.cli.output import Json, failures, show
from conversations_ops.console.exit_codes import EXIT_CODES, Exit
from conversations_ops.console.tables import as_text
from conversations_ops.console.times import moment
from conversations_ops.operate.notes import About, Mark, Note
from conversations_ops.read_model.groups import Noted, noted_groups

app = typer.Typer()
HEADERS = ("MARK", "SERVICE", "EXCEPTION", "TYPE", "LETTERS", "BEHIND", "FIRST", "LAST", "NOTE")
_Service = Annotated[str, typer.Option(autocompletion=completion.services, help="Service whose handler failed.")]


@app.command("groups", epilog=EXIT_CODES, cls=Command)
def list_groups(context: typer.Context, service: _Service = "", as_json: Json = False) -> None:
    """List the groups of messages that wait for a decision: the failed messages of a service with one exception and one type.

    MARK is new (nobody has noted the group), noted, mended, or regressed: a message failed after the cause was mended.

    \b
    Examples:
      conversations dead-letters groups
      conversations dead-letters groups --json | jq '.groups[] | select(.mark == "regressed")'
    """
    kafka = kafka_of(context)
    with failures(as_json=as_json), read_model(kafka) as file:
        found = noted_groups(file, service)
    rows = [
        (
            it.mark.value, it.group.service, it.group.exception, it.group.what, it.group.letters, it.group.behind,
            moment(it.group.first), moment(it.group.last), "; ".join(_told(one) for one in it.known if one is not None),
        )
        for it in found
    ]  # fmt: skip
    show({"groups": list(map(_plain, found))}, as_text(HEADERS, rows) if rows else "no letter waits", as_json=as_json)
    if found:
        raise typer.Exit(Exit.HUMAN)


def _told(note: Note) -> str:
    return f"{note.text} ({note.by}, {moment(note.at)})"


def _plain(it: Noted) -> dict[str, object]:
    group = it.group
    return {
        "mark": it.mark.value, "service": group.service, "exception": group.exception, "type": group.what, "letters": group.letters,
        "behind": group.behind, "first": moment(group.first), "last": moment(group.last), "failure": group.failure,
        "note": it.known.note and {**it.known.note._asdict(), "at": moment(it.known.note.at)},
        "mended": it.known.mended and {**it.known.mended._asdict(), "at": moment(it.known.mended.at)},
    }  # fmt: skip


@app.command("note", epilog=EXIT_CODES, cls=Command)
def write_note(
    context: typer.Context,
    service: _Service = "",
    exception: Annotated[str, typer.Option(help="Class of the exception, e.g. KeyError (without its module).")] = "",
    type_: Annotated[str, typer.Option("--type", help="Type of the messages.")] = "",
    mended: Annotated[
        bool, typer.Option("--mended", help="The cause is mended. A message that fails later is a regression.")
    ] = False,
    reason: Reason = "",
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Note something on a group, for everybody who looks at it. The reason is the note. A later note takes its place.

    A redrive of a whole group that ends well notes that the group is mended.

    \b
    Examples:
      conversations dead-letters note --service credit --exception KeyError --type Check --reason "wait for release 12"
      conversations dead-letters note --service credit --exception KeyError --type Check --mended --reason "release 12"
    """
    from conversations_ops.operate.notes import note

    kafka, about = kafka_of(context), About(service, exception, type_)
    check_reason(reason, dry_run=dry_run)
    with failures(as_json=as_json):
        with read_model(kafka) as file:
            found = [(it.group.service, it.group.exception, it.group.what) for it in noted_groups(file)]
        if about not in found:
            raise DeclarationError("there is no such group: 'conversations dead-letters groups' lists all")
        if not dry_run:
            note(kafka, about, getpass.getuser(), reason, mended=mended)
    mark = Mark.MENDED if mended else Mark.NOTED
    text = f"{'would note' if dry_run else 'noted'}: {exception} at {type_} of {service} is {mark.value}"
    show({**about._asdict(), "mark": mark.value, "done": not dry_run}, text, as_json=as_json)
