"""Records that handlers publish, on a real Kafka, as a consumer of committed records reads them."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from secrets import token_hex
from uuid import uuid4

import pytest
from pydantic import BaseModel

from conversations import Contract, DeclarationError, Dialog, Kafka, LogError, Service, WorkerSettings, local
from conversations.config import Periods
from conversations.kafka.admin import apply, missing_plain_topics
from conversations.kafka.clients import describe_topics, make_admin
from conversations.kafka.follow import Follower
from conversations.protocol.topics import partition_of, service_topic
from tests.integration.kafka.members import delete_topics
from tests.integration.support.plain_topics import committed, create_topic, delete_topic
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]
PATIENCE = timedelta(seconds=60)
SECOND = 1_000_000


class Order(BaseModel):
    n: int
    size: int = 0


class Done(BaseModel):
    n: int


ORDERS = Contract("Orders", sent_by_initiator=[Order], sent_by_target=[Done])


@pytest.fixture
def kafka(kafka_bootstrap: str) -> Iterator[Kafka]:
    kafka = Kafka(kafka_bootstrap, namespace=f"p{uuid4().hex[:10]}")
    yield kafka
    delete_topics(kafka)


def billing(topic: str, deed: Callable[[Order], object] = lambda _: None) -> Service[dict[str, int]]:
    """A service that publishes an invoice for each order, and answers it."""
    service = Service("billing", accepts=[ORDERS], publishes=[topic])

    @service.on(Order)
    def bill(order: Order, dialog: Dialog[dict[str, int]]) -> None:
        dialog.publish(
            topic, f"order-{order.n}", token_hex(order.size // 2) or str(order.n), headers={"n": str(order.n)}
        )
        dialog.send(Done(n=order.n))
        deed(order)

    return service


def test_a_record_is_in_the_topic_with_the_answer_and_not_if_the_handler_fails(kafka: Kafka) -> None:
    """Other programs find it where Kafka's own producer would put it; a failed attempt leaves nothing."""
    topic = create_topic(kafka, f"invoices-{kafka.namespace}", 5)
    tries: list[int] = []

    def fail_once(order: Order) -> None:
        tries.append(order.n)
        if tries.count(order.n) == 1 and order.n % 2:
            raise ValueError("not yet")

    with local(billing(topic, fail_once), kafka=kafka) as client:
        asked = [client.request("billing", ORDERS, Order(n=n), reply=Done, timeout=PATIENCE) for n in range(20)]
        assert [it.result().n for it in asked] == list(range(20))
    assert len(tries) == 30
    found = {record.key(): record for record in committed(kafka, topic)}
    assert len(found) == len(committed(kafka, topic)) == 20
    for n in range(20):
        record = found[b"order-%d" % n]
        assert (record.value(), record.headers()) == (b"%d" % n, [("n", b"%d" % n)])
        assert record.partition() == partition_of(b"order-%d" % n, 5)


def test_apply_names_a_missing_topic_and_a_worker_refuses_to_start_without_it(kafka: Kafka) -> None:
    """Neither makes it: it belongs to others, who know its partitions and its settings."""
    topic = f"invoices-{kafka.namespace}"
    declaration = billing(topic).declaration()
    line = f"billing: topic {topic}, to which the service publishes, does not exist. Create it before its workers start"
    assert line in apply(kafka, [declaration], 1, 1)
    assert missing_plain_topics(kafka, [declaration]) == [line]
    with pytest.raises(LogError, match=f"{topic}: the topic does not exist"), local(billing(topic), kafka=kafka):
        pass
    assert describe_topics(make_admin(kafka), kafka, [topic])[topic] is None
    create_topic(kafka, topic)
    assert apply(kafka, [declaration], 1, 1) == []
    with pytest.raises(DeclarationError, match="cannot publish to"):
        apply(kafka, [billing(f"{kafka.namespace}.events").declaration()], 1, 1)


@pytest.mark.slow
def test_handlers_wait_for_a_topic_that_was_deleted_and_a_record_that_it_refuses_is_a_dead_letter(
    kafka: Kafka, caplog: pytest.LogCaptureFixture
) -> None:
    """The worker goes on, and what waited is published once when the topic is back."""
    topic = create_topic(kafka, f"invoices-{kafka.namespace}")
    settings = WorkerSettings(periods=Periods(blocked_first=SECOND, blocked_last=4 * SECOND))
    with local(billing(topic), kafka=kafka, settings=settings) as client:

        def ask(order: Order) -> Callable[[], Done]:
            return client.request("billing", ORDERS, order, reply=Done, timeout=2 * PATIENCE).result

        assert ask(Order(n=1))().n == 1
        assert [record.value() for record in committed(kafka, topic)] == [b"1"]
        delete_topic(kafka, topic)
        waiting = ask(Order(n=2))
        until(lambda: f"topic {topic} accepts no records now" in caplog.text, "the handler waits", 60)
        create_topic(kafka, topic, 1, {"max.message.bytes": "2000"})
        assert waiting().n == 2
        with client.begin_dialog("billing", ORDERS) as dialog:
            dialog.send(Order(n=3, size=900_000))
        letters = service_topic(kafka.namespace, "billing", "dead-letter")
        with Follower(kafka, [letters]) as follower:
            (letter,) = until(lambda: follower.to_the_end(30), "the message is given up on", 60)
        assert dict(letter.headers() or ())["dl.exception"] == b"conversations.errors.PublicationRefused"
        assert ask(Order(n=4))().n == 4
    assert [record.value() for record in committed(kafka, topic)] == [b"2", b"4"]
