"""Reads the parked messages of services, with their bodies, from the file of the read model."""

from __future__ import annotations

from collections import defaultdict

from conversations.config import Kafka
from conversations.protocol.parked import Parked
from conversations_ops.read_model.derived import TOGETHER, sides_of
from conversations_ops.read_model.file import File
from conversations_ops.read_model.letters import parked_letter
from conversations_ops.read_model.services import chosen


def parked_messages(kafka: Kafka, file: File, service: str = "") -> list[Parked]:
    """List the parked messages of services, the longest parked first.

    Args:
        kafka: the cluster and namespace.
        file: the read model, up to date.
        service: list only messages of this service. If it is empty, list the messages of all services.

    Raises:
        DeclarationError: there is no such service.
        LogError: the file cannot be read.
    """
    chosen(kafka, file, service)
    places: dict[tuple[str, int], list[bytes]] = defaultdict(list)
    with file.explained():
        sql = "SELECT DISTINCT service, partition, own FROM parked WHERE ? = '' OR service = ?"
        for name, partition, own in file.connection.execute(sql, (service, service)):
            places[name, partition].append(own)
        found = [
            head
            for where, owns in places.items()
            for at in range(0, len(owns), TOGETHER)
            for side in sides_of(file.connection, kafka.namespace, where, owns[at : at + TOGETHER])
            for head in side.heads
        ]
    return sorted(found, key=lambda it: (it.since, it.letter))


def parked_message(kafka: Kafka, file: File, letter: str) -> Parked:
    """Return the parked message whose letter has this name.

    Raises:
        LookupError: no parked message has a letter with this name. The name is wrong, or the message is not parked any more.
        LogError: the file cannot be read.
    """
    found = parked_letter(file, kafka.namespace, letter)
    if found is None:
        raise LookupError(
            f"{letter} is not waiting: the name is wrong, or the letter no longer waits. "
            "'conversations dead-letters list' shows letters that wait for a decision, "
            "'conversations retries list' shows messages that are retried automatically"
        )
    return found
