"""The causes that a dialog leaves behind: its open letters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from conversations.protocol import letters
from conversations.protocol.codes import LIFETIME
from conversations_ops.printable import counted
from conversations_ops.read_model.letters import Kept
from conversations_ops.why.cause import Cause, command
from conversations_ops.why.facts import Facts

SENT_AGAIN = frozenset({
    letters.HANDLER_FAILED, letters.UNFIT, letters.HELD_AT_END, letters.PARKED_AT_END, letters.REFUSED, letters.UNDELIVERABLE,
})  # fmt: skip
"""Reasons of letters whose messages never took effect, although nothing was wrong with them as records."""


def of_letters(facts: Facts) -> Iterator[Cause]:
    """Return a cause for the letters of messages whose lifetime ended, and one for the other open letters."""
    parked = {head.letter for it in facts.sides for head in it.heads}
    left = [it for it in facts.letters if it.is_open and it.letter not in parked]
    over = {it.code for it in facts.sides}
    expired = [it for it in left if it.reason in _ENDED and (it.code or LIFETIME.number) == LIFETIME.number in over]
    if expired:
        says = f"the lifetime ended before {counted(len(expired), 'message')} took effect: {_named(expired)}"
        yield Cause("expired", expired[0].service, says, expired[0].at, needs_person=True, next=_mend(expired))
    if others := [it for it in left if it not in expired]:
        says = f"{_named(others)} of this dialog is an open letter ({others[0].reason})"
        yield Cause("letters", others[0].service, says, others[0].at, needs_person=True, next=_mend(others))


_ENDED = frozenset({letters.PARKED_AT_END, letters.HELD_AT_END})
"""Reasons of letters of messages that waited when their dialog was over."""


def _named(found: Sequence[Kept]) -> str:
    return f"{found[0].letter} and {len(found) - 1} more" if len(found) > 1 else found[0].letter


def _mend(found: Sequence[Kept]) -> str:
    """Return the command that closes letters. Messages that nobody has decided about are sent again, and all others are discarded."""
    again = [it for it in found if _can_be_sent_again(it)]
    if again:
        return command("dead-letters", "resubmit", again[0].letter, reason=True)
    return command("dead-letters", "discard", *(it.letter for it in found[:_MOST]), reason=True)


_MOST = 20
"""Number of letters that one command names, so that it fits on a screen. The command after it names the next ones."""


def _can_be_sent_again(it: Kept) -> bool:
    return it.from_initiator and it.number >= 0 and it.reason in SENT_AGAIN and not it.decided_by
