"""State topics that are compacted while a run lasts; deletions are shown for as long as workers insist on."""

from __future__ import annotations

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exported at run time, not in its types
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)

from conversations.config import Kafka
from conversations.kafka.clients import make_admin
from conversations.protocol.topics import STATE, service_topic
from tests.chaos.services import LEDGER, TELLER

PATIENCE = 30.0
SETTINGS = {
    "segment.ms": "10000",
    "min.cleanable.dirty.ratio": "0.01",
}


def let_it_be_compacted(kafka: Kafka) -> None:
    """Set the state topics of both services."""
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in SETTINGS.items()
    ]
    resources = [
        ConfigResource(
            ConfigResource.Type.TOPIC,
            service_topic(kafka.namespace, service, STATE),
            incremental_configs=entries,
        )
        for service in (TELLER, LEDGER)
    ]
    admin = make_admin(kafka)  # held: with the client its futures would go
    for future in admin.incremental_alter_configs(resources).values():
        future.result(PATIENCE)
