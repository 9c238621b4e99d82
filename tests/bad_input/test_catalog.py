"""A catalog that contradicts the code, or has records that cannot be decoded."""

from collections.abc import Sequence
from random import Random

import pytest
from confluent_kafka.cimpl import NewPartitions

from conversations.config import Kafka, WorkerSettings
from conversations.crew import Crew, kafka_worker
from conversations.errors import DeclarationError, LogError
from conversations.kafka.admin import apply
from conversations.kafka.catalog import Catalog, service_record
from conversations.kafka.clients import make_admin
from conversations.protocol.topics import COMMANDS, QUEUE, catalog_topic, service_topic
from tests.bad_input.support.forging import Forged, stranger
from tests.bad_input.support.kafka_log import KafkaPlace
from tests.bad_input.support.outcomes import begin
from tests.bad_input.support.services import PARTITIONS, shop, web
from tests.support.waiting import until

GOOD = service_record("shop", shop().declaration().entry(PARTITIONS))


@pytest.mark.parametrize(
    "record",
    [
        (b"service/shop", b"\xff not JSON"),
        (b"service/shop", b"[]"),
        (b"service/shop", b"{}"),
        (b"service/shop", b'{"partitions": "many"}'),
        (b"service/shop", b'{"partitions": true}'),
        (b"service/shop", b'{"partitions": 0}'),
        (b"service/shop", b'{"partitions": -3}'),
        (b"service/shop", b'{"partitions": 1e400}'),
        (b"service/shop", b'{"partitions": 9999999999}'),
        (b"service/shop", b"[" * 100_000),
        (b"service/\xff", b"{}"),
        (b"schema/00", b"\xff"),
        (b"", b""),
        (b"policy/x", b"of another version"),
    ],
)
def test_a_record_that_is_not_understood_is_left_alone(record: tuple[bytes, bytes]) -> None:
    """The last good entry of the service stays."""
    catalog = Catalog()
    catalog.take([GOOD, record])
    assert catalog.partitions("shop") == PARTITIONS


# -- on a real Kafka -------------------------------------------------------------------------------------------------


@pytest.fixture
def place(kafka_bootstrap: str) -> KafkaPlace:
    return KafkaPlace(kafka_bootstrap)


def run(kafka: Kafka) -> None:
    """Run a worker of the shop until it ends, and raise its failure."""
    with Crew([kafka_worker(shop(), kafka, WorkerSettings())], kafka) as crew:
        crew.await_ready(60)
        crew.await_end()


@pytest.mark.kafka
def test_a_service_that_is_missing_from_the_catalog_does_not_start(place: KafkaPlace) -> None:
    """The error names the command that adds the service."""
    put(place, (b"service/shop", None))
    with pytest.raises(LogError, match="'shop' is not in the catalog: run 'conversations apply'"):
        run(place.kafka)


@pytest.mark.kafka
def test_a_catalog_with_another_partition_count_than_the_topics_stops_the_service(place: KafkaPlace) -> None:
    """Keys would not find their partition any more. The error names both counts, and nothing is read."""
    put(place, service_record("shop", shop().declaration().entry(PARTITIONS + 1)))
    with pytest.raises(LogError, match=f"has {PARTITIONS} partitions, the catalog says {PARTITIONS + 1}"):
        run(place.kafka)


@pytest.mark.kafka
def test_a_topic_that_grew_stops_the_service(place: KafkaPlace) -> None:
    """A topic of a running service gets more partitions: the worker ends too."""
    name = service_topic(place.namespace, "shop", QUEUE)
    admin = make_admin(place.kafka)  # keep the client until the answer arrives
    (grown,) = admin.create_partitions([NewPartitions(name, PARTITIONS + 1)]).values()
    grown.result(30)
    with pytest.raises(LogError, match="keys no longer find their partition"):
        run(place.kafka)


@pytest.mark.kafka
def test_another_partition_count_is_refused_when_it_is_applied(place: KafkaPlace) -> None:
    """The count is fixed when a service is created."""
    with pytest.raises(DeclarationError, match="fixed when a service is created"):
        apply(place.kafka, [shop().declaration()], PARTITIONS + 1, 1)


@pytest.mark.kafka
def test_garbage_in_the_catalog_stops_nobody(place: KafkaPlace) -> None:
    """A worker ignores such records when it starts, and when it looks up another service."""
    put(place, (b"service/shop", b"\xff"), (b"\xff\xff", b"?"), (b"service/web", b"[]"))
    workers = [kafka_worker(service, place.kafka, WorkerSettings()) for service in (shop(), web())]
    with Crew(workers, place.kafka) as crew:
        crew.await_ready(60)
        known = stranger(place.now(), Random(1))
        place.throw("web", COMMANDS, [begin(known)])
        until(lambda: place.states("web").get(str(known.conversation), {}).get("receipts") == [0], "the receipt")
        crew.stop()


def put(place: KafkaPlace, *records: tuple[bytes, bytes | None]) -> None:
    """Append to the catalog."""
    found: Sequence[Forged] = [Forged(key, value, None) for key, value in records]
    place.throw_to(catalog_topic(place.namespace), found)
