"""The messages of the two services, and their contracts."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel

from conversations import Contract


class Leg(BaseModel):
    """One flight of the dialog's aircraft."""

    row: int
    """Number of the row in the file."""
    flight: str
    origin: str
    destination: str
    scheduled: datetime
    delay: int | None
    """Minutes from the scheduled to the real departure; None if the flight was cancelled."""
    arrival: int | None
    """Clock time; None if the flight never arrived."""
    air_minutes: int | None
    last: bool
    """True if no more legs follow."""


class Logged(BaseModel):
    """The reply to a leg: the leg is in the log."""

    row: int
    legs: int
    """Number of legs in the log, including this leg."""
    last: bool


class Summary(BaseModel):
    """The summary of an aircraft's log."""

    aircraft: str
    flown: int
    cancelled: int
    diverted: int
    """Legs that departed and did not arrive at their destination. The data do not say where they landed."""
    air_minutes: int
    """Sum of the air times that are known."""
    without_air_time: int
    airports: list[str]
    """Airports of the legs that were flown, sorted by name."""
    longest_gap: int | None
    """Longest time in minutes from one departure in the log to the next; None if the log has fewer than two departures."""


FLIGHTS = Contract("Flights", sent_by_initiator=[Leg], sent_by_target=[Logged])
"""operations sends the legs of an aircraft to aircraft-log, on one dialog for each aircraft."""
SUMMARIES = Contract("Summaries", sent_by_initiator=[Summary])
"""aircraft-log sends the summary of an aircraft, on a dialog that it begins when operations has ended the dialog of flights."""
