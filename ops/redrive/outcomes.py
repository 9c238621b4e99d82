"""What became of letters that were given back, told from the rows and events of their owners."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from conversations.protocol.endpoint import NEVER
from conversations.protocol.parked import Parked
from conversations.protocol.rows import ParkRow

SOON = 1_000_000
"""Microseconds within which what is due is being tried: clocks differ a little."""


class Outcome(StrEnum):
    """What became of one letter."""

    OPEN = "open"
    """Not given back yet."""
    SENT = "sent"
    """Its owner was asked."""
    HANDLED = "handled"
    BACK = "came back"
    """It failed again, and is held again, or was given up on."""
    CHANGED = "changed"
    """Somebody decided about it, or it failed again, since the plan was made: left alone."""
    WAITS = "waits"
    """Its handler asked to be called later, or its queue is off."""

    @property
    def final(self) -> bool:
        """Nothing more will be heard of it."""
        return self not in (Outcome.OPEN, Outcome.SENT)


def after(before: Parked, row: ParkRow | None, now: int, gave_up: bool) -> Outcome:
    """Tell what became of a letter from the row of its dialog before it was given back, and now.

    Args:
        before: as it was when it was given back.
        row: as it is; None when nothing of the dialog waits any more.
        now: microseconds since 1970.
        gave_up: the owner said since that it gave up on a message of the dialog.
    """
    if row is None:
        return Outcome.BACK if gave_up else Outcome.HANDLED
    if row.first > before.place:
        return Outcome.HANDLED
    if row.ticket == before.ticket:
        return Outcome.SENT
    if row.due >= NEVER:
        return Outcome.BACK
    return Outcome.WAITS if row.due > now + SOON else Outcome.SENT


def count(outcomes: Mapping[str, Outcome]) -> dict[str, int]:
    """Count letters by outcome."""
    return {outcome.value: sum(it is outcome for it in outcomes.values()) for outcome in Outcome}
