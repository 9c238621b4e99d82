"""The waits before a message is transmitted again, observed on two real Kafkas. ``python -m tests.chaos.intervals`` observes all of them."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from conversations import Kafka
from conversations_ops.broker import EmbeddedBroker
from tests.chaos.intervals import WAITS, Observed, observe
from tests.support.waiting import SLOWER

pytestmark = [pytest.mark.acceptance, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def there() -> Iterator[Kafka]:
    with EmbeddedBroker() as broker:
        yield Kafka(broker.bootstrap, namespace=f"t{uuid4().hex[:10]}")


def test_the_waits_double_and_begin_anew_with_the_first_success(kafka: Kafka, there: Kafka) -> None:
    found = observe(kafka, there, 3, 2)
    assert (len(found.first), len(found.after)) == (3, 2)
    assert found.wrong(SLOWER) == []


@pytest.mark.parametrize(
    ("first", "after", "wrong"),
    [
        ([*WAITS], [4, 8], 0),
        ([4.9, 6.1], [4, 8], 0),
        ([4, 4], [4], 1),
        ([4, 10.1], [4], 1),
        ([4], [16, 16], 2),
    ],
)
def test_a_wait_that_is_a_quarter_off_is_told(first: list[float], after: list[float], wrong: int) -> None:
    assert len(Observed(first, after).wrong()) == wrong
