"""The redrives of a namespace, from their events. The events of a redrive are known as long as the events topic keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from conversations.durations import SECOND
from conversations.protocol.events import RedriveCounts, RedriveEnded, RedriveEvent, RedriveStarted

LOST = 10.0
"""Seconds without news after which a redrive does not run any more. One that runs tells its progress every two seconds."""


class State(StrEnum):
    """What a redrive does."""

    PLANNED = "planned"
    """It was never started."""
    RUNS = "runs"
    LOST = "no news"
    """The process that carried it out has ended without a word, so somebody must resume it."""
    ENDED = "ended"


class Known(NamedTuple):
    """One redrive, as its newest events tell."""

    redrive: str
    by: str
    """The operator who started it, or resumed it last."""
    reason: str
    letters: int
    started: int
    """Time of its first start that is known, in microseconds since 1970; 0 if it was not started."""
    news: int
    """Time of its newest event, in microseconds since 1970. A redrive that runs reports its progress every few seconds."""
    outcomes: Mapping[str, int]
    end: str | None
    """How its last run ended; None if no event tells."""
    ended_by: str = ""
    """The operator who stopped the last run; without a stop, the one who began it. Empty if no event tells of the end."""
    ended_why: str = ""
    """The reason of this operator."""

    def state(self, now: int) -> State:
        """Return what the redrive does. ``now`` is in microseconds since 1970."""
        if not self.started:
            return State.PLANNED
        if self.end is not None:
            return State.ENDED
        return State.RUNS if now - self.news < LOST * SECOND else State.LOST


_NO_END: tuple[str | None, str, str] = None, "", ""


def known(events: Iterable[RedriveEvent]) -> list[Known]:
    """Return the redrives that the events are about, in the order of their first events."""
    found: dict[str, Known] = {}
    for event in events:
        if isinstance(event, RedriveCounts):
            before = found.get(event.redrive)
            started = event.at if before is None else before.started
            letters = event.letters if isinstance(event, RedriveStarted) else 0 if before is None else before.letters
            by, why, ending = event.by, event.reason, _NO_END
            if isinstance(event, RedriveEnded):
                ending = event.end, event.by, event.reason
                by, why = (by, why) if before is None else (before.by, before.reason)
            found[event.redrive] = Known(event.redrive, by, why, letters, started, event.at, event.outcomes, *ending)
    return list(found.values())
