"""Referring: a large message of a client is transmitted from the pieces of its command, a few fragments in each step.

Its numbers are given when the command takes effect. Its bytes are in rows already, so they are not written, and not cut, a second time in that step.
"""

from __future__ import annotations

from conversations.protocol.command import SendFromPieces
from conversations.protocol.endpoint import prefix_of
from conversations.protocol.envelope import Envelope, Kind
from conversations.protocol.referred import Referred
from conversations.worker.active import Active
from conversations.worker.partition import Partition


def refer(partition: Partition, active: Active, verb: SendFromPieces) -> None:
    """Give a large message its numbers, and let a delayed row refer to its body."""
    endpoint, context = active.endpoint, partition.context
    body = Referred(verb.command_id, verb.start, verb.size, context.settings.limits.fragment_bytes)
    context.counts.traffic.count_sent()
    first = endpoint.send()
    for _ in range(body.fragments - 1):
        endpoint.send()
    if first == 0 and endpoint.initiator:
        partition.transmission.begin(active)
    envelope = Envelope(
        prefix_of(endpoint), Kind.MESSAGE, first, endpoint.acknowledge(), sent_at=context.now,
        message_type=verb.message_type, content_type=verb.content_type, fragments=body.fragments,
    )  # fmt: skip
    partition.transmission.refer(active, envelope, body)
    partition.touch(active)
