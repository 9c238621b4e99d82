"""The messages of the two services, and their contracts."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel

from conversations import Contract


class Leg(BaseModel):
    """One flight of the dialog's aircraft."""

    row: int
    """Where it stands in the file."""
    flight: str
    origin: str
    destination: str
    scheduled: datetime
    delay: int | None
    """Minutes from the scheduled to the real departure; None: it was cancelled."""
    arrival: int | None
    """Clock time; None: it never arrived."""
    air_minutes: int | None
    last: bool
    """No more legs will follow."""


class Logged(BaseModel):
    """A leg is in the log."""

    row: int
    legs: int
    """How many legs the log has with this one."""
    last: bool


class Summary(BaseModel):
    """The summary of an aircraft's log."""

    aircraft: str
    flown: int
    cancelled: int
    diverted: int
    """Departed, and arrived somewhere else: nobody knows where, or when."""
    air_minutes: int
    """Of the legs whose air time is known."""
    without_air_time: int
    airports: list[str]
    """Served by the legs flown, by name."""
    longest_gap: int | None
    """Minutes between a departure and the one logged before it; None with fewer than two."""


FLIGHTS = Contract("Flights", sent_by_initiator=[Leg], sent_by_target=[Logged])
"""operations tells aircraft-log of an aircraft's legs, one dialog for each aircraft."""
SUMMARIES = Contract("Summaries", sent_by_initiator=[Summary])
"""aircraft-log's last word about an aircraft, once its dialog of flights has ended; begun by aircraft-log."""
