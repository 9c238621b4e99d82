"""Computes the expected results with plain code over the rows of the file. It shares no code with the services."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from conversations_ops.demo.flights import Flight, at


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected results for one aircraft."""

    summary: dict[str, Any]
    logged: tuple[int, ...]
    """Rows of the flights that get into the log, in order: all flights of the aircraft."""
    held: Flight | None
    """The first flight that departed without an arrival, or None. This flight is held, and later flights wait behind it."""
    edited: bool
    """True if an operator enters the arrival of the held flight. All other flights that departed without an arrival count as diverted."""


def expected(flights: Iterable[Flight]) -> dict[str, Expected]:
    """Compute the expected results for each aircraft. ``flights`` must be in the order in which they are sent."""
    by_aircraft: dict[str, list[Flight]] = {}
    for flight in flights:
        by_aircraft.setdefault(flight.aircraft, []).append(flight)
    edited = _to_be_edited(by_aircraft.values())
    return {aircraft: _expected(aircraft, own, edited) for aircraft, own in by_aircraft.items()}


def _to_be_edited(all_flights: Iterable[Sequence[Flight]]) -> Flight | None:
    """Return the flight to edit: the first in the file whose aircraft has no other flight without an arrival.

    The flight itself has no arrival. If there is no such flight, return None.
    """
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
    """Return the departure from its clock time in the file. The service uses another way: it adds the delay to the scheduled time."""
    clock = flight.departure_clock or 0
    next_day = (flight.departure_delay or 0) > 0 and clock < flight.scheduled_clock
    return at(flight.day, clock) + timedelta(days=next_day)
