"""The same records flow through Kafka in Docker as through the embedded broker."""

import pytest

from tests.integration.support.records import new_topic, produce_in_transaction, read

pytestmark = pytest.mark.kafka


def test_a_transaction_is_read_in_order(docker_bootstrap: str) -> None:
    topic = new_topic(docker_bootstrap)
    produce_in_transaction(docker_bootstrap, topic, b"1", b"2", b"3")
    assert read(docker_bootstrap, topic, 3) == [b"1", b"2", b"3"]
