"""Rows of dialogs that are parked, as a worker leaves them: what a million failed messages look like in a state topic."""

from __future__ import annotations

import time
from collections.abc import Iterator
from uuid import UUID

from bench.contenders import our_loop
from bench.scale.subject import HOUR, identifiers
from bench.topics import Filling
from bench.workload import BODY_BYTES
from conversations import Kafka
from conversations.protocol import rows
from conversations.protocol.endpoint import Endpoint
from conversations.protocol.envelope import Prefix, encode_long, encode_message, encode_prefix, header_of, message_run
from conversations.protocol.states import State
from conversations.protocol.topics import QUEUE, STATE, partition_of, service_topic


def parked_rows(kafka: Kafka, dialogs: int, messages: int, partitions: int, due: int) -> Iterator[Filling]:
    """Rows of open dialogs, each with so many messages parked, the first of which failed once; ``due`` in microseconds."""
    state, queue = (service_topic(kafka.namespace, our_loop.ANSWERING, kind) for kind in (STATE, QUEUE))
    now, run = time.time_ns() // 1_000, message_run("Order", "application/octet-stream")
    for place, name in enumerate(identifiers(dialogs)):
        key = str(name).encode()
        partition, own = partition_of(key, partitions), rows.identity(name.bytes, initiator=False)
        endpoint = _endpoint(name, now, messages)
        prefix = encode_prefix(
            Prefix(name.bytes, True, "Orders", our_loop.ASKING, our_loop.ANSWERING, str(name), False, now + HOUR, now + 24 * HOUR)
        )  # fmt: skip
        size = 0
        for number in range(messages):
            value = encode_message(prefix, number, -1, encode_long(now), run, b"x" * BODY_BYTES)
            size += len(value)
            offset = place * messages + number
            header = header_of(value, len(prefix))
            row = rows.WaitingRow(queue, offset, now, True, int(number == 0), key, header, value)
            yield state, partition, rows.numbered(rows.PARKED, own, number), rows.encode_waiting(row), None
        park = rows.ParkRow(
            due, next=messages, size=size, since=now, ticket=1, failure="ValueError: made for the benchmark"
        )
        yield state, partition, rows.PARK + own, rows.encode_park(park), None
        yield (
            state,
            partition,
            rows.ENDPOINT + own,
            rows.encode_endpoint(endpoint, rows.encode_constant(endpoint)),
            None,
        )


def _endpoint(name: UUID, now: int, messages: int) -> Endpoint:
    key = str(name)
    endpoint = Endpoint(
        name.bytes, initiator=False, contract="Orders", service=our_loop.ANSWERING, peer=our_loop.ASKING, key=key,
        peer_key=key, expires_at=now + 24 * HOUR,
    )  # fmt: skip
    endpoint.started_until = now + HOUR
    endpoint.state = State.CONVERSING
    endpoint.inbound.next = messages
    endpoint.told = messages - 1
    return endpoint
