"""The redrives of a namespace, from their events. A redrive is known as long as the events topic keeps its events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from conversations.protocol.events import RedriveCounts, RedriveEnded, RedriveEvent, RedriveStarted


class Known(NamedTuple):
    """One redrive, as its newest events tell."""

    redrive: str
    by: str
    """The operator who started it, or resumed it last."""
    reason: str
    letters: int
    started: int
    """Time of its first start that is known, in microseconds since 1970."""
    news: int
    """Time of its newest event, in microseconds since 1970. A redrive that runs reports its progress every few seconds."""
    outcomes: Mapping[str, int]
    end: str | None
    """How its last run ended; None if no event tells."""


def known(events: Iterable[RedriveEvent]) -> list[Known]:
    """Return the redrives that the events are about, in the order of their first events."""
    found: dict[str, Known] = {}
    for event in events:
        if isinstance(event, RedriveCounts):
            before = found.get(event.redrive)
            started = event.at if before is None else before.started
            letters = event.letters if isinstance(event, RedriveStarted) else 0 if before is None else before.letters
            end = event.end if isinstance(event, RedriveEnded) else None
            found[event.redrive] = Known(
                event.redrive, event.by, event.reason, letters, started, event.at, event.outcomes, end
            )
    return list(found.values())
