"""A namespace of its own for every test, and a member of its service's group."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from conversations.config import Kafka
from conversations.kafka.admin import apply
from conversations.protocol.declarations import ServiceDeclaration
from tests.integration.kafka.members import PARTITIONS, Member, delete_topics


@pytest.fixture
def kafka(kafka_bootstrap: str) -> Iterator[Kafka]:
    """A namespace with the services ``orders`` and ``billing``; its topics go with it."""
    namespace = f"t{uuid4().hex[:10]}"
    kafka = Kafka(kafka_bootstrap, namespace=namespace)
    apply(kafka, [ServiceDeclaration("orders"), ServiceDeclaration("billing")], PARTITIONS, 1)
    yield kafka
    delete_topics(kafka)


@pytest.fixture
def member(kafka: Kafka) -> Iterator[Member]:
    """The only member of the group of ``orders``; owns every partition, none open."""
    member = Member(kafka).join().owns(PARTITIONS)
    yield member
    member.connection.close()
