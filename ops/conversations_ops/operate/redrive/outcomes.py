"""What became of letters that were given back, as their owners tell."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from conversations.protocol import events


class Outcome(StrEnum):
    """What became of one letter."""

    OPEN = "open"
    """Not given back yet."""
    SENT = "sent"
    """Given back; its owner has not told yet what became of it."""
    HANDLED = "handled"
    BACK = "came back"
    """It failed again: it is held again, or what its policy says was done."""
    ENDED = "dialog ended"
    """Before it had its turn."""
    CHANGED = "changed"
    """Somebody decided about it, or it failed again, since the plan was made: left alone."""

    @property
    def final(self) -> bool:
        """Nothing more will be heard of it."""
        return self not in (Outcome.OPEN, Outcome.SENT)


OF_EVENT: Mapping[str, Outcome] = {
    events.Outcome.HANDLED: Outcome.HANDLED,
    events.Outcome.FAILED: Outcome.BACK,
    events.Outcome.ENDED: Outcome.ENDED,
    events.Outcome.DECIDED: Outcome.CHANGED,
}
"""By what the event RETURNED says."""


def count(outcomes: Mapping[str, Outcome]) -> dict[str, int]:
    """Count letters by outcome."""
    return {outcome.value: sum(it is outcome for it in outcomes.values()) for outcome in Outcome}
