"""Which messages failed and wait, of which services."""

from __future__ import annotations

from conversations.config import Kafka
from conversations.errors import DeclarationError
from conversations.protocol.parked import NEEDED, Parked, parked
from ops.queries.state import services, tables


def waiting(kafka: Kafka, service: str = "") -> list[Parked]:
    """List what waits for its next attempt, or for an operator, longest waiting first.

    Args:
        kafka: where.
        service: of this one only; empty: of all in the catalog.

    Raises:
        DeclarationError: there is no such service.
        LogError: a topic cannot be read.
    """
    found = [it for name in services(kafka, service) for it in _of(kafka, name)]
    return sorted(found, key=lambda it: (it.since, it.letter))


def find(kafka: Kafka, letter: str) -> Parked:
    """Return the one that operators call so.

    Raises:
        LookupError: nothing of this name waits (any more).
        LogError: a topic cannot be read.
    """
    service = letter.rpartition(".")[0]
    try:
        candidates = waiting(kafka, service) if service else []
    except DeclarationError as error:
        raise LookupError(str(error)) from error
    found = next((it for it in candidates if it.letter == letter), None)
    if found is None:
        raise LookupError(
            f"{letter} does not wait, or not any more: 'conversations dead-letters list' shows what does, "
            "'conversations retries list' what is tried again by itself"
        )
    return found


def _of(kafka: Kafka, service: str) -> list[Parked]:
    return [it for number, table in tables(kafka, service, NEEDED).items() for it in parked(table, service, number)]
