"""Records that a test writes itself into queues and commands topics, like a foreign implementation of a peer, or a replay."""

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

from conversations.ports import Out
from conversations.protocol.command import Command, Operation, encode_command, topic_for
from conversations.protocol.endpoint import SECOND
from conversations.protocol.envelope import (
    Envelope,
    Kind,
    Prefix,
    decode,
    encode,
)
from conversations.protocol.identifiers import uuid7
from conversations.protocol.topics import QUEUE, events_topic, partition_of, service_topic
from conversations.testing import Simulation
from conversations.testing.reading import state_of, visible
from conversations.testing.said import said

HOUR = 3_600 * SECOND


def drawn(sim: Simulation, number: int = 1) -> UUID:
    """Return a conversation id that is made now."""
    return uuid7(sim.clock.now(), number)


def first_of(sim: Simulation, conversation: UUID, to: str, contract: str) -> Prefix:
    """Return the prefix of the envelopes that the service ``stranger`` sends as the initiator."""
    now = sim.clock.now()
    return Prefix(
        conversation.bytes, True, contract, "stranger", to, str(conversation), False, now + HOUR, now + 24 * HOUR
    )


def message(prefix: Prefix, seq: int, message_type: str, body: bytes, ack: int = -1) -> Envelope:
    return Envelope(
        prefix, Kind.MESSAGE, seq, ack, message_type=message_type, content_type="application/json", body=body
    )


def post(sim: Simulation, envelope: Envelope) -> None:
    """Append an envelope to its recipient's queue."""
    value = encode(envelope)
    key = envelope.prefix.reply_key.encode()
    service = envelope.prefix.to_service
    sim.broker_of(service).append_keyed(service, QUEUE, key, value)


def queued(sim: Simulation, service: str) -> list[Envelope]:
    """Return all envelopes in a service's queue, in order within each partition."""
    broker = sim.broker_of(service)
    return [decode(it.value() or b"") for it in visible(broker, service_topic(broker.namespace, service, QUEUE))]


def events_of(sim: Simulation, name: str) -> list[dict[str, Any]]:
    """Return the events with a name, of all services on the first cluster."""
    found = [json.loads(record.value() or b"") for record in visible(sim.broker, events_topic(sim.broker.namespace))]
    return [event for event in found if event["event"] == name]


def replay(sim: Simulation, service: str, key: str = "") -> None:
    """Append all records of a service's queue again, or only the records with one key."""
    topic = service_topic(sim.broker.namespace, service, QUEUE)
    given = {(record.partition(), record.key(), record.value()): record for record in visible(sim.broker, topic)}
    for record in given.values():
        if key.encode() not in (b"", record.key()):
            continue
        out = Out(topic, record.partition(), record.key(), record.value(), record.headers())
        if (topic, record.partition(), record.offset()) in sim.broker.noisy:
            sim.broker.disturb(service, out)
        else:
            sim.broker.append(out)


def command(
    sim: Simulation, service: str, conversation: UUID, *operations: Operation, key: str = "", initiator: bool = True
) -> None:
    """Append a client's command for the initiator's side, or the target's, of a dialog that names its group."""
    name = str(conversation)
    asked = Command(
        sim.chance.random.randbytes(16), conversation.bytes, initiator, name, key, service, sim.clock.now(), operations
    )
    sim.broker.append_keyed(service, topic_for(asked), name.encode(), encode_command(asked))


def is_to(service: str, *seqs: int) -> "Stop":
    """Return a condition that is true for a record that goes to this service and has one of these numbers."""
    return Stop(service, seqs)


class Stop:
    def __init__(self, service: str, seqs: tuple[int, ...]) -> None:
        self.service = service
        self.seqs = seqs

    def __call__(self, out: Out) -> bool:
        return out.topic.endswith(f".{self.service}.{QUEUE}") and decode(out.value or b"").seq in self.seqs


def same_partition(first: str, second: str, count: int) -> bool:
    return partition_of(first.encode(), count) == partition_of(second.encode(), count)


def lose(sim: Simulation, is_lost: Callable[[str, Kind, int], bool], *, only_first: bool = False) -> None:
    """Lose the records for which ``is_lost(service, kind, number)`` is True, until ``pass_all``.

    With ``only_first``, only records of conversations that have records already are lost.
    """
    known = {envelope.prefix.conversation_id for service in sim.broker.services for envelope in queued(sim, service)}

    def check(out: Out) -> bool:
        if not out.topic.endswith(f".{QUEUE}"):
            return False
        conversation, _, kind, number = said(out.value)
        return is_lost(out.topic.split(".")[1], kind, number) and (not only_first or conversation in known)

    sim.broker.stop = check


def rows_of(sim: Simulation, service: str, kind: bytes) -> list[bytes]:
    """Return the keys of a service's rows of one kind."""
    return [key for table in state_of(sim.broker_of(service), service) for key in table if key.startswith(kind)]


def pass_all(sim: Simulation) -> None:
    """Let all records arrive from now on. The records that were stopped are lost."""
    sim.broker.stop = lambda _: False
    sim.broker.stopped.clear()
