"""Fixtures for tests against a real Kafka."""

import contextlib
from collections.abc import Iterator

import docker
import pytest
from docker.errors import DockerException
from docker.utils import kwargs_from_env

from tests.integration.docker_kafka import DockerKafka


@pytest.fixture(scope="session")
def docker_bootstrap() -> Iterator[str]:
    """Address of a Kafka in Docker; skips, with the reason, where no Docker engine is."""
    try:
        # A given version keeps the constructor from connecting, so that there is a client to close when it fails.
        with contextlib.closing(docker.DockerClient(version="1.41", **kwargs_from_env())) as client:
            client.ping()
    except (DockerException, OSError) as error:
        pytest.skip(f"no Docker engine: {error}")
    with DockerKafka() as container:
        container.wait_until_ready()
        yield container.bootstrap
