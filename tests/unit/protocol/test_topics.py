"""Laws of topic names and of partitions."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversations.protocol.topics import (
    catalog_topic,
    delay_name,
    events_topic,
    murmur2,
    partition_of,
    retry_topic,
    service_topic,
    twins_of,
)


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


@pytest.mark.parametrize(
    ("seconds", "name"),
    [
        (0, "0s"),
        (5, "5s"),
        (60, "1m"),
        (90, "1m30s"),
        (5400, "1h30m"),
        (86_400, "1d"),
        (0.5, "500ms"),
        (0.001_5, "1ms500us"),
    ],
)
def test_a_delay_is_written_as_people_say_it(seconds: float, name: str) -> None:
    assert delay_name(timedelta(seconds=seconds)) == name
    assert retry_topic("conv", "orders", name) == f"conv.orders.retry.{name}"


@given(st.timedeltas(timedelta(0), timedelta(days=365)), st.timedeltas(timedelta(0), timedelta(days=365)))
def test_two_delays_have_two_names(one: timedelta, other: timedelta) -> None:
    assert (delay_name(one) == delay_name(other)) == (one == other)


@pytest.mark.parametrize(
    ("namespace", "service", "twins"),
    [
        ("conv", "orders", []),
        ("conv.a", "b", [("conv", "a.b")]),
        ("conv", "a.b", [("conv.a", "b")]),
        ("a.b", "c.d", [("a", "b.c.d"), ("a.b.c", "d")]),
        ("a", "b..c", [("a.b.", "c")]),
    ],
)
def test_dots_can_be_in_a_namespace_or_in_a_service(namespace: str, service: str, twins: list[tuple[str, str]]) -> None:
    found = twins_of(namespace, service)
    assert set(twins) <= set(found)
    assert {service_topic(*twin, "queue") for twin in found} <= {service_topic(namespace, service, "queue")}
