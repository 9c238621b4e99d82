"""``conversations dead-letters list --detached``, ``discard`` and ``resubmit``: commands for letters that no dialog waits for.

A detached letter stays open until an operator discards it or resubmits its message.
"""

from __future__ import annotations

import getpass
from collections.abc import Sequence
from typing import Annotated

import typer

from conversations.config import Kafka
from conversations.errors import DeclarationError
from conversations.protocol import letters
from conversations_ops.cli import completion
from conversations_ops.cli.catching_up import read_model
from conversations_ops.cli.changes import DryRun, Reason, Wait, announce, check_reason, refusals
from conversations_ops.cli.kafka_options import Command, kafka_of
from conversations_ops.cli.one_letter import cause, plain_open
from conversations_ops.cli.output import Json, failures, show
from conversations_ops.console.exit_codes import EXIT_CODES
from conversations_ops.console.tables import as_text
from conversations_ops.console.times import moment
from conversations_ops.operate.open_letters import OpenLetter, OpenLetterSelector, Request, close
from conversations_ops.printable import counted, one_line
from conversations_ops.read_model.detached import with_bytes, without_bytes
from conversations_ops.read_model.letters import Kept, every_open
from conversations_ops.read_model.services import chosen as known

app = typer.Typer()
Letters = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[LETTER...]",
        autocompletion=completion.detached_letters,
        help="Names of letters, as `list --detached` shows them.",
    ),
]
One = Annotated[
    str,
    typer.Argument(
        metavar="LETTER",
        autocompletion=completion.detached_letters,
        help="Name of a letter, as `list --detached` shows it. All open letters of its dialog are sent.",
    ),
]


@app.command("discard", epilog=EXIT_CODES, cls=Command)
def discard(
    context: typer.Context,
    named: Letters = None,
    service: Annotated[
        str | None, typer.Option(autocompletion=completion.services, help="Only letters of this service.")
    ] = None,
    with_reason: Annotated[str | None, typer.Option(help="Only letters with this REASON, e.g. after-end.")] = None,
    exception: Annotated[
        str | None,
        typer.Option(help="Only letters whose last exception has this class, e.g. KeyError (without its module)."),
    ] = None,
    type_: Annotated[str | None, typer.Option("--type", help="Only messages of this type.")] = None,
    conversation: Annotated[str | None, typer.Option(help="Only letters of this dialog.")] = None,
    reason: Reason = "",
    dry_run: DryRun = False,
    wait: Wait = 30.0,
    as_json: Json = False,
) -> None:
    """Close detached letters without sending anything. Their bytes stay in the dead-letter topic.

    Give the names of the letters, or at least one condition on letters. Try --dry-run first, because it prints the number of letters.

    \b
    Examples:
      conversations dead-letters discard orders.queue-3-17 orders.queue-3-18 --reason "test data"
      conversations dead-letters discard --service orders --with-reason after-end --reason "declined cards"
    """
    kafka = kafka_of(context)
    check_reason(reason, dry_run=dry_run)
    selector = _selector(service, with_reason, exception, type_, conversation)
    if bool(named) == any(selector):
        raise typer.BadParameter(
            "name the letters, or select them with --service, --with-reason, --exception, --type or --conversation"
        )
    with failures(as_json=as_json), refusals("an owner", as_json=as_json):
        found = (
            _find(kafka, named)
            if named
            else [it for it in open_letters(kafka, selector.service) if selector.matches(it)]
        )
        what = counted(len(found), "letter")
        if found and not dry_run:
            announce(f"discard {what}", as_json=as_json)
            close(kafka, found, "discarded", Request(getpass.getuser(), reason, wait))
        data = {"letters": [it.letter for it in found], "done": not dry_run}
        show(data, f"{'would discard' if dry_run else 'discarded'} {what}", as_json=as_json)


@app.command("resubmit", epilog=EXIT_CODES, cls=Command)
def resubmit(
    context: typer.Context,
    letter: One,
    end: Annotated[bool, typer.Option("--end", help="End the new dialog after the last message.")] = False,
    reason: Reason = "",
    dry_run: DryRun = False,
    wait: Wait = 30.0,
    as_json: Json = False,
) -> None:
    """Send the dead-lettered messages of a closed dialog again, in order, on a new dialog.

    The service that began the old dialog also begins the new dialog, with the same keys, and gets the answers. If the
    command times out, run it again: it continues, and sends no message twice.

    \b
    Example:
      conversations dead-letters resubmit orders.queue-3-17 --reason "credit bureau is back"
    """
    from conversations_ops.operate.resubmission import resubmission, sequence
    from conversations_ops.operate.resubmission import resubmit as send_again

    kafka = kafka_of(context)
    check_reason(reason, dry_run=dry_run)
    with failures(as_json=as_json), refusals("an owner", as_json=as_json):
        kept = found_open(kafka, letter.rpartition(".")[0])
        (chosen,) = _chosen(list(map(without_bytes, kept)), [letter])
        whole = with_bytes(
            kafka,
            [it for it in kept if it.letter == letter or (it.conversation and it.conversation == chosen.conversation)],
        )
        (chosen,) = _chosen(whole, [letter])
        made = resubmission(sequence(whole, chosen) or [chosen])
        what, name = f"{counted(len(made.letters), 'message')} of {chosen.conversation} again on", "a new dialog"
        if not dry_run:
            announce(f"send {what} {name}", as_json=as_json)
            name = send_again(kafka, made, Request(getpass.getuser(), reason, wait), end=end)
        data = {
            "letters": [it.letter for it in made.letters], "dialog": None if dry_run else name, "service": made.service,
            "done": not dry_run,
        }  # fmt: skip
        show(data, one_line(f"{'would send' if dry_run else 'sent'} {what} {name}"), as_json=as_json)


def _selector(*given: str | None) -> OpenLetterSelector:
    """Make a selector of the given values of its fields, in order; None is no condition.

    Raises:
        typer.BadParameter: a value is empty, as the value of an unset shell variable is, or the reason is unknown.
    """
    if "" in given:
        raise typer.BadParameter("a condition is empty, so it would select every letter: leave it out, or give a value")
    selector = OpenLetterSelector(*(value or "" for value in given))
    if selector.reason and selector.reason not in letters.REASONS:
        raise typer.BadParameter(f"--with-reason {selector.reason}: one of {', '.join(letters.REASONS)}")
    return selector


def found_open(kafka: Kafka, service: str = "") -> list[Kept]:
    """Return the open letters of one service or of all services, from the read model.

    Raises:
        DeclarationError: there is no such service.
        LogError: a topic cannot be read.
    """
    with read_model(kafka) as file:
        known(kafka, file, service)
        return every_open(file, service)


def open_letters(kafka: Kafka, service: str = "") -> list[OpenLetter]:
    """Return the same letters without their bytes."""
    return list(map(without_bytes, found_open(kafka, service)))


def list_detached(kafka: Kafka, service: str, every: bool, as_json: bool) -> Sequence[OpenLetter]:
    """Print the open letters of one service or of all services, and return them.

    If ``every`` is False, the text has only the number of the messages that arrived after the end of their dialogs. An ordinary error
    of a peer can cause many of these letters.
    """
    with failures(as_json=as_json):
        kept = found_open(kafka, service)
        found = with_bytes(kafka, kept) if as_json else list(map(without_bytes, kept))
    if as_json:
        show({"letters": [plain_open(it) for it in found]}, "", as_json=True)
        return found
    if not found:
        show({}, "no detached letter is open", as_json=False)
        return found
    shown = found if every else [it for it in found if it.reason != letters.AFTER_END]
    table = as_text(("LETTER", "MESSAGE", "DIALOG", "REASON", "AT", "WHAT"), map(_row, shown)) if shown else ""
    show({}, table or "no other detached letter is open", as_json=False)
    if late := len(found) - len(shown):
        only = f" --service {service}" if service else ""
        typer.echo(
            f"{late} more arrived after the end of their dialogs: --all lists them, "
            f"'conversations dead-letters discard{only} --with-reason {letters.AFTER_END} --reason WHY' closes them",
            err=True,
        )
    return found


def _row(it: OpenLetter) -> tuple[str, ...]:
    message = f"{it.what} #{it.number}" if it.number >= 0 else ""
    reason = f"of {it.foreign}" if it.foreign else it.reason
    return it.letter, message, it.conversation, reason, moment(it.at), cause(it)[:200]


def _find(kafka: Kafka, names: Sequence[str]) -> list[OpenLetter]:
    of = {letter.rpartition(".")[0] for letter in names}
    return _chosen([it for service in sorted(of) for it in open_letters(kafka, service)], names)


def _chosen(found: Sequence[OpenLetter], names: Sequence[str]) -> list[OpenLetter]:
    named = {it.letter: it for it in found}
    if missing := [letter for letter in names if letter not in named]:
        raise DeclarationError(
            f"{missing[0]} is not open, or a dialog waits for it: 'conversations dead-letters list --detached' shows open letters, "
            "'conversations dead-letters list' shows letters that dialogs wait for"
        )
    if foreign := [named[letter] for letter in names if named[letter].foreign]:
        raise DeclarationError(
            f"{foreign[0].letter} was written by {foreign[0].foreign}: it belongs to no dialog, and this command cannot close it"
        )
    return [named[letter] for letter in dict.fromkeys(names)]
