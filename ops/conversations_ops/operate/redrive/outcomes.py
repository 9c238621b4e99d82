"""Outcomes of letters that were given back, which the owners of their dialogs report; and how a redrive ends."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from conversations.protocol import events


class Outcome(StrEnum):
    """The outcome of one letter."""

    OPEN = "open"
    """Not given back yet."""
    SENT = "sent"
    """Given back; the owner of the dialog has not reported the outcome yet."""
    HANDLED = "handled"
    BACK = "came back"
    """The message was given up on again: it is held again, or its policy had another effect."""
    ENDED = "dialog ended"
    """The dialog ended before the message was tried."""
    CHANGED = "changed"
    """Not given back: somebody else decided about the message after the plan was made, or the message failed again."""

    @property
    def final(self) -> bool:
        """True if the outcome cannot change any more."""
        return self not in (Outcome.OPEN, Outcome.SENT)


class End(StrEnum):
    """How a redrive ended."""

    DONE = "done"
    STOPPED = "stopped"
    CANARY_FAILED = "canary failed"
    NO_NEWS = "no news"
    """No answer: the service does not run, its queue is off, or the handler asked for a later attempt."""
    TAKEN_OVER = "taken over"
    """Another run of the same redrive began."""


OF_EVENT: Mapping[str, Outcome] = {
    events.Outcome.HANDLED: Outcome.HANDLED,
    events.Outcome.FAILED: Outcome.BACK,
    events.Outcome.ENDED: Outcome.ENDED,
    events.Outcome.DECIDED: Outcome.CHANGED,
}
"""The outcome for each value of ``outcome`` in the event RETURNED."""


def count(outcomes: Mapping[str, Outcome]) -> dict[str, int]:
    """Count letters by outcome."""
    return {outcome.value: sum(it is outcome for it in outcomes.values()) for outcome in Outcome}
