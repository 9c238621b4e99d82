"""What the check expects, by plain code over the rows of the file: nothing here is shared with the services."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from ops.demo.flights import Flight, at


@dataclass(frozen=True, slots=True)
class Expected:
    """What must come out for one aircraft."""

    summary: dict[str, Any]
    logged: tuple[int, ...]
    """Rows that get into the log, in order."""
    failed: Flight | None
    """The first flight that never arrived: its message becomes a dead letter and ends the dialog."""
    followers: tuple[Flight, ...]
    """Flights after it, which find the dialog ended."""


def expected(flights: Iterable[Flight]) -> dict[str, Expected]:
    """Compute what must come out for each aircraft of ``flights``, which are in the order of sending."""
    by_aircraft: dict[str, list[Flight]] = {}
    for flight in flights:
        by_aircraft.setdefault(flight.aircraft, []).append(flight)
    return {aircraft: _expected(aircraft, own) for aircraft, own in by_aircraft.items()}


def _expected(aircraft: str, flights: Sequence[Flight]) -> Expected:
    stop = next((index for index, flight in enumerate(flights) if flight.vanished), len(flights))
    logged = flights[:stop]
    flown = [flight for flight in logged if not flight.cancelled]
    times = [flight.air_minutes for flight in flown if flight.air_minutes is not None]
    gaps = [(later - earlier) // timedelta(minutes=1) for earlier, later in pairwise(map(_departure, flown))]
    summary = {
        "aircraft": aircraft,
        "flown": len(flown),
        "cancelled": len(logged) - len(flown),
        "air_minutes": sum(times),
        "without_air_time": len(flown) - len(times),
        "airports": sorted({flight.origin for flight in flown} | {flight.destination for flight in flown}),
        "longest_gap": max(gaps, default=None),
    }
    failed = flights[stop] if stop < len(flights) else None
    return Expected(summary, tuple(flight.row for flight in logged), failed, tuple(flights[stop + 1 :]))


def _departure(flight: Flight) -> datetime:
    """From the clock on the wall, where the service adds the delay to the schedule: two ways to one moment."""
    clock = flight.departure_clock or 0
    next_day = (flight.departure_delay or 0) > 0 and clock < flight.scheduled_clock
    return at(flight.day, clock) + timedelta(days=next_day)
