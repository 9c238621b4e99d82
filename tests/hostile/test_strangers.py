"""Dialogs in the name of services whose queues are not there: they cost a worker nothing that grows."""

from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest

from conversations import Limits, WorkerSettings
from conversations.protocol.topics import QUEUE
from conversations.testing import Simulation
from conversations.worker import destinations
from conversations.worker.residents import ENDPOINT_BYTES, most_of
from tests.bad_input.support.forging import HOUR, Forged, stranger
from tests.bad_input.support.logs import Memory
from tests.bad_input.support.services import PARTITIONS, shop, web

SETTINGS = WorkerSettings(
    patience=timedelta(0), revocation=timedelta(0), limits=Limits(cached_bytes=40 * ENDPOINT_BYTES)
)


def invented(place: Memory, number: int) -> Forged:
    """An order of a service that the catalog names, and that has no queue: of others none is accepted."""
    broker = place.sim.broker
    broker.create_service(f"nobody-{number}", 1)
    for name in [name for name in broker.topics if f".nobody-{number}." in name]:
        del broker.topics[name]
    other = stranger(place.now(), Random(number))
    prefix = replace(other.prefix, from_service=f"nobody-{number}", expires_at=place.now() + HOUR)
    return other.record(other.message(prefix=prefix))


def test_invented_peers_do_not_outgrow_the_cache() -> None:
    """They were taken out of the catalog since: what waits for them is looked at again and again, and nothing is committed."""
    with Simulation(shop(), web(), partitions=PARTITIONS, settings=SETTINGS) as sim:
        place = Memory(sim)
        for number in range(200):
            place.throw("shop", QUEUE, [invented(place, number)])
            if number % 20 == 0:
                sim.run()
        for number in range(200):
            del sim.broker.services[f"nobody-{number}"]
        sim.crash("shop")
        sim.advance(timedelta(minutes=5))
        sizes = [len(partition.actives) for partition in sim.worker("shop").partitions.values()]
        assert sum(sizes) <= most_of(SETTINGS.limits)


def test_names_that_nobody_has_are_not_remembered_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(destinations, "REMEMBERED", 10)
    with Simulation(shop(), web(), partitions=PARTITIONS, settings=SETTINGS) as sim:
        place = Memory(sim)
        for number in range(40):
            place.throw("shop", QUEUE, [invented(place, number)])
        sim.advance(timedelta(hours=6))
        place.throw("shop", QUEUE, [invented(place, 40)])
        sim.run()
        assert len(sim.worker("shop").context.destinations._waits) <= 10
