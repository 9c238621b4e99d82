"""Shows letters, as text and as JSON: a message for which a dialog waits, or a letter that no dialog waits for."""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from conversations.protocol import letters
from conversations.protocol.code_table import of_error
from conversations.protocol.codes import LIFETIME
from conversations.protocol.parked import Parked
from conversations_ops.console.tables import as_text
from conversations_ops.console.times import ahead, clock_of, moment
from conversations_ops.operate import failed
from conversations_ops.operate.open_letters import KeptLetter, OpenLetter
from conversations_ops.operate.reasons import WHY
from conversations_ops.printable import counted, one_line, side_word
from conversations_ops.printable import lines as indented

_DECISIONS = {
    letters.SKIPPED: "skipped",
    letters.EDITED: "edited",
    letters.PARKED_AT_END: "its dialog was ended",
    letters.HELD_AT_END: "its dialog was ended",
}
"""What an operator decided, by the reason of the letter that the decision wrote."""


def described(it: Parked, stack: str) -> str:
    """Describe a failed message or handler in lines of text, with the stack trace of its last failure if there is one."""
    lines = [
        f"letter        {one_line(it.letter)}",
        f"dialog        {one_line(f'{it.conversation} ({side_word(initiator=it.initiator)}), {it.contract}, with {it.peer}')}",
        f"key           {one_line(it.key)}",
        f"what          {one_line(failed.told(it, clock_of(_now())))}",
        f"behind it     {counted(it.behind, 'record')}, {it.size} bytes with it",
        f"next attempt  {when(it)}",
        f"deadline      {deadline(it)}",
    ]
    if it.number >= 0:
        lines.append(indented(f"body\n{it.body.decode('utf-8', 'backslashreplace')}"))
    if stack:
        lines.append(indented(f"stack trace\n{stack.rstrip()}"))
    if it.queue_off:
        lines.append(f"next: conversations queue on {one_line(it.service)} --reason WHY   (it is tried again then)")
    else:
        lines.append(
            f"next: conversations dead-letters retry {one_line(it.letter)} --reason WHY   (or edit, skip, end)"
        )
    return "\n".join(lines)


def when(it: Parked) -> str:
    """Say when the next attempt is."""
    if it.queue_off:
        return "when its queue is on"
    return "when an operator decides" if it.due is None else moment(it.due)


def until(it: Parked) -> str:
    """Return the end of the dialog's lifetime in a few words."""
    return "none" if it.deadline is None else ahead(it.deadline, time.time())


def deadline(it: Parked) -> str:
    """Say when the lifetime of the dialog ends, and what happens then."""
    if it.deadline is None:
        return "none: the dialog has no end of its lifetime"
    lost = "this message becomes a dead letter" if it.number >= 0 else "the handler does not run any more"
    also = f" like the {counted(it.behind, 'record')} behind it" if it.behind else ""
    return f"the dialog's lifetime ends {until(it)}: then {lost}{also}, and the dialog is broken with {LIFETIME.number}"


def table(found: Sequence[Parked]) -> str:
    """Return a table of parked messages and handlers, one line for each."""
    clock = clock_of(_now())
    rows = [(it.letter, it.peer, it.behind, _next(it), until(it), failed.told(it, clock)) for it in found]
    return as_text(("LETTER", "FROM", "BEHIND", "NEXT", "DEADLINE", "WHAT"), rows, whole=("BEHIND", "NEXT", "DEADLINE"))


def _now() -> int:
    return time.time_ns() // 1_000


def _next(it: Parked) -> str:
    if it.queue_off:
        return "queue is off"
    return "you decide" if it.due is None else f"in {_short(it.due / 1_000_000 - time.time())}"


def _short(seconds: float) -> str:
    try:
        return str(timedelta(seconds=max(0, round(seconds))))
    except OverflowError:
        return f"{round(seconds)} s"


def plain(it: Parked) -> dict[str, Any]:
    """Return the fields of a failed message or handler for JSON."""
    fields = {**it._asdict(), "held": it.held, "since": moment(it.since)}
    for name in ("due", "deadline"):
        fields[name] = None if fields[name] is None else moment(fields[name])
    try:
        fields["body"] = it.body.decode()
    except UnicodeDecodeError:
        fields["body"] = None
        fields["body_base64"] = b64encode(it.body).decode()
    return fields


def described_kept(kept: KeptLetter) -> str:
    """Describe a letter that no dialog waits for, in lines of text."""
    it, envelope = kept.letter, kept.letter.envelope()
    dialog = (
        f"{it.conversation} ({'initiator' if it.from_initiator else 'target'} sent it)" if it.conversation else "none"
    )
    if it.foreign:
        why = f"written by {it.foreign}: it belongs to no dialog, and no command can close it"
    elif kept.is_open:
        why = f"no dialog waits for it: {WHY.get(it.reason, it.reason)}"
    else:
        closed = {letters.SKIPPED: WHY[letters.SKIPPED]}
        why = f"closed: {closed.get(it.reason, 'its message was handled or sent again, or an operator discarded it')}"
    lines = [
        f"letter        {one_line(it.letter)}",
        f"state         {one_line(why)}",
        f"reason        {one_line(it.reason)}, at {moment(it.at)}",
        f"dialog        {one_line(dialog)}",
        f"key           {one_line(it.key.decode('utf-8', 'backslashreplace'))}",
    ]
    if it.decided_by:
        lines.append(f"decision      {one_line(_decision(it))}")
    if it.code:
        lines.append(f"error code    {one_line(_error(it.code))}")
    if it.what or it.number >= 0:
        lines.append(f"message       {one_line(f'{it.what} #{it.number}' if it.number >= 0 else it.what)}")
    if it.exception or it.message:
        lines.append(f"failure       {one_line(failed.failure(it.exception, it.message))}")
    if envelope is not None:
        lines.append(indented(f"body\n{envelope.body.decode('utf-8', 'backslashreplace')}"))
    if it.stack:
        lines.append(indented(f"stack trace\n{it.stack.rstrip()}"))
    if kept.is_open and not it.foreign:
        resubmit = "" if envelope is None else "   (or resubmit: sends the messages again on a new dialog)"
        lines.append(f"next: conversations dead-letters discard {one_line(it.letter)} --reason WHY{resubmit}")
    return "\n".join(lines)


def _decision(it: OpenLetter) -> str:
    where = " (events --event DIALOG_ENDING has its reason)" if it.decided_why.startswith("command ") else ""
    return f"{_DECISIONS.get(it.reason, 'decided')} by {it.decided_by}: {it.decided_why}{where}"


def _error(code: int) -> str:
    known = of_error(code)
    return str(code) if known is None else f"{code} {known.text}"


def cause(it: OpenLetter) -> str:
    """Say in a few words why a letter is detached: the failure, or the decision of an operator, or the system error code."""
    if it.exception:
        return failed.failure(it.exception, it.message)
    if it.message or not it.decided_by:
        return it.message or (_error(it.code) if it.code else "")
    return _decision(it)


def plain_kept(kept: KeptLetter) -> dict[str, Any]:
    """Return the fields of a letter that no dialog waits for, for JSON."""
    return {**plain_open(kept.letter), "stack": kept.letter.stack, "open": kept.is_open}


def plain_open(it: OpenLetter) -> dict[str, Any]:
    """Return the fields of a detached letter for JSON, without the stack trace, which may be long."""
    fields = {**it._asdict(), "at": moment(it.at)}
    del fields["stack"]
    for name in ("key", "value"):
        fields[f"{name}_base64"] = b64encode(fields.pop(name)).decode()
    envelope = it.envelope()
    try:
        fields["body"] = None if envelope is None else envelope.body.decode()
    except UnicodeDecodeError:
        fields["body"] = None
    return fields
