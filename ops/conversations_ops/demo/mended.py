"""The next release of ``aircraft-log``. It counts a flight that departed and never arrived as diverted."""

from __future__ import annotations

from datetime import timedelta

from conversations import Dialog, Service
from conversations_ops.demo.aircraft_log import PATIENT, Log, close, depart, fly
from conversations_ops.demo.messages import FLIGHTS, SUMMARIES, Leg, Logged

mended = Service("aircraft-log", accepts=[FLIGHTS], initiates=[SUMMARIES], state=Log, poison=[PATIENT])
mended.on_end(FLIGHTS)(close)


@mended.on(Leg)
def enter(leg: Leg, dialog: Dialog[Log]) -> None:
    """Enter a leg into the log, and reply that it is logged."""
    log = dialog.group.state
    if leg.delay is None:
        log.cancelled += 1
    else:
        depart(log, leg.scheduled + timedelta(minutes=leg.delay))
        if leg.arrival is None:
            log.diverted += 1
        else:
            fly(log, leg)
    dialog.send(Logged(row=leg.row, legs=log.legs, last=leg.last))
