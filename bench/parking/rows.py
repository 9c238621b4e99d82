"""Makes the rows of parked dialogs, as a worker writes them to its state topic."""

from __future__ import annotations

import time
from collections.abc import Iterator

from bench import fill
from bench.contenders import our_loop
from bench.scale.subject import identifiers, open_endpoint
from bench.topics import Filling
from bench.workload import BODY_BYTES
from conversations import Kafka
from conversations.protocol import rows
from conversations.protocol.envelope import encode_long, encode_message, message_run
from conversations.protocol.park_row import ParkRow, encode_park
from conversations.protocol.topics import QUEUE, STATE, service_topic
from conversations.protocol.waiting_row import WaitingRow, encode_waiting


def parked_rows(kafka: Kafka, dialogs: int, messages: int, partitions: int, due: int) -> Iterator[Filling]:
    """Make rows of open dialogs with ``messages`` parked messages each. The first has failed once; its next attempt is due at ``due``."""
    state, queue = (service_topic(kafka.namespace, our_loop.ANSWERING, kind) for kind in (STATE, QUEUE))
    now, run = time.time_ns() // 1_000, message_run("Order", "application/octet-stream")
    for place, name in enumerate(identifiers(dialogs)):
        own = rows.identity(name.bytes, initiator=False)
        key, prefix, partition = fill.dialog(str(name).encode(), partitions, now)
        endpoint = open_endpoint(name, now)
        endpoint.inbound.next, endpoint.told = messages, messages - 1
        size = 0
        for number in range(messages):
            value = encode_message(prefix, number, -1, encode_long(now), run, b"x" * BODY_BYTES)
            size += len(value)
            offset = place * messages + number
            row = WaitingRow(queue, offset, now, True, int(number == 0), key, b"", value)
            yield state, partition, rows.numbered(rows.PARKED, own, number), encode_waiting(row), None
        park = ParkRow(due, next=messages, size=size, since=now, ticket=1, failure="ValueError: made for the benchmark")
        yield state, partition, rows.PARK + own, encode_park(park), None
        yield (
            state,
            partition,
            rows.ENDPOINT + own,
            rows.encode_endpoint(endpoint, rows.encode_constant(endpoint)),
            None,
        )
