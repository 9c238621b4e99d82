"""Applying declarations to a real cluster."""

from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from uuid import uuid4

import pytest

from conversations import Contract, MessageType, Service, local
from conversations.config import Kafka
from conversations.errors import DeclarationError, KafkaUnreachable, LogError
from conversations.kafka.admin import apply
from conversations.kafka.catalog import own_schemas, read_catalog
from conversations.kafka.clients import describe_topics, make_admin
from conversations.kafka.connection import KafkaConnection
from conversations.protocol.declarations import ServiceDeclaration
from conversations.protocol.topics import SERVICE_TOPICS
from tests.integration.kafka.members import Member

pytestmark = pytest.mark.kafka

SELL = MessageType("Sell", "bytes")
ORDERS = ServiceDeclaration("orders", accepts={"Ordering": {"initiator": ["Order"], "target": ["Placed"], "any": []}})


@pytest.fixture
def empty(kafka_bootstrap: str) -> Kafka:
    """A namespace nobody applied anything to."""
    return Kafka(kafka_bootstrap, namespace=f"t{uuid4().hex[:10]}")


def test_apply_creates_topics_and_catalog_once(empty: Kafka) -> None:
    lines = apply(empty, [ORDERS], 3, 1, {"00aa": '"bytes"'})
    assert len(lines) == 3 + len(SERVICE_TOPICS) + 2
    assert f"created topic {empty.namespace}.orders.queue (3 partitions)" in lines
    assert "added service orders in the catalog" in lines
    catalog = read_catalog(empty)
    assert catalog.partitions("orders") == 3
    assert catalog.services["orders"]["accepts"]["Ordering"]["initiator"] == ["Order"]
    assert catalog.schemas == {"00aa": '"bytes"'}
    assert apply(empty, [ORDERS], 3, 1, {"00aa": '"bytes"'}) == []
    changed = ServiceDeclaration("orders", accepts={"Ordering": {"any": ["Order"]}})
    assert apply(empty, [changed], 3, 1) == [
        "orders: contract Ordering: peers hold messages of the new type Order until their release knows it. Release the peers first",
        "added 4 schemas of envelopes and commands to the catalog",
        "changed service orders in the catalog",
    ]
    assert set(read_catalog(empty).schemas) == {"00aa", *own_schemas()}
    other = ServiceDeclaration("orders", accepts={"Selling": {"any": ["Order"]}})
    with pytest.raises(DeclarationError, match=r"other contracts \(Ordering\).*--replace"):
        apply(empty, [other])
    assert "changed service orders in the catalog" in apply(empty, [other], replace=True)


def test_a_worker_of_another_program_with_the_name_of_a_service_does_not_join(empty: Kafka) -> None:
    """It would share messages and state. Nothing was applied for it, so only the worker can notice."""
    apply(empty, [ORDERS], 1, 1)
    other = ServiceDeclaration("orders", accepts={"Selling": {"any": ["Order"]}})
    with pytest.raises(DeclarationError, match=r"other contracts \(Ordering\).*another name"):
        Member(empty, declaration=other).join()
    more = ServiceDeclaration("orders", accepts={**ORDERS.accepts, "Selling": {"any": ["Order"]}})
    member = Member(empty, declaration=more).join()
    member.connection.close()


def test_the_client_of_another_program_keeps_its_name(empty: Kafka) -> None:
    """Both programs use ``local`` with its default name, and no contract of the second one is a contract of the first one."""
    apply(empty, [ServiceDeclaration("local.client", initiates={"Ordering": {"any": ["Order"]}})], 1, 1)
    shop = Service("shop", accepts=[Contract("Selling", sent_by_initiator=[SELL])])
    shop.on(SELL)(lambda message, dialog: None)
    with (
        pytest.raises(DeclarationError, match=r"name of its own.*local\(..., name='shop.client'\)"),
        local(shop, kafka=empty),
    ):
        pass
    with local(shop, kafka=empty, name="shop.client"):
        pass


def test_state_that_loses_a_field_is_applied_only_on_request(empty: Kafka) -> None:
    had, has = ({"properties": {name: {"type": "integer"}}} for name in ("left", "available"))
    before, after = (ServiceDeclaration("orders", ORDERS.accepts, state=state) for state in (had, has))
    apply(empty, [before], 1, 1)
    with pytest.raises(DeclarationError, match=r"no field left any more.*--replace"):
        apply(empty, [after])
    assert read_catalog(empty).services["orders"]["state"] == had
    assert "changed service orders in the catalog" in apply(empty, [after], replace=True)


def test_every_delay_has_a_topic_and_a_dropped_one_is_named(empty: Kafka) -> None:
    patient = ServiceDeclaration("orders", retries=["5s", "1m"])
    lines = apply(empty, [patient], 3, 1)
    assert f"created topic {empty.namespace}.orders.retry.5s (3 partitions)" in lines
    assert apply(empty, [patient]) == []
    lines = apply(empty, [ServiceDeclaration("orders", retries=["5s"])])
    assert f"topic {empty.namespace}.orders.retry.1m is not used any more and can be deleted" in lines


def test_another_partition_count_is_refused_and_nothing_created(empty: Kafka) -> None:
    apply(empty, [ORDERS], 3, 1)
    with pytest.raises(DeclarationError, match=r"'orders' has 3 partitions.*not 4"):
        apply(empty, [ORDERS, ServiceDeclaration("billing")], 4, 1)
    queue = f"{empty.namespace}.billing.queue"
    assert describe_topics(make_admin(empty), empty, [queue]) == {queue: None}


def test_two_applies_at_once_do_no_harm(empty: Kafka) -> None:
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(apply, empty, [ORDERS], 2, 1) for _ in range(2)]
    assert all(isinstance(each.result(), list) for each in both)
    assert read_catalog(empty).partitions("orders") == 2


def test_more_copies_than_brokers_is_a_clear_error(empty: Kafka) -> None:
    with pytest.raises(LogError, match="cannot be created"):
        apply(empty, [ORDERS], 1, 99)


def test_a_name_that_is_no_topic_name_is_refused(empty: Kafka) -> None:
    with pytest.raises(DeclarationError, match="or ders"):
        apply(empty, [ServiceDeclaration("or ders")], 1, 1)


def test_a_missing_kafka_is_told_within_ten_seconds() -> None:
    began = perf_counter()
    with pytest.raises(KafkaUnreachable, match=r"127\.0\.0\.1:1\b"):
        apply(Kafka("127.0.0.1:1"), [ORDERS], 1, 1)
    assert perf_counter() - began < 10


def test_a_setting_librdkafka_does_not_know_is_a_clear_error(kafka_bootstrap: str) -> None:
    with pytest.raises(LogError, match=r"no\.such\.setting"):
        apply(Kafka(kafka_bootstrap, settings={"no.such.setting": 1}), [ORDERS], 1, 1)


@pytest.mark.parametrize("dotted_first", [False, True])
def test_a_service_that_would_share_its_topics_with_another_is_refused(
    kafka_bootstrap: str, dotted_first: bool
) -> None:
    name = f"t{uuid4().hex[:10]}"
    one = Kafka(kafka_bootstrap, namespace=f"{name}.a"), ServiceDeclaration("b")
    other = Kafka(kafka_bootstrap, namespace=name), ServiceDeclaration("a.b")
    first, second = (other, one) if dotted_first else (one, other)
    apply(first[0], [first[1], ServiceDeclaration("c")], 1, 1)
    with pytest.raises(DeclarationError, match="would have the topics of service"):
        apply(second[0], [second[1]], 1, 1)
    assert apply(second[0], [ServiceDeclaration("d")], 1, 1)


def test_no_two_workers_of_two_services_have_one_transactional_id(empty: Kafka) -> None:
    one, other = KafkaConnection(empty, "orders", slot="web.eu-1"), KafkaConnection(empty, "orders.web", slot="eu-1")
    assert one._transactional_id != other._transactional_id
    assert KafkaConnection(empty, "orders", slot="eu-1")._transactional_id == f"{empty.namespace}.orders.eu-1"
