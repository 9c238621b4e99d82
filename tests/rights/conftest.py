"""One guarded broker for the session, and a clerk's house on it for every test."""

from collections.abc import Iterator

import pytest

from tests.rights.support.authorizing_kafka import GuardedBroker
from tests.rights.support.restricted_service import GuardedHouse


@pytest.fixture(scope="session")
def guarded_broker() -> Iterator[GuardedBroker]:
    """A real Kafka with users and rights."""
    with GuardedBroker() as broker:
        yield broker


@pytest.fixture
def house(guarded_broker: GuardedBroker) -> Iterator[GuardedHouse]:
    """The clerk, who has every right it needs and no other."""
    house = GuardedHouse(guarded_broker)
    yield house
    house.close()
