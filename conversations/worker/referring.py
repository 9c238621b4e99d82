"""Referring: a large message of a client is transmitted from the pieces of its command, a few fragments in each step.

Its numbers are given when the command takes effect. Its bytes are in rows already, so they are not written, and not cut, a second time in that step.
"""

from __future__ import annotations

from conversations.protocol.command import Send
from conversations.protocol.endpoint import prefix_of
from conversations.protocol.envelope import Envelope, Kind
from conversations.protocol.envelope_run import encode_text
from conversations.protocol.referred import Referred
from conversations.protocol.varint import encode_long
from conversations.worker.active import Active
from conversations.worker.partition import Partition

LOOKS = 20
"""Maximum number of places at which a body is looked for. A block may have other messages of the same type and size before it."""


def refer(partition: Partition, active: Active, verb: Send) -> bool:
    """Give a large message its numbers, and let a delayed row refer to its body. Return False if its body is not in the command at hand."""
    endpoint, context = active.endpoint, partition.context
    at_hand = partition.pieces.at_hand
    start = -1 if at_hand is None else _place(at_hand[1], verb)
    if at_hand is None or start < 0:
        return False
    body = Referred(at_hand[0], start, len(verb.body), context.settings.limits.fragment_bytes)
    context.counts.traffic.count_sent()
    first = endpoint.send()
    for _ in range(body.fragments - 1):
        endpoint.send()
    if first == 0 and endpoint.initiator:
        partition.transmission.begin(active)
    if endpoint.resends:
        partition.unacknowledged.make_room(active, body.cut)
    envelope = Envelope(
        prefix_of(endpoint), Kind.MESSAGE, first, endpoint.acknowledge(), sent_at=context.now,
        message_type=verb.message_type, content_type=verb.content_type, fragments=body.fragments,
    )  # fmt: skip
    partition.transmission.refer(active, envelope, body)
    partition.touch(active)
    return True


def _place(value: bytes, send: Send) -> int:
    """Return where the body of a message is in an encoded command; -1 if it is not found.

    Any run of equal bytes will do. Only a few places are compared, so that no client can make this slow.
    """
    head = encode_text(send.message_type) + encode_text(send.content_type) + encode_long(len(send.body))
    at = -1
    for _ in range(LOOKS):
        at = value.find(head, at + 1)
        start = at + len(head)
        if at < 0 or value.startswith(send.body, start):
            return -1 if at < 0 else start
    return -1
