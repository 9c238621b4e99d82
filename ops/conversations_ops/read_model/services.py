"""The services whose topics the read model has."""

from __future__ import annotations

from conversations.config import Kafka
from conversations.errors import LogError
from conversations.protocol.topics import STATE, service_topic
from conversations_ops.operate.state import services
from conversations_ops.read_model.file import File


def chosen(kafka: Kafka, file: File, service: str = "") -> list[str]:
    """Return the service with this name, or all services if it is empty.

    Raises:
        DeclarationError: the catalog has no such service.
        LogError: the service is in the catalog, but has no topics.
    """
    known = service_names(file)
    if not service:
        return known
    if service not in known:
        services(kafka, service)  # says that the name is wrong
        raise LogError(f"no topic {service_topic(kafka.namespace, service, STATE)!r}: run 'conversations apply'")
    return [service]


def service_names(file: File) -> list[str]:
    """Return the names of all services that the file has, in order."""
    with file.explained():
        found = file.connection.execute("SELECT DISTINCT service FROM places WHERE kind = ? ORDER BY service", (STATE,))
        return [name for (name,) in found]
