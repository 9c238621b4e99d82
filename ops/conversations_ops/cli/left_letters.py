"""Says which open letters the end of a dialog leaves, and the commands that close them."""

from __future__ import annotations

import typer

from conversations_ops.cli.kafka_options import complete
from conversations_ops.operate.dialogs import Side
from conversations_ops.printable import counted, one_line


def become(what: str, count: int, *, initiator: bool, done: bool) -> str:
    """Say that messages become open letters; with ``done``, that they became. ``count`` is their number.

    Messages that waited at the side of the ``initiator`` are the target's, and a target cannot begin a dialog to send them again.
    """
    if not count:
        return ""
    verb = "became" if done else "becomes" if count == 1 else "become"
    letters, them = ("an open letter", "it") if count == 1 else ("open letters", "them")
    again = "" if initiator else f", or send {them} again on a new dialog"
    return f"; {what} {verb} {letters}: discard {them}{again}"


def messages(it: Side, count: int, *, done: bool) -> str:
    """Say the same of messages that wait at a side."""
    return become(f"{counted(count, 'message')} of {it.peer}", count, initiator=it.initiator, done=done)


def commands(
    context: typer.Context, service: str, conversation: str, *, head: str = "", initiator: bool = False
) -> list[str]:
    """Return the commands that close the letters of a dialog, complete with the options of this call.

    Args:
        context: the context of this call.
        service: the service whose letters they are.
        conversation: id of the dialog.
        head: name of the first letter; empty if there is none that can be sent again.
        initiator: True if the initiator's side ended. Its messages are those of the target, which nobody can send again.
    """
    again = [f"conversations dead-letters resubmit {head} --reason WHY"] if head and not initiator else []
    discard = f"conversations dead-letters discard --service {service} --conversation {conversation} --reason WHY"
    return [complete(context, it) for it in (*again, discard)]


def lines(text: str, next_commands: list[str]) -> str:
    """Return a text with the next commands in lines of their own."""
    words = ("next: ", *["or:   "] * len(next_commands))
    shown = [one_line(f"{word}{command}") for word, command in zip(words, next_commands, strict=False)]
    return "\n".join([one_line(text), *shown])
