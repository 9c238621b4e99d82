"""Fixtures for tests against a real Kafka."""

from collections.abc import Iterator

import pytest

from tests.support import chosen_kafka


@pytest.fixture(scope="session")
def docker_bootstrap() -> Iterator[str]:
    """Address of a Kafka in Docker; skips, with the reason, where no Docker engine is."""
    if reason := chosen_kafka.engine_trouble():
        pytest.skip(f"no Docker engine: {reason}")
    with chosen_kafka.running(chosen_kafka.DOCKER) as address:
        yield address
