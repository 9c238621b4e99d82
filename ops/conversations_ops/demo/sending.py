"""Sends every flight on the dialog of its aircraft, in the order of the schedule. Many blocks wait for Kafka at the same time."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from conversations import Client, ClientDialog, Kafka
from conversations_ops.demo.aircraft_log import aircraft_log
from conversations_ops.demo.failing import DemoFailed
from conversations_ops.demo.flights import Flight
from conversations_ops.demo.messages import FLIGHTS, Leg
from conversations_ops.demo.operations import operations

UNDER_WAY = 1_000
"""Maximum number of blocks that wait for Kafka's confirmation at the same time."""


def leg_of(flight: Flight, *, last: bool) -> Leg:
    """Return the message for a flight."""
    return Leg(
        row=flight.row,
        flight=flight.name,
        origin=flight.origin,
        destination=flight.destination,
        scheduled=flight.scheduled,
        delay=flight.departure_delay,
        arrival=flight.arrival_clock,
        air_minutes=flight.air_minutes,
        last=last,
    )


class Sender:
    """Sends all flights, and begins a dialog with the first flight of each aircraft.

    ``operations`` ends each dialog after the last reply.
    """

    def __init__(self, client: Client, flights: Sequence[Flight]) -> None:
        self._client = client
        self._flights = flights
        self.begun = 0
        """Number of flights whose block was begun. Another call of ``send_all`` continues with the next flight."""
        self._left = Counter(flight.aircraft for flight in flights)
        self._dialogs: dict[str, str] = {}
        self.sent = 0
        """Number of flights whose block Kafka has confirmed."""

    async def send_all(self, stopped: Callable[[], bool]) -> None:
        """Send until Kafka has confirmed all flights, or ``stopped`` returns True.

        Raises:
            ExceptionGroup: Kafka did not accept a block.
        """
        room = asyncio.Semaphore(UNDER_WAY)
        async with asyncio.TaskGroup() as blocks:
            while self.begun < len(self._flights):
                await room.acquire()
                if stopped():
                    return
                flight = self._flights[self.begun]
                self.begun += 1
                # Tasks start in the order in which they are made. Each task appends its block before its first wait. So
                # the commands of a dialog are in the order of the flights, although many blocks wait for confirmation.
                blocks.create_task(self._send(flight)).add_done_callback(lambda _: room.release())

    async def _send(self, flight: Flight) -> None:
        async with self._dialog(flight.aircraft) as dialog:
            self._left[flight.aircraft] -= 1
            dialog.send(leg_of(flight, last=not self._left[flight.aircraft]))
        self.sent += 1

    def _dialog(self, aircraft: str) -> ClientDialog:
        known = self._dialogs.get(aircraft)
        if known is not None:
            return self._client.dialog(known)
        dialog = self._client.begin_dialog(aircraft_log.name, FLIGHTS, group=aircraft)
        self._dialogs[aircraft] = dialog.id
        return dialog


class Sending:
    """Sends the flights as a client, in a thread with an event loop."""

    def __init__(self, kafka: Kafka, flights: Sequence[Flight]) -> None:
        self._kafka, self._flights = kafka, flights
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sending", daemon=True)
        self._failure: BaseException | None = None

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def stop(self) -> None:
        """Stop sending."""
        self._stopping.set()

    def check(self) -> None:
        """Check that Kafka has accepted all flights that were sent.

        Raises:
            DemoFailed: Kafka did not accept a flight.
        """
        if self._failure is not None:
            raise DemoFailed(f"The flights could not be sent: {self._failure!r}") from self._failure

    def _run(self) -> None:
        try:
            with Client(operations, self._kafka) as client:
                asyncio.run(Sender(client, self._flights).send_all(self._stopping.is_set))
        except BaseException as error:  # noqa: BLE001 - carried to the thread that waits
            self._failure = error


@contextlib.contextmanager
def sending_of(kafka: Kafka, flights: Sequence[Flight]) -> Iterator[Sending]:
    """Send flights in the background, from ``Sending.start`` to the end of the block."""
    sending = Sending(kafka, flights)
    try:
        yield sending
    finally:
        sending.stop()
