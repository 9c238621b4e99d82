"""Service ``aircraft-log``: keeps the log of each aircraft in the state of its conversation group.

The service consists only of its handlers. It needs no deduplication, locks, retry loops or offsets.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from pydantic import BaseModel

from conversations import Dialog, PoisonPolicy, Service, Then
from conversations_ops.demo.messages import FLIGHTS, SUMMARIES, Leg, Logged, Summary


class Log(BaseModel):
    """The log of one aircraft so far."""

    flown: int = 0
    cancelled: int = 0
    diverted: int = 0
    air_minutes: int = 0
    without_air_time: int = 0
    airports: list[str] = []
    departed: datetime | None = None
    """Time of the last departure in the log."""
    longest_gap: int | None = None

    @property
    def legs(self) -> int:
        """Number of legs in the log."""
        return self.flown + self.cancelled + self.diverted

    def summary(self, aircraft: str) -> Summary:
        """Return the summary of the log."""
        return Summary(aircraft=aircraft, **self.model_dump(exclude={"departed"}))


class NeverArrived(Exception):
    """The flight departed, but the data have no arrival."""


PATIENT = PoisonPolicy(
    exception=NeverArrived, delays=[timedelta(0), timedelta(seconds=0.5), timedelta(seconds=1)], then=Then.HOLD
)
"""Try the message three more times, because the arrival may come late. Then hold it. This and later messages wait for an operator."""

aircraft_log = Service("aircraft-log", accepts=[FLIGHTS], initiates=[SUMMARIES], state=Log, poison=[PATIENT])


@aircraft_log.on(Leg)
def enter(leg: Leg, dialog: Dialog[Log]) -> None:
    """Enter a leg into the log, and reply that it is logged."""
    log = dialog.group.state
    if leg.delay is None:
        log.cancelled += 1
    else:
        depart(log, leg.scheduled + timedelta(minutes=leg.delay))
        if leg.arrival is None:
            # The departure is in the log already. The exception undoes this, so the state is again the state before the message.
            raise NeverArrived(f"{leg.flight} left {leg.origin} for {leg.destination} and never arrived")
        fly(log, leg)
    dialog.send(Logged(row=leg.row, legs=log.legs, last=leg.last))


def depart(log: Log, departed: datetime) -> None:
    """Enter a departure into the log, and measure the time since the departure before it."""
    if log.departed is not None:
        gap = (departed - log.departed) // timedelta(minutes=1)
        log.longest_gap = gap if log.longest_gap is None else max(gap, log.longest_gap)
    log.departed = departed


def fly(log: Log, leg: Leg) -> None:
    """Count a leg that was flown."""
    log.flown += 1
    if leg.air_minutes is None:
        log.without_air_time += 1
    else:
        log.air_minutes += leg.air_minutes
    log.airports = sorted({*log.airports, leg.origin, leg.destination})


@aircraft_log.on_end(FLIGHTS)
def close(dialog: Dialog[Log]) -> None:
    """Send the summary on a new dialog in the same group. Nothing can be sent on the old dialog, because the peer has ended it."""
    group = dialog.group
    answer = group.begin_dialog(dialog.peer, SUMMARIES)
    answer.send(group.state.summary(group.key))
    answer.end()
