"""What clients asked for: the commands of a dialog in the order of the log, each counted once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

from tests.chaos.checker import avro
from tests.chaos.checker.letters import Letters
from tests.chaos.checker.partitions import partition_of
from tests.chaos.checker.records import Position, Record
from tests.chaos.checker.topics import COMMANDS, DECISIONS, Topics
from tests.chaos.checker.verdict import Kind, Verdict

_OPERATION = len("conversations.")
OF_OPERATORS = ("Tick", "Resolve", "Switch")
"""Operations that say nothing on a dialog; what they cause is seen in the letters and the rows."""


OF_DECISIONS = ("Resolve", "Switch", "Settle", "Cleanup", "Resend", "Report")
"""Operations that only operators ask for, through the topic of decisions."""


class Said(NamedTuple):
    """One message a client asked to be sent."""

    message_type: str
    content_type: str
    body: bytes
    position: Position


@dataclass(slots=True)
class Begun:
    """What the commands of one dialog amount to."""

    key: str
    target_key: str
    contract: str
    target: str
    initiator: str
    sends: list[Said] = field(default_factory=list)
    ends: bool = False
    """A client asked for the end."""
    refused: dict[str, int] = field(default_factory=dict)
    """Messages of commands that were refused, by the commands' keys."""


class Commands:
    """All commands, by dialog."""

    def __init__(self, topics: Topics, letters: Letters, verdict: Verdict) -> None:
        self.begun: dict[str, Begun] = {}
        self.repeated = 0
        """Commands that had taken effect before."""
        self.keys: dict[tuple[str, int], int] = {}
        """How many commands of each service and partition must be remembered."""
        self.first, self.last = 1 << 62, 0
        """Between when commands were issued, microseconds."""
        self._ticks: set[Position] = set()
        self._topics, self._letters, self._verdict = topics, letters, verdict
        self._seen: set[tuple[object, ...]] = set()
        for service in topics.services:
            for kind in (COMMANDS, DECISIONS):
                self._read(service, kind)

    def _read(self, service: str, kind: str) -> None:
        count = self._topics.partitions(service)
        strayed: list[Record] = []
        arrived: set[tuple[bytes | None, bytes | None]] = set()
        for record in self._topics.of(service, kind):
            fields = self._decode(record)
            if fields is None:
                self._letters.must_be_set_aside(record)
            elif (kind == DECISIONS) is not any(name[_OPERATION:] in OF_DECISIONS for name, _ in fields["operations"]):
                self._verdict.add(Kind.UNBELIEVABLE, str(record.position), "a command of the other topic")
            elif partition_of(record.key or b"", count) != record.partition:
                strayed.append(record)
            else:
                arrived.add((record.key, record.value))
                if not self._letters.took_aside(record.position):
                    self._take(service, record, fields)
        for record in strayed:
            if record.position not in self._topics.plan.injected:
                self._verdict.add(Kind.WRONG_PARTITION, str(record.position), "a command nobody misrouted")
            if (record.key, record.value) not in arrived and not self._letters.took_aside(record.position):
                self._verdict.add(Kind.COMMAND_LOST, str(record.position), "misrouted, and not forwarded")

    @staticmethod
    def _decode(record: Record) -> dict[str, Any] | None:
        if record.value is None or record.key is None:
            return None
        try:
            fields = avro.COMMAND.decode(record.value)
        except avro.Undecodable:
            return None
        return fields if fields["key"].encode() == record.key and fields["operations"] else None

    def _take(self, service: str, record: Record, fields: dict[str, Any]) -> None:
        operations = [(name[_OPERATION:], values) for name, values in fields["operations"]]
        if all(name in OF_OPERATORS for name, _ in operations):
            if all(name == "Tick" for name, _ in operations):
                self._ticks.add(record.position)
            return
        conversation = str(UUID(bytes=fields["conversation_id"]))
        side, key = fields["from_initiator"], fields["idempotency_key"]
        begins = operations[0][0] == "Begin"
        if self._letters.of_command(record.position):
            self._refuse(conversation, key, sum(name == "Send" for name, _ in operations))
            return  # nothing of it happened, and the same again is another try
        if self._repeats((conversation, side, begins, key)):
            self.repeated += 1
            return
        self._note(service, record.partition, begins + bool(key), fields["issued_at"])
        if begins:
            begin = operations[0][1]
            self.begun[conversation] = Begun(
                fields["key"], begin["target_key"] or fields["key"], begin["contract"], begin["to_service"], service
            )
        begun = self.begun.get(conversation)
        if begun is None:
            self._verdict.add(Kind.COMMAND_LOST, conversation, f"no Begin before the command at {record.position}")
            return
        for name, values in operations:
            if name == "Send":
                said = Said(values["message_type"], values["content_type"], values["body"], record.position)
                begun.sends.append(said)
            elif name == "End":
                begun.ends = True

    def are_done(self, service: str, partition: int, position: int) -> bool:
        """Say whether only ticks are left: a worker that stops may ask for one with its last transaction."""
        left = (it for it in self._topics.of(service, COMMANDS) if it.partition == partition and it.offset >= position)
        return all(it.position in self._ticks for it in left)

    def _refuse(self, conversation: str, key: str, messages: int) -> None:
        begun = self.begun.get(conversation)
        if begun is not None and messages:
            begun.refused[key] = messages

    def _repeats(self, name: tuple[str, bool, bool, str]) -> bool:
        """Say whether a command took effect before, and remember it."""
        conversation, side, begins, key = name
        names = [(conversation, side, "begin")] * begins + [(conversation, side, "key", key)] * bool(key)
        repeats = any(name in self._seen for name in names)
        self._seen.update(names)
        return repeats

    def _note(self, service: str, partition: int, rows: int, issued_at: int) -> None:
        self.keys[service, partition] = self.keys.get((service, partition), 0) + rows
        self.first, self.last = min(self.first, issued_at), max(self.last, issued_at)
