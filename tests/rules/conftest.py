"""A clerk's house of its own for every test, with one partition; and a log without a worker."""

from collections.abc import Iterator

import pytest

from tests.integration.kafka.conftest import kafka, member
from tests.rules.support.stepped_service import House

__all__ = ["house", "kafka", "member", "wide_house"]


@pytest.fixture
def house(kafka_bootstrap: str) -> Iterator[House]:
    """The clerk with one partition."""
    house = House(kafka_bootstrap)
    yield house
    house.close()


@pytest.fixture
def wide_house(kafka_bootstrap: str) -> Iterator[House]:
    """The clerk with two partitions."""
    house = House(kafka_bootstrap, 2)
    yield house
    house.close()
