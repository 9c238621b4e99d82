"""Fixtures for every test: where Kafka is."""

import os
import signal
from collections.abc import Iterator

import pytest

from conversations.kafka.embedded import EmbeddedBroker

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As where a script starts the tests with "&". What tests start would inherit it, and know nothing of Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)


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
