"""Laws of topic names and of partitions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversations.protocol.topics import catalog_topic, events_topic, murmur2, partition_of, service_topic


@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash_is_that_of_kafkas_java_clients(key: bytes, signed: int) -> None:
    """The vectors of Kafka's own UtilsTest, made positive as its partitioner does."""
    assert murmur2(key) == signed & 0x7FFFFFFF


@given(st.binary(max_size=64), st.integers(1, 1000))
def test_a_key_has_one_partition(key: bytes, count: int) -> None:
    """Within the count, and always the same."""
    assert 0 <= partition_of(key, count) < count
    assert partition_of(key, count) == murmur2(key) % count


def test_names_begin_with_the_namespace() -> None:
    """So that access can be granted by prefix."""
    assert service_topic("conv", "orders", "queue") == "conv.orders.queue"
    assert catalog_topic("conv") == "conv.catalog"
    assert events_topic("conv") == "conv.events"
