"""Fixtures for every test: where Kafka is."""

import os
from collections.abc import Iterator

import pytest

from conversations.kafka.embedded import EmbeddedBroker


@pytest.fixture(scope="session")
def kafka_bootstrap() -> Iterator[str]:
    """Address of a real Kafka: ``KAFKA_BOOTSTRAP`` if set, else a broker embedded for the session.

    Tests share it, so they name topics and groups of their own.
    """
    if given := os.environ.get("KAFKA_BOOTSTRAP"):
        yield given
        return
    with EmbeddedBroker() as broker:
        yield broker.bootstrap
