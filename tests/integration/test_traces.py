"""One trace over two services, their workers and a client on a real Kafka."""

from datetime import timedelta
from uuid import uuid4

import pytest

from conversations import Kafka, local
from tests.support.relay import ORDERS, Order, Ordered, relay
from tests.support.waiting import until

pytest.importorskip(
    "opentelemetry.sdk", reason="OpenTelemetry's SDK is not installed: pip install -r requirements/dev.txt"
)

from conversations.otel import trace
from tests.support.spans import Spans, is_child, trace_id

pytestmark = [pytest.mark.kafka]


def test_a_trace_goes_through_kafka(kafka_bootstrap: str) -> None:
    spans, services = Spans(), relay()
    trace(*services, provider=spans.provider)
    kafka = Kafka(kafka_bootstrap, namespace=f"t{uuid4().hex[:10]}")
    with local(*services, kafka=kafka) as client:
        answer = client.request("desk", ORDERS, Order(item="tea"), reply=Ordered, timeout=timedelta(seconds=90))
        assert answer.result() == Ordered(item="tea")
        (written,) = until(
            lambda: [it for it in spans.ended() if it.name.startswith("send")], "the command is confirmed"
        )
    (ordered,), (take,), (taken,) = spans.of("ordered"), spans.of("take"), spans.of("taken")
    assert is_child(ordered, written)
    assert is_child(take, ordered)
    assert is_child(taken, take)
    assert len({trace_id(it) for it in spans.ended()}) == 1
    assert (take.attributes or {})["messaging.destination.name"] == f"{kafka.namespace}.store.queue"
