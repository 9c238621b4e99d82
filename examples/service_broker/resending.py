"""Readings that are pushed one way, and a dialog that breaks under them: ``python examples/service_broker/resending.py``.

The situation is from the text on Service Broker "Resending messages". A sender only pushes data. When its dialog breaks, messages may be pending in the
transmission queue. The procedure of the text reads them there, and sends them again on a new dialog before it ends the old one, if the error
is one that allows it. It warns that the receiver may get a message twice, because the acknowledgement may be all that is missing. Here
``dialog.resend()`` asks the receiver first, so nothing arrives twice.
"""

from __future__ import annotations

from datetime import timedelta

from pydantic import BaseModel

from conversations import Contract, Dialog, PeerError, Service
from conversations.testing import Simulation


class Measure(BaseModel):
    """Asks the plant for readings."""

    celsius: list[int]


class Reading(BaseModel):
    celsius: int


class Log(BaseModel):
    celsius: list[int] = []


MEASURING = Contract("Measuring", sent_by_initiator=[Measure], lifetime=None)
READINGS = Contract("Readings", sent_by_initiator=[Reading], lifetime=timedelta(minutes=10))

plant = Service("plant", accepts=[MEASURING], initiates=[READINGS])
archive = Service("archive", accepts=[READINGS], state=Log)
errors: list[tuple[int, list[int]]] = []
"""The code of each error, and the readings that were pending. This list stands for the error log of the text."""
archived: list[int] = []


@plant.on(Measure)
def measure(asked: Measure, dialog: Dialog) -> None:
    """Push all readings on one dialog. A new one begins only if there is none (the article "Reusing Conversations")."""
    open_ones = [it for it in dialog.group.dialogs(READINGS) if it.is_open]
    push = open_ones[0] if open_ones else dialog.group.begin_dialog("archive", READINGS)
    for celsius in asked.celsius:
        push.send(Reading(celsius=celsius))


@plant.on_error(READINGS)
def broken(error: PeerError, dialog: Dialog) -> None:
    """Log the error. Send what is pending again if the error allows it: 8489, 8462, 9719 or 28052."""
    errors.append((error.code, [message.body.celsius for message in dialog.pending]))
    if error.can_resend and dialog.pending:
        dialog.resend()


@archive.on(Reading)
def keep(reading: Reading, dialog: Dialog[Log]) -> None:
    """Keep a reading."""
    dialog.group.state.celsius.append(reading.celsius)
    archived.append(reading.celsius)


def tour() -> None:
    """Push readings while the archive runs, while it is down for longer than the dialog lives, and after that."""
    with Simulation(plant, archive) as sim:
        sensors = sim.peer("sensors").begin_dialog("plant", MEASURING)
        sensors.send(Measure(celsius=[20, 21]))
        sim.run()
        print(f"while the archive runs      archived {archived}")
        sim.broker.stop = lambda out: out.topic == "conv.archive.queue"
        sensors.send(Measure(celsius=[22, 23]))
        sim.advance(timedelta(minutes=11))
        print(f"the dialog's life is over   error {errors[-1][0]}, pending {errors[-1][1]}")
        sim.broker.resume()
        sim.run()
        sim.advance(timedelta(minutes=1))
        print(f"the archive is back         archived {archived}")
        print(f"dead letters                {len(sim.dead_letters('plant')) + len(sim.dead_letters('archive'))}")


if __name__ == "__main__":
    tour()
