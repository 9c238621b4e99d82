"""The expected results, by plain code over the rows of the file: nothing here is shared with the services."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from conversations_ops.demo.flights import Flight, at


@dataclass(frozen=True, slots=True)
class Expected:
    """What must come out for one aircraft."""

    summary: dict[str, Any]
    logged: tuple[int, ...]
    """Rows that get into the log, in order: all of the aircraft."""
    held: Flight | None
    """The first flight that never arrived: it is held, and those after it wait."""
    edited: bool
    """An operator enters the arrival of that flight; the others that never arrived count as diverted."""


def expected(flights: Iterable[Flight]) -> dict[str, Expected]:
    """Compute what must come out for each aircraft of ``flights``, which are in the order of sending."""
    by_aircraft: dict[str, list[Flight]] = {}
    for flight in flights:
        by_aircraft.setdefault(flight.aircraft, []).append(flight)
    edited = _to_be_edited(by_aircraft.values())
    return {aircraft: _expected(aircraft, own, edited) for aircraft, own in by_aircraft.items()}


def _to_be_edited(all_flights: Iterable[Sequence[Flight]]) -> Flight | None:
    """The first flight of the file that is the only one of its aircraft that never arrived."""
    vanished = [[flight for flight in flights if flight.vanished] for flights in all_flights]
    return min((only[0] for only in vanished if len(only) == 1), key=lambda flight: flight.row, default=None)


def _expected(aircraft: str, flights: Sequence[Flight], edited: Flight | None) -> Expected:
    departed = [flight for flight in flights if not flight.cancelled]
    flown = [flight for flight in departed if not flight.vanished or flight is edited]
    times = [flight.air_minutes for flight in flown if flight.air_minutes is not None]
    gaps = [(later - earlier) // timedelta(minutes=1) for earlier, later in pairwise(map(_departure, departed))]
    summary = {
        "aircraft": aircraft,
        "flown": len(flown),
        "cancelled": len(flights) - len(departed),
        "diverted": len(departed) - len(flown),
        "air_minutes": sum(times),
        "without_air_time": len(flown) - len(times),
        "airports": sorted({flight.origin for flight in flown} | {flight.destination for flight in flown}),
        "longest_gap": max(gaps, default=None),
    }
    held = next((flight for flight in flights if flight.vanished), None)
    return Expected(summary, tuple(flight.row for flight in flights), held, held is not None and held is edited)


def _departure(flight: Flight) -> datetime:
    """From the clock on the wall, where the service adds the delay to the schedule: two ways to one moment."""
    clock = flight.departure_clock or 0
    next_day = (flight.departure_delay or 0) > 0 and clock < flight.scheduled_clock
    return at(flight.day, clock) + timedelta(days=next_day)
