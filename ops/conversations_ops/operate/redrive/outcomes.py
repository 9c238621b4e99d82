"""Outcomes of letters that were given back, as their owners report them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from conversations.protocol import events


class Outcome(StrEnum):
    """The outcome of one letter."""

    OPEN = "open"
    """Not given back yet."""
    SENT = "sent"
    """Given back; its owner has not reported the outcome."""
    HANDLED = "handled"
    BACK = "came back"
    """The handler failed again; the message is held, or its policy was carried out."""
    ENDED = "dialog ended"
    """Before the message had its turn."""
    CHANGED = "changed"
    """Left alone: somebody decided, or the message failed again, after the plan was made."""

    @property
    def final(self) -> bool:
        """Whether the outcome is the last."""
        return self not in (Outcome.OPEN, Outcome.SENT)


OF_EVENT: Mapping[str, Outcome] = {
    events.Outcome.HANDLED: Outcome.HANDLED,
    events.Outcome.FAILED: Outcome.BACK,
    events.Outcome.ENDED: Outcome.ENDED,
    events.Outcome.DECIDED: Outcome.CHANGED,
}
"""Outcomes by the ``outcome`` of the event RETURNED."""


def count(outcomes: Mapping[str, Outcome]) -> dict[str, int]:
    """Count letters by outcome."""
    return {outcome.value: sum(it is outcome for it in outcomes.values()) for outcome in Outcome}
