"""Makes the rows of dialogs whose messages wait for an absent peer, as a worker writes them to its state topic."""

from __future__ import annotations

import time
from collections.abc import Iterator

from bench.blocked.services import ASKING, ORDERS, Order
from bench.scale.subject import HOUR, identifiers
from bench.topics import Filling
from bench.workload import BODY_BYTES, PARTITIONS
from conversations import Kafka
from conversations.bodies import codec_of
from conversations.protocol import rows
from conversations.protocol.contract import as_message_type
from conversations.protocol.endpoint import Endpoint, prefix_of
from conversations.protocol.envelope import Envelope, Kind, encode
from conversations.protocol.sequencing import NONE
from conversations.protocol.states import State
from conversations.protocol.topics import QUEUE, STATE, partition_of, service_topic
from conversations.protocol.waiting_row import WaitingRow, encode_waiting

ABSENT = "absent"
PER_DIALOG = 10
"""Delayed messages of each dialog."""


def delayed_rows(kafka: Kafka, count: int) -> Iterator[Filling]:
    """Make the rows of ``count`` delayed messages of the asking service, and of their dialogs."""
    state, queue = service_topic(kafka.namespace, ASKING, STATE), service_topic(kafka.namespace, ABSENT, QUEUE)
    codec, now = codec_of(as_message_type(Order)), time.time_ns() // 1_000
    body = codec.encode(Order(number=0, text="x" * BODY_BYTES))
    drawn = 0
    for name in identifiers(count // PER_DIALOG):
        key, own = str(name), rows.identity(name.bytes, initiator=True)
        partition = partition_of(key.encode(), PARTITIONS)
        endpoint = Endpoint(
            name.bytes, True, contract=ORDERS.name, service=ASKING, peer=ABSENT, key=key, peer_key=key,
            expires_at=now + 24 * HOUR,
        )  # fmt: skip
        endpoint.state, endpoint.next_out, endpoint.resends = State.CONVERSING, PER_DIALOG, True
        prefix = prefix_of(endpoint)
        for number in range(PER_DIALOG):
            value = encode(Envelope(prefix, Kind.MESSAGE, number, NONE, NONE, sent_at=now, message_type=codec.name, content_type=codec.content_type, body=body))  # fmt: skip
            row = WaitingRow(queue, NONE, 0, accepted=False, attempts=0, key=key.encode(), header=b"", value=value)
            yield state, partition, rows.numbered(rows.DELAYED, own, drawn), encode_waiting(row), None
            drawn += 1
        yield (
            state,
            partition,
            rows.ENDPOINT + own,
            rows.encode_endpoint(endpoint, rows.encode_constant(endpoint)),
            None,
        )
