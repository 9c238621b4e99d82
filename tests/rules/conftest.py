"""A stepped clerk for every test, and a connection without a worker."""

from collections.abc import Iterator

import pytest

from tests.integration.kafka.conftest import kafka, member
from tests.rules.support.stepped_service import SteppedService

__all__ = ["kafka", "member", "stepped", "wide"]


@pytest.fixture
def stepped(kafka_bootstrap: str) -> Iterator[SteppedService]:
    """The clerk with one partition."""
    stepped = SteppedService(kafka_bootstrap)
    yield stepped
    stepped.close()


@pytest.fixture
def wide(kafka_bootstrap: str) -> Iterator[SteppedService]:
    """The clerk with two partitions."""
    stepped = SteppedService(kafka_bootstrap, 2)
    yield stepped
    stepped.close()
