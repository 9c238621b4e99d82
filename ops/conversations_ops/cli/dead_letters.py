"""``conversations dead-letters`` and ``conversations retries``: failed messages, and decisions about them."""

from __future__ import annotations

import difflib
import getpass
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from conversations.config import Kafka
from conversations.kafka.catalog import read_catalog
from conversations.protocol.codes import POISON
from conversations.protocol.command import Action
from conversations.protocol.contract import MessageType
from conversations.protocol.parked import Decision, Parked
from conversations_ops.cli import completion, detached, left_letters, one_decision, one_letter
from conversations_ops.cli import groups as group_notes
from conversations_ops.cli.catching_up import read_model
from conversations_ops.cli.changes import DryRun, Reason, Wait, announce, check_reason, refusals
from conversations_ops.cli.kafka_options import Command, kafka_of
from conversations_ops.cli.output import Json, failures, show, show_error
from conversations_ops.console.editor import EditorFailed, edited
from conversations_ops.console.exit_codes import EXIT_CODES, Exit
from conversations_ops.console.tables import as_text
from conversations_ops.console.times import moment
from conversations_ops.operate.catalogued import misfit, received_type
from conversations_ops.operate.decisions import not_json
from conversations_ops.operate.failed import subject
from conversations_ops.operate.open_letters import KeptLetter
from conversations_ops.operate.redrive.outcomes import Outcome
from conversations_ops.operate.redrive.selection import By, Group, groups, member_of_open, member_of_parked
from conversations_ops.printable import one_line
from conversations_ops.read_model.detached import kept_letter, with_bytes, without_bytes
from conversations_ops.read_model.parked import parked_message, parked_messages

app = typer.Typer(
    help="Decide about failed messages for which dialogs wait, and about dead letters for which no dialog waits.",
    no_args_is_help=True,
    epilog=EXIT_CODES,
)
retries = typer.Typer(
    help="List failed messages that are retried automatically.", no_args_is_help=True, epilog=EXIT_CODES
)

app.add_typer(detached.app)
app.add_typer(group_notes.app)

Letter = Annotated[
    str,
    typer.Argument(
        metavar="LETTER",
        autocompletion=completion.parked_letters,
        help="Name of the letter, as `list` shows it, e.g. orders.queue-3-17.",
    ),
]
Service = Annotated[
    str,
    typer.Argument(
        metavar="[SERVICE]",
        autocompletion=completion.services,
        help="Only letters of this service. Default: all services.",
    ),
]


@app.command("list", epilog=EXIT_CODES, cls=Command)
def list_letters(
    context: typer.Context,
    service: Service = "",
    over: Annotated[bool, typer.Option("--detached", help="List letters that no dialog waits for.")] = False,
    every: Annotated[
        bool,
        typer.Option("--all", help="With --detached: list also messages that arrived after the end of their dialogs."),
    ] = False,
    by: Annotated[
        By | None, typer.Option(help="Group the letters by this field, and print one line for each group.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the letters that wait for your decision, each with the number of records that wait behind it.

    DEADLINE is the end of the dialog's lifetime: then the message and the records behind it become detached dead letters, and the dialog is
    broken with -8489.

    With --detached, list the letters of closed dialogs and of records that were set aside. No dialog waits for these letters.

    \b
    Examples:
      conversations dead-letters list --bootstrap localhost:9092
      conversations dead-letters list orders --json | jq '.letters[].letter'
      conversations dead-letters list --by exception
      conversations dead-letters list --detached --by reason

    Exit codes: 0 no letters, 1 at least one letter waits, 2 no such service, 3 Kafka unreachable.
    """
    if by is By.REASON and not over:
        raise typer.BadParameter(
            "--by reason goes with --detached: a dialog waits only for a message that its policy holds"
        )
    if every and not over:
        raise typer.BadParameter("--all goes with --detached")
    kafka = kafka_of(context)
    found: Sequence[object]
    if by is not None:
        found = _list_groups(kafka, service, by, over, as_json)
    elif over:
        found = detached.list_detached(kafka, service, every, as_json)
    else:
        found = _list(kafka, service, _is_letter, "letters", as_json)
    if found:
        raise typer.Exit(Exit.HUMAN)


@retries.command("list", epilog=EXIT_CODES, cls=Command)
def list_retries(
    context: typer.Context,
    service: Service = "",
    as_json: Json = False,
) -> None:
    """List failed messages that are retried automatically, with the time of the next attempt.

    \b
    Examples:
      conversations retries list --bootstrap localhost:9092
      conversations retries list orders --json | jq '.retries[].due'
    """
    _list(
        kafka_of(context),
        service,
        lambda it: not it.held and not it.queue_off,
        "retries",
        as_json,
    )


@app.command("show", epilog=EXIT_CODES, cls=Command)
def show_letter(
    context: typer.Context,
    letter: Letter,
    as_json: Json = False,
) -> None:
    """Show one letter: its dialog, its body, the stack trace of its handler, and the commands to decide about it.

    The letter may also be detached or closed. Then the reason says why no dialog waits for it.

    \b
    Examples:
      conversations dead-letters show orders.queue-3-17
      conversations dead-letters show orders.queue-3-17 --json | jq -r .stack
    """
    kafka = kafka_of(context)
    with _answering(as_json):
        try:
            it = _parked(kafka, letter)
        except LookupError as error:
            kept = _kept(kafka, letter)
            if kept is None:
                raise error from None
            show(one_letter.plain_kept(kept), one_letter.described_kept(kept), as_json=as_json)
        else:
            kept = _kept(kafka, letter) if _is_letter(it) else None
            stack = "" if kept is None else kept.letter.stack
            show({**one_letter.plain(it), "stack": stack}, one_letter.described(it, stack), as_json=as_json)


@app.command("retry", epilog=EXIT_CODES, cls=Command)
def retry(
    context: typer.Context,
    letter: Letter,
    reason: Reason = "",
    dry_run: DryRun = False,
    wait: Wait = 30.0,
    as_json: Json = False,
) -> None:
    """Run the handler again now. If it succeeds, the records that wait behind the message are handled next, in order.

    \b
    Example:
      conversations dead-letters retry orders.queue-3-17 --reason "bureau is back"

    Exit codes: 0 the message was handled, 1 it failed again or its outcome is not known yet, 2 no such letter, 3 Kafka unreachable.
    """
    kafka, decision = kafka_of(context), _decision(Action.RETRY, reason, dry_run)
    with _answering(as_json):
        _decide(context, kafka, _find(kafka, letter), decision, wait, dry_run, as_json)


@app.command("edit", epilog=EXIT_CODES, cls=Command)
def edit(
    context: typer.Context,
    letter: Letter,
    body: Annotated[
        str,
        typer.Option(
            metavar="FILE", help="File with the new body, or - for standard input. Default: open your editor."
        ),
    ] = "",
    reason: Reason = "",
    dry_run: DryRun = False,
    wait: Wait = 30.0,
    as_json: Json = False,
) -> None:
    """Replace the body of the message, and run the handler again. The new body must fit the message type.

    The body is checked against the schema in the catalog before anything is sent, also with --dry-run; and by the owner of the dialog when it
    gets it. The dead-letter topic keeps the old body.

    \b
    Examples:
      conversations dead-letters edit orders.queue-3-17 --reason "typo in the amount"
      conversations dead-letters edit orders.queue-3-17 --body mended.json --reason INC-4711

    Exit codes: 0 the message was handled, 1 it failed again or its outcome is not known yet, 2 no such letter or the body does not fit, 3 Kafka unreachable.
    """
    kafka = kafka_of(context)
    with _answering(as_json):
        it = _find(kafka, letter)
        decision = _decision(Action.EDIT, reason, dry_run)
        if it.number < 0:
            raise typer.BadParameter(
                f"{letter} has no body: {subject(it.what, it.number, it.timer)} failed, not a message"
            )
        decision = decision._replace(body=_new_body(it, body))
        declared = received_type(read_catalog(kafka), it)
        _check_body(declared, it, decision.body)
        if not as_json:
            _compare(it.body, decision.body)
            if declared is None:
                typer.echo(
                    f"the catalog has no schema of {one_line(it.what)}: only its owner can check the body", err=True
                )
        _decide(context, kafka, it, decision, wait, dry_run, as_json)


@app.command("skip", epilog=EXIT_CODES, cls=Command)
def skip(
    context: typer.Context,
    letter: Letter,
    reason: Reason = "",
    dry_run: DryRun = False,
    wait: Wait = 30.0,
    as_json: Json = False,
) -> None:
    """Skip the message. The records behind it are handled next, in order.

    The bytes of the message stay in the dead-letter topic. An event tells the peer's operators which message was skipped.

    \b
    Example:
      conversations dead-letters skip orders.queue-3-17 --reason "customer withdrew"
    """
    kafka, decision = kafka_of(context), _decision(Action.SKIP, reason, dry_run)
    with _answering(as_json):
        _decide(context, kafka, _find(kafka, letter), decision, wait, dry_run, as_json)


@app.command("end", epilog=EXIT_CODES, cls=Command)
def end(
    context: typer.Context,
    letter: Letter,
    code: Annotated[int, typer.Option(min=1, help="Error code for the peer.")] = POISON.number,
    description: Annotated[str, typer.Option(help="Error text for the peer.")] = POISON.text,
    reason: Reason = "",
    dry_run: DryRun = False,
    wait: Wait = 30.0,
    as_json: Json = False,
) -> None:
    """End the dialog with an error for the peer. The message and all records behind it become dead letters.

    \b
    Example:
      conversations dead-letters end orders.queue-3-17 --code 1404 --description "Unknown customer." --reason INC-4711
    """
    kafka, decision = kafka_of(context), _decision(Action.END, reason, dry_run)
    decision = decision._replace(code=code, description=description)
    with _answering(as_json):
        _decide(context, kafka, _find(kafka, letter), decision, wait, dry_run, as_json)


# -- decisions ---------------------------------------------------------------------------------------------------------


@contextmanager
def _answering(as_json: bool) -> Iterator[None]:
    """If the block fails in an expected way, print the error and exit with its code."""
    with failures(as_json=as_json), refusals("the owner of the dialog", as_json=as_json):
        try:
            yield
        except LookupError as error:
            show_error(str(error), "NotWaiting", as_json=as_json)
            raise typer.Exit(Exit.USAGE) from error


def _decision(action: Action, reason: str, dry_run: bool) -> Decision:
    check_reason(reason, dry_run=dry_run)
    return Decision(action, getpass.getuser(), reason)


def _parked(kafka: Kafka, letter: str) -> Parked:
    with read_model(kafka) as file:
        return parked_message(kafka, file, letter)


def _find(kafka: Kafka, letter: str) -> Parked:
    """Return the parked message of a letter. If no dialog waits for it, the error names the commands that are for it."""
    try:
        return _parked(kafka, letter)
    except LookupError as error:
        kept = _kept(kafka, letter)
        if kept is None or not kept.is_open or kept.letter.foreign:
            raise
        raise LookupError(
            f"no dialog waits for {letter}. 'conversations dead-letters resubmit' sends its message again on a new dialog, "
            "'conversations dead-letters discard' closes it"
        ) from error


def _kept(kafka: Kafka, letter: str) -> KeptLetter | None:
    with read_model(kafka) as file:
        return kept_letter(kafka, file, letter)


def _decide(
    context: typer.Context, kafka: Kafka, it: Parked, decision: Decision, wait: float, dry_run: bool, as_json: bool
) -> None:
    from conversations_ops.operate.decisions import GIVES_BACK, decide

    effect = one_decision.effect(it, decision)
    data = {"letter": it.letter, "action": decision.action.lower(), "behind": it.behind, "done": not dry_run}
    if dry_run:
        show(data, one_line(f"would {effect}"), as_json=as_json)
        return
    announce(effect, as_json=as_json)
    outcome = decide(kafka, it, decision, wait)
    done = one_decision.effect(it, decision, done=True)
    if decision.action == Action.END:
        head = it.letter if it.number >= 0 else ""
        left = left_letters.commands(context, it.service, it.conversation, head=head, initiator=it.initiator)
        next_commands = left if head or it.behind else []
        show({**data, "next": next_commands}, left_letters.lines(done, next_commands), as_json=as_json)
        return
    if decision.action not in GIVES_BACK:
        show(data, one_line(done), as_json=as_json)
        return
    result = one_decision.OUTCOMES[outcome].format(letter=it.letter, wait=wait)
    behind = one_decision.behind(kafka, it) if outcome is Outcome.HANDLED and not as_json else ""
    show({**data, "outcome": outcome}, one_line(f"{done}: {result}{behind}"), as_json=as_json)
    if outcome is not Outcome.HANDLED:
        raise typer.Exit(Exit.HUMAN)


def _new_body(it: Parked, file: str) -> bytes:
    if file == "-":
        return sys.stdin.buffer.read()
    if file:
        try:
            return Path(file).read_bytes()
        except OSError as error:
            raise typer.BadParameter(f"--body {file}: {error.strerror}") from error
    try:
        text = it.body.decode()
    except UnicodeDecodeError:
        raise typer.BadParameter(
            "the body is not text, so no editor can open it: give the new body with --body FILE"
        ) from None
    try:
        new = edited(text, ".json")
    except EditorFailed as error:
        raise typer.BadParameter(f"{error}. Give the new body with --body FILE") from error
    if new == text:
        raise typer.BadParameter("the body was not changed")
    return new.encode()


def _compare(old: bytes, new: bytes) -> None:
    """Show on stderr which lines of a body change. A body that is no text is not shown."""
    try:
        before, after = old.decode().splitlines(), new.decode().splitlines()
    except UnicodeDecodeError:
        return
    for line in difflib.unified_diff(before, after, "old body", "new body", lineterm=""):
        typer.echo(one_line(line), err=True)


def _check_body(declared: MessageType | None, it: Parked, body: bytes) -> None:
    """Check a body before anything is sent. ``declared`` is the message type by the catalog; None if the catalog does not have it.

    Raises:
        typer.BadParameter: the body does not fit the message type, or the content type is JSON, and the body is not JSON.
    """
    if why := not_json(it, body) or (misfit(declared, body) if declared else ""):
        raise typer.BadParameter(f"{why}. Nothing is changed")


# -- showing -------------------------------------------------------------------------------------------------------------


def _list(kafka: Kafka, service: str, wanted: Callable[[Parked], bool], name: str, as_json: bool) -> list[Parked]:
    with failures(as_json=as_json):
        found = [it for it in _parked_messages(kafka, service) if wanted(it)]
        if as_json:
            show({name: [one_letter.plain(it) for it in found]}, "", as_json=True)
        elif found:
            show({}, one_letter.table(found), as_json=False)
        else:
            show(
                {},
                "no letter waits for a decision" if name == "letters" else "no message waits for another attempt",
                as_json=False,
            )
        return found


def _list_groups(kafka: Kafka, service: str, by: By, over: bool, as_json: bool) -> list[Group]:
    with failures(as_json=as_json):
        if over:
            kept = detached.found_open(kafka, service)
            needs_bytes = by in (By.CONTRACT, By.PEER)  # only the envelope has them
            found_letters = with_bytes(kafka, kept) if needs_bytes else list(map(without_bytes, kept))
            members = list(map(member_of_open, found_letters))
        else:
            members = [member_of_parked(it) for it in _parked_messages(kafka, service) if _is_letter(it)]
        found = groups(members, by)
    if as_json:
        plain = [{**it._asdict(), "first": moment(it.first), "last": moment(it.last)} for it in found]
        show({"by": by.value, "groups": plain}, "", as_json=True)
        return found
    if not found:
        show({}, "no detached letter is open" if over else "no letter waits for a decision", as_json=False)
        return found
    rows = [(it.name, it.letters, it.behind, moment(it.first), moment(it.last), it.what) for it in found]
    show({}, as_text((by.value.upper(), "LETTERS", "BEHIND", "FIRST", "LAST", "WHAT"), rows), as_json=False)
    return found


def _parked_messages(kafka: Kafka, service: str) -> list[Parked]:
    with read_model(kafka) as file:
        return parked_messages(kafka, file, service)


def _is_letter(it: Parked) -> bool:
    """Return True if the message waits for a decision: it is held, or its policy turned the queue off."""
    return it.held or bool(it.queue_off and it.failure)
