"""One guarded broker for the session, and a restricted service on it for every test."""

from collections.abc import Iterator

import pytest

from tests.rights.support.authorizing_kafka import GuardedBroker
from tests.rights.support.restricted_service import RestrictedService


@pytest.fixture(scope="session")
def guarded_broker() -> Iterator[GuardedBroker]:
    """A real Kafka with users and rights."""
    with GuardedBroker() as broker:
        yield broker


@pytest.fixture
def restricted(guarded_broker: GuardedBroker) -> Iterator[RestrictedService]:
    """The clerk, who has every right it needs and no other."""
    restricted = RestrictedService(guarded_broker)
    yield restricted
    restricted.close()
