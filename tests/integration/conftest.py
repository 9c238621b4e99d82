"""Fixtures for tests against a real Kafka."""

import contextlib
import gc
import warnings
from collections.abc import Iterator

import docker
import pytest
from docker.errors import DockerException

from tests.integration.support.docker_kafka import DockerKafka


@pytest.fixture(scope="session")
def docker_bootstrap() -> Iterator[str]:
    """Address of a Kafka in Docker; skips, with the reason, where no Docker engine is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # the docker package forgets a socket that cannot connect
        reason = engine_trouble()
        gc.collect()
    if reason:
        pytest.skip(f"no Docker engine: {reason}")
    with DockerKafka() as container:
        container.wait_until_ready()
        yield container.bootstrap


def engine_trouble() -> str:
    """Why no Docker engine can be used, "" when one answers."""
    try:
        with contextlib.closing(docker.from_env()) as client:
            client.ping()
    except (DockerException, OSError) as error:
        return str(error)
    return ""
