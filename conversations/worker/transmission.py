"""Transmission: an encoded envelope of this side goes to the queue of its peer, or waits for that queue.

If the destination takes records, an envelope goes into the next transaction. If not, the envelope becomes a **delayed row** in that
transaction. Then all later envelopes of its dialog become rows as well, even if the destination takes records again. So they cannot
overtake the delayed envelope.

    transmit --the destination takes records--> a record of the next transaction
        |                                          ^
        '--blocked, or the dialog has such rows--> a delayed row --release, the destination is tried again

If a destination refuses one record for good, the dialog of this record is given up on. The dialog is in ``refused`` until the turn
of its lane (``undelivered``). Its delayed rows are not released any more.

A delayed envelope gets a new prefix when it is released. The prefix has a deadline: the first message of the dialog
must arrive before it. The period up to this deadline begins when the envelope is released.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from conversations.ports import Headers
from conversations.protocol import rows
from conversations.protocol.codes import SystemCode
from conversations.protocol.endpoint import prefix_of
from conversations.protocol.envelope import (
    Envelope,
    Kind,
    decode,
    encode,
    encode_long,
    encode_message,
    encode_prefix,
    message_run,
)
from conversations.protocol.fragments import last_number
from conversations.protocol.referred import Referred, account_of, body_of, following, refers, row_of
from conversations.protocol.returning import Returning, decode_returning, encode_returning
from conversations.protocol.sequencing import NONE
from conversations.protocol.topics import partition_of
from conversations.protocol.waiting_row import WaitingRow, decode_waiting, encode_waiting
from conversations.tracing import headers_of
from conversations.worker.active import Active, Endpoints
from conversations.worker.carried import Carried
from conversations.worker.context import Context
from conversations.worker.outbox import Outbox
from conversations.worker.piece_rows import Pieces
from conversations.worker.successions import Successions
from conversations.worker.unacknowledged import Unacknowledged, is_sequenced
from conversations.worker.waiting_rows import Waiting
from conversations.worker.wires import Way

RELEASE = 5_000
"""Microseconds of a step in which delayed envelopes are released. A longer time would hold up every other dialog of the worker."""
SLICE = 64
"""Number of envelopes of one dialog that are released between two looks at the budget of the step."""


class Refusal(NamedTuple):
    """The reason why a dialog is given up on: its destination refuses one of its envelopes for good."""

    topic: str
    code: SystemCode
    why: str
    asked: bool = False
    """True if the dialog's lane already has an item for the refusal."""


class Transmission:
    """Sends the envelopes of one partition, and keeps an envelope while its destination takes no records."""

    __slots__ = (
        "_context",
        "_endpoints",
        "_outbox",
        "_waiting",
        "carried",
        "fragment_bytes",
        "pieces",
        "refused",
        "returning",
        "successions",
        "unacknowledged",
    )

    def __init__(
        self, context: Context, outbox: Outbox, waiting: Waiting, endpoints: Endpoints, unacknowledged: Unacknowledged,
        successions: Successions,
    ) -> None:  # fmt: skip
        self._context = context
        self._outbox = outbox
        self._waiting = waiting
        self._endpoints = endpoints
        self.unacknowledged = unacknowledged
        self.successions = successions
        self.refused: dict[bytes, Refusal] = {}
        """Dialogs that must be broken because an envelope is refused for good; their envelopes are delayed rows."""
        self.returning: dict[bytes, Returning] = {}
        """Ended dialogs whose messages become dead letters, a part in each step (``returns``). What is delayed of them is not transmitted meanwhile."""
        self.fragment_bytes = context.settings.limits.fragment_bytes
        """The limit ``fragment_bytes``, as a number that compiled code reads directly."""
        self.carried = Carried(outbox)
        self.pieces = Pieces(outbox)

    def begin(self, active: Active) -> None:
        """Set the deadline of a dialog's first message, because the message is transmitted now.

        A first message that arrives after its deadline does not create an endpoint at the peer.
        """
        endpoint, now = active.endpoint, self._context.now
        self.look_far(active)
        # What is transmitted again has the same deadline. So the target's tombstone outlives each copy of the first message.
        within = self._context.periods.start_within if endpoint.far is None else self._context.periods.lifetime
        endpoint.may_start_until(now + min(within, endpoint.expires_at - now))
        active.forget_encoded()

    def look_far(self, active: Active) -> None:
        """If envelopes to the peer of a new endpoint may be lost, keep what this side transmits, and transmit it again until it is acknowledged."""
        endpoint = active.endpoint
        if self._context.destinations.may_lose(endpoint.peer):
            endpoint.cross()
            endpoint.keep_sent(True)
            active.forget_encoded()

    def transmit(self, active: Active, value: bytes, number: int = NONE, more: int = 0) -> None:
        """Append an encoded envelope to the peer's queue, or keep it as a row while the queue takes no records.

        ``number`` is the number of a MESSAGE or END that is transmitted for the first time; ``more`` fragments of its message come after it.
        """
        if active.endpoint.far is not None:
            self._follow_route(active)
        if active.way.partition < 0 and not self._route(active):
            self.delay(active.identity, active.way.topic, active.out_key, value, self.carried.trace)
            return
        topic, partition, wire = active.way
        if self._context.destinations.blocked or self._waiting.delayed.of or self.successions.held_back:
            blocked = topic in self._context.destinations.blocked
            blocked = blocked or active.identity in self.successions.held_back
            if blocked or active.identity in self._waiting.delayed.of:
                self.delay(active.identity, topic, active.out_key, value, self.carried.trace)
                return
        if more and not self._context.budget.transmits(len(value)):
            self.delay(active.identity, topic, active.out_key, value, self.carried.trace)
            return
        if number != NONE and active.endpoint.resends:
            tail = value[len(active.out or active.out_prefix()) :]
            self.unacknowledged.keep(active, number, tail, number + more)
        if wire is not None:
            self._produce(active.way, active.out_key, value, self.carried.trace)
            return
        headers = headers_of(self.carried.trace) if self.carried.trace else None
        self._outbox.produce((topic, partition, active.out_key, value, headers))

    def _produce(self, way: Way, key: bytes, value: bytes, trace: bytes) -> None:
        """Append an envelope with the next transaction, as its way demands."""
        headers: Headers = []
        if way.wire is not None:
            value, headers = way.wire.dress(key, value)
        if trace:
            headers += headers_of(trace)
        self._outbox.produce((way.topic, way.partition, key, value, headers or None))

    def _follow_route(self, active: Active) -> None:
        """Find the partition anew, if the route of the peer has changed.

        What is on the old way may arrive later than what goes the new way. The peer holds that, and drops repetitions.
        """
        destinations, peer = self._context.destinations, active.endpoint.peer
        destinations.partitions(peer)  # looks at the catalog from time to time
        if active.way.partition >= 0 and active.way.topic != destinations.topic(peer):
            active.route(destinations.way(peer))

    def _route(self, active: Active) -> bool:
        """Find the partition of the peer's queue; return False while the queue is blocked or its partition count is not known."""
        destinations, endpoint = self._context.destinations, active.endpoint
        way = destinations.way(endpoint.peer)
        active.route(way)
        if way.topic in destinations.blocked:
            return False
        count = destinations.partitions(endpoint.peer)
        if count is None:
            destinations.block(way.topic, self._context.now)
            return False
        active.route(destinations.way(endpoint.peer, partition_of(active.out_key, count)))
        return True

    def answer(self, service: str, count: int, key: bytes, value: bytes) -> None:
        """Append an envelope for a conversation that has no endpoint here; no acknowledgement is expected."""
        way = self._context.destinations.way(service, partition_of(key, count))
        self._produce(way, key, value, b"")

    # -- delayed rows -----------------------------------------------------------------------------------------

    def delay(self, own: bytes, topic: str, key: bytes, value: bytes, trace: bytes, *, in_front: bool = False) -> None:
        """Keep an envelope as a row until its destination takes records again, with its trace context.

        ``in_front``: it comes before what is delayed of its dialog already.
        """
        row = encode_waiting(WaitingRow(topic, NONE, 0, accepted=False, attempts=0, key=key, header=trace, value=value))
        self._waiting.delay(own, row, in_front=in_front)

    def refer(self, active: Active, envelope: Envelope, body: Referred) -> None:
        """Let a delayed row stand for all fragments of a message. ``envelope`` is the first one without its body; the next steps transmit them."""
        if active.endpoint.far is not None:
            self._follow_route(active)
        if active.way.partition < 0:
            self._route(active)
        row = row_of(active.way.topic, active.out_key, self.carried.trace, envelope, body)
        self._waiting.delay(active.identity, encode_waiting(row))
        self.pieces.refer(body.command_id, self._context.now + self._context.periods.command_life)

    def delayed_in(self, kept: WaitingRow) -> Iterator[tuple[Envelope, bytes]]:
        """Yield the envelopes of a delayed row, each with its bytes. A row that refers to a body stands for several."""
        envelope = decode(kept.value)
        if not refers(kept):
            yield envelope, kept.value
            return
        body = body_of(kept, envelope)
        for it in following(envelope):
            whole = replace(it, body=self.pieces.part(body.command_id, *body.part(it.fragment)))
            yield whole, encode(whole)

    def drop(self, own: bytes, key: bytes, row: bytes) -> int:
        """Delete a delayed row; return the number of its envelopes."""
        kept = self._outbox.decoded(key, decode_waiting, row)
        self._outbox.write(key, None)
        self._waiting.delayed.count(own, -account_of(row)[1])
        if not refers(kept):
            return 1
        envelope = decode(kept.value)
        self.pieces.release(envelope.body)
        return envelope.fragments - envelope.fragment

    def forget(self, own: bytes, *, answers: bool = False) -> int:
        """Delete the delayed messages of an endpoint, and its END; return their number.

        An answer stays, because the peer waits for it: for example an ERROR of this side that broke the dialog before. With ``answers``, the
        answers are deleted, too.
        """
        if own not in self._waiting.delayed.of:
            return 0
        count = 0
        for key, row in self._outbox.scan(rows.DELAYED + own):
            if answers or is_sequenced(decode(self._outbox.decoded(key, decode_waiting, row).value)):
                count += self.drop(own, key, row)
        return count

    def releases(self) -> bool:
        """Return True if there are delayed envelopes that may be transmitted now."""
        delayed = self._waiting.delayed.to
        return bool(delayed) and not delayed.keys() <= self._context.destinations.blocked.keys()

    def release(self, time: int) -> None:
        """Transmit delayed envelopes to the destinations that are not blocked, for ``time`` microseconds, and as the step's budget allows."""
        delayed, blocked, budget = self._waiting.delayed, self._context.destinations.blocked, self._context.budget
        until = budget.after(time)
        for topic in [topic for topic in delayed.to if topic not in blocked]:
            waiting = delayed.to[topic]
            for _ in range(len(waiting)):
                if not waiting or topic in blocked or budget.is_read(until):
                    break
                own, _ = waiting.popitem(last=False)
                if own in delayed.of and not self._stays(own):
                    self._release_dialog(own, until)
            if not waiting:
                del delayed.to[topic]

    def _stays(self, own: bytes) -> bool:
        """Return True if a dialog is broken in its lane, waits for the dialogs before it, or is over and its messages come back."""
        return own in self.refused or own in self.successions.held_back or own in self.returning

    def let_go(self, own: bytes) -> None:
        """Let the delayed envelopes of an endpoint go, because the endpoint is not held back any more."""
        if own in self._waiting.delayed.of:
            active = self._endpoints.find(rows.other_side(own), "", "")
            self._waiting.delayed.wait(own, self._context.destinations.topic(active.endpoint.peer))

    def _release_dialog(self, own: bytes, until: int) -> None:
        active = self._endpoints.find(rows.other_side(own), "", "")
        if not active.exists:
            self._release_answers(own)
            return
        peer = active.endpoint.peer
        active.route(self._context.destinations.way(peer, active.way.partition))
        count = self._taken_up(own, active.way.topic, peer)
        if count is not None:
            self._release(active, partition_of(active.out_key, count), until)

    def _taken_up(self, own: bytes, topic: str, service: str) -> int | None:
        """Return the partition count of a destination that may be tried; None if the envelopes must wait longer."""
        destinations = self._context.destinations
        if topic not in destinations.blocked:
            if (count := destinations.partitions(service)) is not None:
                return count
            destinations.block(topic, self._context.now)
        self._waiting.delayed.wait(own, topic)
        return None

    def _release(self, active: Active, destination: int, until: int) -> None:
        active.route(self._context.destinations.way(active.endpoint.peer, destination))
        if active.endpoint.initiator and active.endpoint.acked == NONE and self._keeps_first(active.identity):
            self.begin(active)
        self._endpoints.touch(active)
        for at, (key, row) in enumerate(self._outbox.scan(rows.DELAYED + active.identity), 1):
            if not self._release_row(active, key, row) or (at % SLICE == 0 and self._context.budget.is_read(until)):
                break
        if active.identity in self._waiting.delayed.of:
            # Later envelopes of the dialog stay behind these rows. A later step goes on with them, after other dialogs.
            self._waiting.delayed.wait(active.identity, active.way.topic)

    def _release_row(self, active: Active, key: bytes, row: bytes) -> bool:
        """Transmit a delayed envelope. Return False if it is a fragment that must wait for the next step."""
        kept = self._outbox.decoded(key, decode_waiting, row)
        envelope = decode(kept.value)
        if refers(kept):
            return self._release_referred(active, key, row, kept)
        if envelope.fragments > 1 and not self._context.budget.transmits(len(kept.value)):
            return False
        self._release_one(active, envelope, kept)
        self._outbox.write(key, None)
        self._waiting.delayed.count(active.identity, -len(row))
        return True

    def _release_one(self, active: Active, envelope: Envelope, kept: WaitingRow) -> None:
        endpoint, numbered = active.endpoint, is_sequenced(envelope)
        is_kept = numbered and self.unacknowledged.keeps(active, envelope.seq)  # and its queue has refused it since
        if not is_kept and endpoint.resends and envelope.kind is Kind.MESSAGE and envelope.fragment == 0:
            self.unacknowledged.make_room(active, envelope.seq, len(envelope.body) * envelope.fragments)
        said, prefix = prefix_of(endpoint), active.out_prefix()
        if is_kept and not said.resends:
            said = replace(said, resends=True)
            prefix = encode_prefix(said)
        if (
            envelope.fragments > 1 and envelope.extras is None
        ):  # one run of bytes, because fastavro is slow with large bodies
            run = message_run(envelope.message_type, envelope.content_type, envelope.fragment, envelope.fragments)
            value = encode_message(
                prefix, envelope.seq, envelope.ack, encode_long(envelope.sent_at), run, envelope.body
            )
        else:
            value = encode(replace(envelope, prefix=said))
        start = len(prefix)
        if numbered and (endpoint.resends or is_kept):  # what is kept counts once, and its retransmission must begin
            self.unacknowledged.keep(active, envelope.seq, value[start:], last_number(envelope))
        self._produce(active.way, kept.key, value, kept.header)

    def _release_referred(self, active: Active, key: bytes, row: bytes, kept: WaitingRow) -> bool:
        """Transmit some fragments of a row that refers to a body. Return False if others wait for the next step: the row stands for them."""
        first = decode(kept.value)
        body = body_of(kept, first)
        for it in following(first):
            begin, end = body.part(it.fragment)
            if not self._context.budget.transmits(end - begin):
                left = encode_waiting(row_of(kept.topic, kept.key, kept.header, it, body))
                self._outbox.write(key, left)
                self._waiting.delayed.count(active.identity, len(left) - len(row))
                return False
            self._release_one(active, replace(it, body=self.pieces.part(body.command_id, begin, end)), kept)
        self.drop(active.identity, key, row)
        return True

    def _keeps_first(self, own: bytes) -> bool:
        """Return True if the first message of a dialog is among its delayed envelopes."""
        return any(envelope.seq == 0 for _, _, envelope in self._waiting.delayed_rows(own, SLICE))

    def _release_answers(self, own: bytes) -> None:
        """Transmit the delayed envelopes of a conversation that has no endpoint here (any more)."""
        for key, row in self._outbox.scan(rows.DELAYED + own):
            kept = self._outbox.decoded(key, decode_waiting, row)
            service = decode(kept.value).prefix.to_service
            count = self._taken_up(own, kept.topic, service)
            if count is None:
                return
            self.answer(service, count, kept.key, kept.value)
            self._outbox.write(key, None)
        self._waiting.delayed.forget(own)

    # -- refused for good -----------------------------------------------------------------------------------------

    def give_up(self, own: bytes, refusal: Refusal) -> None:
        """Note that a dialog must be broken when its lane has its turn. If the dialog has a reason already, this reason stays."""
        self.refused.setdefault(own, refusal)

    def asked(self, own: bytes) -> None:
        """Note that the dialog's lane has an item for the refusal."""
        self.refused[own] = self.refused[own]._replace(asked=True)

    def take_refusal(self, own: bytes) -> Refusal:
        """Remove and return the reason why a dialog is given up on: the dialog is broken now, or is over already."""
        return self.refused.pop(own)

    # -- back to this side ----------------------------------------------------------------------------------------

    def restore(self) -> None:
        """Find the ended dialogs whose messages had not all come back before a restart."""
        for key, row in self._outbox.store.scan(rows.RETURNING):
            self.returning[key[1:]] = self._outbox.decoded(key, decode_returning, row)

    def return_later(self, own: bytes, row: Returning) -> None:
        """Note that a further part of an ended dialog's messages must come back."""
        self.returning[own] = row
        self._outbox.write(rows.RETURNING + own, encode_returning(row))

    def has_returned(self, own: bytes, topic: str) -> None:
        """Note that all messages of an ended dialog have come back. What else is delayed of it may go now."""
        if self.returning.pop(own, None) is not None:
            self._outbox.write(rows.RETURNING + own, None)
            if own in self._waiting.delayed.of:
                self._waiting.delayed.wait(own, topic)


def release_all(transmissions: Iterable[Transmission]) -> None:
    """Let the partitions of a worker share the time in which a step releases delayed envelopes."""
    releasing = [transmission for transmission in transmissions if transmission.releases()]
    for transmission in releasing:
        transmission.release(RELEASE // len(releasing))
