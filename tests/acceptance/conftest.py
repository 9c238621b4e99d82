"""A namespace of its own for every test."""

from uuid import uuid4

import pytest

from conversations.config import Kafka


@pytest.fixture
def kafka(kafka_bootstrap: str) -> Kafka:
    return Kafka(kafka_bootstrap, namespace=f"a{uuid4().hex[:10]}")
