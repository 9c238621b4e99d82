"""Transmission: how an encoded envelope of this side gets to the queue of its peer, or waits for it.

An envelope goes straight into the next transaction when its destination takes records. When it does not, the envelope becomes a
**delayed row**, in the same transaction. Then everything its dialog says later becomes a row as well, whatever the destination
does meanwhile: what is said later must not arrive earlier.

    transmit --the destination takes records--> a record of the next transaction
        |                                          ^
        '--blocked, or the dialog has such rows--> a delayed row --release, the destination is tried again

A destination that refuses one record for good is another matter. Its dialog is given up on: ``refused`` names it until its lane has
its turn (``undelivered``). Nothing of the dialog is released any more.

The prefix of a delayed envelope is made anew when it is released: the time until which the first message may begin the dialog
counts from its real transmission.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from conversations.protocol import rows
from conversations.protocol.codes import Code
from conversations.protocol.endpoint import prefix_of
from conversations.protocol.envelope import HEADER_NAME, decode, encode, header_of, tail_start
from conversations.protocol.sequencing import NONE
from conversations.protocol.topics import partition_of
from conversations.worker.active import Active, Endpoints
from conversations.worker.context import Context
from conversations.worker.outbox import Outbox
from conversations.worker.waiting import Waiting


class Refusal(NamedTuple):
    """Why a dialog is given up on: its destination refuses an envelope of it for good."""

    topic: str
    code: Code
    why: str
    asked: bool = False
    """Its lane has been told."""


class Transmission:
    """Sends the envelopes of one partition, and keeps an envelope while its destination takes no records."""

    __slots__ = ("_context", "_endpoints", "_outbox", "_waiting", "refused")

    def __init__(self, context: Context, outbox: Outbox, waiting: Waiting, endpoints: Endpoints) -> None:
        self._context = context
        self._outbox = outbox
        self._waiting = waiting
        self._endpoints = endpoints
        self.refused: dict[bytes, Refusal] = {}
        """Dialogs to be broken because an envelope is refused for good; their envelopes are delayed rows."""

    def begin(self, active: Active) -> None:
        """The first message of a dialog goes out now: until when it may begin the peer's endpoint counts from here."""
        endpoint, now = active.endpoint, self._context.now
        endpoint.may_start_until(now + min(self._context.periods.start_within, endpoint.expires_at - now))
        active.forget_encoded()

    def transmit(self, active: Active, value: bytes) -> None:
        """Append an encoded envelope to the peer's queue, or keep it as a row while that cannot take it."""
        if active.out_partition < 0 and not self._route(active):
            self.delay(active.identity, active.out_topic, active.out_key, value)
            return
        if self._context.destinations.blocked or self._waiting.delayed.of:
            blocked = active.out_topic in self._context.destinations.blocked
            if blocked or active.identity in self._waiting.delayed.of:
                self.delay(active.identity, active.out_topic, active.out_key, value)
                return
        header = header_of(value, len(active.out or active.out_prefix()))
        self._outbox.produce((active.out_topic, active.out_partition, active.out_key, value, [(HEADER_NAME, header)]))

    def _route(self, active: Active) -> bool:
        """Find the partition of the peer's queue; False while nobody knows it."""
        destinations, endpoint = self._context.destinations, active.endpoint
        active.route(destinations.topic(endpoint.peer))
        if active.out_topic in destinations.blocked:
            return False
        count = destinations.partitions(endpoint.peer)
        if count is None:
            destinations.block(active.out_topic, self._context.now)
            return False
        active.route(active.out_topic, partition_of(endpoint.peer_key.encode(), count))
        return True

    def answer(self, service: str, count: int, key: bytes, value: bytes) -> None:
        """Append an envelope for a conversation that has no endpoint here; nothing waits for its delivery."""
        topic = self._context.destinations.topic(service)
        headers = [(HEADER_NAME, header_of(value, tail_start(value)))]
        self._outbox.produce((topic, partition_of(key, count), key, value, headers))

    # -- delayed rows -----------------------------------------------------------------------------------------

    def delay(self, own: bytes, topic: str, key: bytes, value: bytes) -> None:
        """Keep an envelope as a row until its destination takes records again."""
        row = rows.encode_waiting(
            rows.WaitingRow(topic, NONE, 0, accepted=False, attempts=0, key=key, header=b"", value=value)
        )
        self._waiting.delay(own, topic, row)

    def forget(self, own: bytes) -> int:
        """Delete the delayed rows of an endpoint; return how many there were."""
        if own not in self._waiting.delayed.of:
            return 0
        found = [key for key, _ in self._outbox.scan(rows.DELAYED + own)]
        for key in found:
            self._outbox.write(key, None)
        self._waiting.delayed.forget(own)
        return len(found)

    def release(self) -> None:
        """Transmit the delayed envelopes of destinations that may be tried again; only these are looked at."""
        delayed, blocked = self._waiting.delayed, self._context.destinations.blocked
        for topic in [topic for topic in delayed.to if topic not in blocked]:
            waiting = delayed.to.pop(topic)
            while waiting and topic not in blocked and not self._context.budget.is_read():
                own = next(iter(waiting))
                del waiting[own]
                if own in delayed.of and own not in self.refused:  # else its turn comes in its lane
                    self._release_dialog(own)
            for own in waiting:
                delayed.wait(own, topic)

    def _release_dialog(self, own: bytes) -> None:
        active = self._endpoints.find(rows.other_side(own), "", "")
        if not active.exists:
            self._release_answers(own)
            return
        peer = active.endpoint.peer
        active.route(self._context.destinations.topic(peer), active.out_partition)
        count = self._taken_up(own, active.out_topic, peer)
        if count is not None:
            self._release(active, partition_of(active.out_key, count))

    def _taken_up(self, own: bytes, topic: str, service: str) -> int | None:
        """Return the partition count of a destination that may be tried; None when its envelopes have to wait on."""
        destinations = self._context.destinations
        if topic not in destinations.blocked:
            if (count := destinations.partitions(service)) is not None:
                return count
            destinations.block(topic, self._context.now)
        self._waiting.delayed.wait(own, topic)
        return None

    def _release(self, active: Active, destination: int) -> None:
        active.route(active.out_topic, destination)
        if active.endpoint.initiator and active.endpoint.acked == NONE:
            self.begin(active)
            self._endpoints.touch(active)
        prefix = prefix_of(active.endpoint)
        start = len(active.out_prefix())
        for key, row in list(self._outbox.scan(rows.DELAYED + active.identity)):
            kept = self._outbox.decoded(key, rows.decode_waiting, row)
            value = encode(replace(decode(kept.value), prefix=prefix))
            headers = [(HEADER_NAME, header_of(value, start))]
            self._outbox.produce((active.out_topic, destination, kept.key, value, headers))
            self._outbox.write(key, None)
        self._waiting.delayed.forget(active.identity)

    def _release_answers(self, own: bytes) -> None:
        """Transmit the delayed envelopes of a conversation that has no endpoint here (any more)."""
        for key, row in list(self._outbox.scan(rows.DELAYED + own)):
            kept = self._outbox.decoded(key, rows.decode_waiting, row)
            service = decode(kept.value).prefix.to_service
            count = self._taken_up(own, kept.topic, service)
            if count is None:
                return
            self.answer(service, count, kept.key, kept.value)
            self._outbox.write(key, None)
        self._waiting.delayed.forget(own)

    # -- refused for good -----------------------------------------------------------------------------------------

    def give_up(self, own: bytes, refusal: Refusal) -> None:
        """Have a dialog broken in its turn; the first reason stays."""
        self.refused.setdefault(own, refusal)

    def asked(self, own: bytes) -> None:
        """The dialog's lane has been told."""
        self.refused[own] = self.refused[own]._replace(asked=True)

    def take_refusal(self, own: bytes) -> Refusal:
        """Take out why a dialog is given up on: it is broken, or over, now."""
        return self.refused.pop(own)
