"""A catalog that cannot be read: whoever asks for unknown services holds up its worker, and so does not ask for each of them."""

import pytest

from conversations.config import Kafka
from conversations.errors import KafkaUnreachable
from conversations.kafka import catalog
from conversations.kafka.admin import apply
from conversations.kafka.catalog import CatalogReader, read_catalog
from conversations.kafka.clients import Admin
from conversations.protocol.declarations import ServiceDeclaration
from conversations_ops.broker import EmbeddedBroker
from tests.simulation.test_bounds import counted

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]


@pytest.mark.slow
def test_a_catalog_that_could_not_be_read_is_not_read_for_each_unknown_sender(monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedBroker() as broker:
        kafka = Kafka(broker.bootstrap)
        apply(kafka, [ServiceDeclaration("orders")], 1, 1)
        reader = CatalogReader(kafka, Admin(kafka))
        assert reader.partitions("orders") == 1
        monkeypatch.setattr(catalog, "REREAD_AFTER", 0.0)
        broker.kill()
        with counted(read_catalog) as readings:
            for number in range(3):
                assert reader.partitions(f"nobody-{number}") is None
                with pytest.raises(KafkaUnreachable):  # nobody is refused by a catalog of before
                    reader.read()
        assert readings[0] == 1
        assert reader.partitions("orders") == 1
        broker.restart()
        apply(kafka, [ServiceDeclaration("billing")], 1, 1)
        monkeypatch.setattr(catalog, "FAILED_FOR", 0.0)
        assert reader.read().partitions("billing") == 1
        assert reader.partitions("billing") == 1
