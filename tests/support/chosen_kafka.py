"""The Kafka of a test run: pytest's option ``--kafka``, or else the variable ``KAFKA_BOOTSTRAP``, chooses it."""

from __future__ import annotations

import contextlib
import gc
import os
import re
import warnings
from collections.abc import Iterator

from conversations_ops.broker import EmbeddedBroker
from conversations_ops.broker.broker import serves

EMBEDDED, DOCKER = "embedded", "docker"
ADDRESS = re.compile(r"[^\s:,]+:[0-9]{1,5}(,[^\s:,]+:[0-9]{1,5})*")
VARIABLE = "KAFKA_BOOTSTRAP"
HELP = (
    f"Kafka that tests share: '{EMBEDDED}' (the default) starts one on this machine, '{DOCKER}' starts the official image with testcontainers, "
    f"and HOST:PORT is a Kafka that runs already (default: {VARIABLE})"
)


def choice(option: str | None) -> str:
    """Return the choice of a run: the option, else the variable, else the embedded broker."""
    return option or os.environ.get(VARIABLE) or EMBEDDED


def trouble(chosen: str) -> str:
    """Return why the chosen Kafka cannot be used; empty if it can. The embedded broker reports its own errors when it starts."""
    if chosen == EMBEDDED:
        return ""
    if chosen == DOCKER:
        reason = engine_trouble()
        return f"--kafka {DOCKER}: no Docker engine answers: {reason}" if reason else ""
    if not ADDRESS.fullmatch(chosen):
        return f"--kafka {chosen}: use {EMBEDDED}, {DOCKER} or HOST:PORT"
    return "" if serves(chosen) else f"--kafka {chosen}: no Kafka answers at this address"


def engine_trouble() -> str:
    """Return why no Docker engine can be used; empty if one answers."""
    import docker
    from docker.errors import DockerException

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # the docker package forgets a socket that cannot connect
        try:
            with contextlib.closing(docker.from_env()) as client:
                client.ping()
        except (DockerException, OSError) as error:
            return str(error)
        finally:
            gc.collect()
    return ""


@contextlib.contextmanager
def running(chosen: str) -> Iterator[str]:
    """Give the address of the chosen Kafka. A Kafka that this call starts ends with the block."""
    if chosen == EMBEDDED:
        with EmbeddedBroker() as broker:
            yield broker.bootstrap
    elif chosen == DOCKER:
        from tests.integration.support.docker_kafka import DockerKafka

        with DockerKafka() as container:
            container.wait_until_ready()
            yield container.bootstrap
    else:
        yield chosen
