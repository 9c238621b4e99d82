"""What went over the wire: every numbered envelope of a direction once, and what came besides."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

from tests.chaos.checker import avro
from tests.chaos.checker.commands import Commands
from tests.chaos.checker.letters import Letters
from tests.chaos.checker.partitions import partition_of
from tests.chaos.checker.records import Position, Record
from tests.chaos.checker.topics import QUEUE, Topics
from tests.chaos.checker.verdict import Kind, Verdict


class Sent(NamedTuple):
    """One numbered envelope."""

    kind: str
    message_type: str
    content_type: str
    body: bytes
    position: Position

    def same(self, other: Sent) -> bool:
        """Whether two records say the same; where they stand does not matter."""
        return self[:-1] == other[:-1]


@dataclass(slots=True)
class Wire:
    """One direction of one dialog."""

    first: dict[int, Sent] = field(default_factory=dict)
    """By number, in the order in which numbers came first."""
    highest_ack: int = -1
    """The largest acknowledgement its envelopes carry."""
    accept_until: int = 0
    expires_at: int = 0
    errors: int = 0
    skipped: set[int] = field(default_factory=set)
    """Numbers of the other direction whose sender is told that its peer goes on without them."""


Direction = tuple[str, bool]
"""Conversation, and whether the envelopes go from the initiator to the target."""


class Envelopes:
    """All queues, by direction."""

    def __init__(self, topics: Topics, letters: Letters, commands: Commands, verdict: Verdict) -> None:
        self.wires: dict[Direction, Wire] = {}
        self.duplicates = 0
        self._topics, self._letters, self._commands, self._verdict = topics, letters, commands, verdict
        self._injected = topics.plan.injected
        for service in topics.services:
            self._read(service)

    def wire(self, conversation: str, from_initiator: bool) -> Wire:
        """What was sent in a direction."""
        return self.wires.get((conversation, from_initiator)) or Wire()

    def _read(self, service: str) -> None:
        count = self._topics.partitions(service)
        repeated: list[tuple[Direction, int, Sent]] = []
        for record in self._topics.of(service, QUEUE):
            fields = self._believable(service, count, record)
            if fields is None:
                self._letters.must_be_set_aside(record)
                continue
            if self._letters.took_aside(record.position):
                self._check_aside(record, fields)
                continue
            direction = str(UUID(bytes=fields["conversation_id"])), fields["from_initiator"]
            sent = self._take(direction, record, fields)
            if sent is not None:
                repeated.append((direction, fields["seq"], sent))
        for direction, number, sent in repeated:
            self._repeat(direction, number, sent)

    def _believable(self, service: str, count: int, record: Record) -> dict[str, Any] | None:
        """Decode an envelope that stands where it belongs."""
        if record.value is None or record.key is None:
            return None
        try:
            fields = avro.ENVELOPE.decode(record.value)
        except avro.Undecodable:
            return None
        if fields["to_service"] != service or not _possible(fields):
            return None
        if partition_of(record.key, count) != record.partition:
            return None
        begun = self._commands.begun.get(str(UUID(bytes=fields["conversation_id"])))
        if begun is None:
            return fields
        says = record.key.decode("utf-8", "replace"), fields["reply_key"], fields["contract"], fields["from_service"]
        there, back = (begun.target_key, begun.key), (begun.key, begun.target_key)
        if fields["from_initiator"]:
            return fields if says == (*there, begun.contract, begun.initiator) else None
        return fields if says == (*back, begun.contract, begun.target) else None

    def _check_aside(self, record: Record, fields: dict[str, Any]) -> None:
        """An injected record may be broken in a way fastavro does not see when it reads, but does not write either."""
        if record.position in self._injected and avro.ENVELOPE.encode(fields) == record.value:
            self._verdict.add(Kind.LETTER_UNFOUNDED, str(record.position), "set aside, though nothing is wrong with it")

    def _take(self, direction: Direction, record: Record, fields: dict[str, Any]) -> Sent | None:
        """Note an envelope; return it when its number came before."""
        wire = self.wires.setdefault(direction, Wire())
        injected = record.position in self._injected
        if not injected:
            wire.highest_ack = max(wire.highest_ack, fields["ack"])
            wire.accept_until = max(wire.accept_until, fields["accept_until"])
            wire.expires_at = fields["expires_at"]
            wire.errors += fields["kind"] == "ERROR"
            wire.skipped.update(fields["skipped"])
        number = fields["seq"]
        if number < 0:
            self.duplicates += injected
            return None
        sent = Sent(fields["kind"], fields["message_type"], fields["content_type"], fields["body"], record.position)
        if injected or number in wire.first:
            return sent
        wire.first[number] = sent
        return None

    def _repeat(self, direction: Direction, number: int, sent: Sent) -> None:
        self.duplicates += 1
        first = self.wires[direction].first.get(number)
        where = f"{direction[0]} {'to' if direction[1] else 'from'} the target, number {number}"
        if sent.position in self._injected:
            if first is None:
                self._verdict.add(Kind.SENT_BY_NOBODY, where, f"only injected, at {sent.position}")
        elif first is not None and not sent.same(first):
            self._verdict.add(Kind.NUMBER_TWICE, where, f"{first.position} and {sent.position} differ")
        else:
            self._verdict.add(Kind.SENT_TWICE, where, f"at {first and first.position} and {sent.position}")


GENERATIONS = 3
"""How many dialogs may replace one another."""


def _possible_origin(fields: dict[str, Any], origin: dict[str, Any] | None) -> bool:
    """Whether a message may say that it was sent first on this other dialog."""
    if origin is None or fields["kind"] != "MESSAGE" or not fields["from_initiator"]:
        return False
    known = 1 <= origin["generation"] <= GENERATIONS and len(origin["conversation_id"]) == 16
    return bool(known and origin["seq"] >= fields["seq"])


def _possible(fields: dict[str, Any]) -> bool:
    """Whether this version of the protocol knows what an envelope of this kind and with these fields means."""
    kind, number, extras = fields["kind"], fields["seq"], fields["extras"] or {}
    origin, fence = extras.get("origin"), extras.get("fence")
    if extras.get("seal") or fields["fragments"] != 1 or (fields["skipped"] and kind != "ACK"):
        return False
    if kind == "FENCE":
        return bool(fields["from_initiator"] and number == -1 and fields["code"] < 0 and not origin and not fence)
    if kind == "FENCED":
        says = fence and fence["accepted"] >= -1 and fence["transmitted"] >= -1
        return bool(not fields["from_initiator"] and number == -1 and says and not origin)
    if fence or (fields["extras"] and not _possible_origin(fields, origin)):
        return False
    if fields["kind"] in {"MESSAGE", "END"}:
        return bool(fields["seq"] >= 0)
    if fields["kind"] == "ERROR":
        return bool(fields["seq"] >= -1 and fields["code"])
    return fields["kind"] in {"ACK", "RESEND"} and fields["seq"] == -1
