"""Clients in an event loop, with a Kafka that does not answer."""

import asyncio
import socket
from collections.abc import Iterator
from datetime import timedelta

import pytest
from pydantic import BaseModel

from conversations import Client, Contract, Kafka, NotAccepted, Service


class Ask(BaseModel):
    pass


SALES = Contract("Sales", sent_by_initiator=[Ask])
WEB = Service("web", initiates=[SALES])


@pytest.fixture(params=["refuses", "is silent"])
def unreachable(request: pytest.FixtureRequest) -> Iterator[Kafka]:
    """A port nobody listens on, and one where nobody says anything."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        if request.param == "is silent":
            listening.listen(50)
        yield Kafka(f"127.0.0.1:{listening.getsockname()[1]}")


def test_the_event_loop_goes_on_while_kafka_cannot_be_reached(unreachable: Kafka) -> None:
    """Counted in turns of the loop: a block that waits inside it lets none of the others have theirs."""

    async def turns_of_a_block() -> int:
        turns = 0

        async def turn() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0.001)
                turns += 1

        turning = asyncio.create_task(turn())
        async with Client(WEB, unreachable, timeout=timedelta(seconds=1)) as client:
            for _ in range(2):
                with pytest.raises(NotAccepted):
                    async with client.begin_dialog("shop", SALES) as dialog:
                        dialog.send(Ask())
            counted = turns
        turning.cancel()
        return counted

    assert asyncio.run(turns_of_a_block()) > 50
