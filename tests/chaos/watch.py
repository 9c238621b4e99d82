"""How far the services are, read from their state topics: what is handled, which dialogs are over, what was read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import NamedTuple

from conversations.config import Kafka
from conversations.kafka.follow import Follower
from conversations.kafka.offsets import Place
from conversations.ports import Record
from conversations.protocol import rows
from conversations.protocol.endpoint import NEVER
from conversations.protocol.identifiers import uuid_text
from conversations.protocol.park_row import decode_park
from conversations.protocol.partition_row import decode_decided, decode_partition
from conversations.protocol.topics import COMMANDS, DECISIONS, QUEUE, STATE, service_topic
from tests.chaos.fates import MENDED
from tests.chaos.plan import Plan
from tests.chaos.services import LEDGER, TELLER


class Held(NamedTuple):
    """A dialog of the ledger's that an operator must decide about."""

    conversation: str
    ticket: int


class Off(NamedTuple):
    """A queue of the ledger's that is off."""

    partition: int
    since: int


class Watch:
    """Follows both state topics; a block."""

    def __init__(self, kafka: Kafka, plan: Plan) -> None:
        self._kafka, self._plan = kafka, plan
        self._services = {service_topic(kafka.namespace, service, STATE): service for service in (TELLER, LEDGER)}
        self._follower = Follower(kafka, list(self._services))
        self._known = set(plan.ids)
        self.states: dict[str, dict[str, tuple[int, str]]] = {TELLER: {}, LEDGER: {}}
        """Count and digest of every dialog's group."""
        self.closed: dict[str, set[bytes]] = {TELLER: set(), LEDGER: set()}
        self.owing: set[tuple[str, bytes]] = set()
        """Endpoints, by service, that owe an acknowledgement or are owed one."""
        self.read_to: dict[Place, int] = {}
        """Positions of queues and commands."""
        self.answered = 0
        """Entries with a receipt, of dialogs that do not end with an error."""
        self.news: list[Held | Off] = []
        """What waits for an operator since somebody looked here."""

    def close(self) -> None:
        """Stop following."""
        self._follower.close()

    def look(self, timeout: float) -> None:
        """Take what is new."""
        self._take(self._follower.poll(timeout))

    def to_the_end(self, patience: float) -> None:
        """Take everything there is now."""
        self._take(self._follower.to_the_end(patience))

    def _take(self, records: Iterable[Record]) -> None:
        newest = {(record.topic(), record.partition(), record.key() or b""): record.value() for record in records}
        for (topic, partition, key), value in newest.items():
            service = self._services[topic]
            if value is None:
                continue
            if key.startswith(b"G"):
                self._group(service, key, value)
            elif key.startswith(rows.ENDPOINT):
                self._endpoint(service, key[1:], value)
            elif key.startswith(rows.PARK):
                self._park(key[1:], value)
            elif key == rows.PARTITION:
                row = decode_partition(value)
                if row.off:
                    self.news.append(Off(partition, row.off_since))
                for kind, position in ((QUEUE, row.queue), (COMMANDS, row.commands)):
                    self.read_to[service_topic(self._kafka.namespace, service, kind), partition] = position

            elif key == rows.DECIDED:
                place = service_topic(self._kafka.namespace, service, DECISIONS), partition
                self.read_to[place] = decode_decided(value).position

    def _endpoint(self, service: str, name: bytes, value: bytes) -> None:
        if uuid_text(name[:16]) not in self._known:
            return  # of another plan: its rows stay in the topic until the broker compacts it
        self.owing.discard((service, name))
        if rows.is_tombstone(value):
            self.closed[service].add(name[:16])
            return
        endpoint, _ = rows.decode_endpoint(name, value, service)
        if endpoint.told != endpoint.inbound.accepted or endpoint.acked != endpoint.next_out - 1:
            self.owing.add((service, name))

    def _park(self, name: bytes, value: bytes) -> None:
        if uuid_text(name[:16]) not in self._known:
            return  # of another plan: its operators have decided
        row = decode_park(value)
        if row.due == NEVER:
            self.news.append(Held(uuid_text(name[:16]), row.ticket))

    def _group(self, service: str, key: bytes, value: bytes) -> None:
        name = key.partition(b"\0")[2].decode()
        state = rows.decode_group(value).state
        if name in self._known and state:
            plain = json.loads(state)
            if service == TELLER and name in self._plan.receipts:
                before, _ = self.states[service].get(name, (0, ""))
                self.answered += plain["count"] - before
            self.states[service][name] = plain["count"], plain["digest"]

    @property
    def over(self) -> int:
        """Dialogs that are closed on both sides."""
        return len(self.closed[TELLER] & self.closed[LEDGER])

    def done(self) -> bool:
        """Whether everything was answered and every dialog that was meant to end has ended on both sides."""
        return self.answered == self._plan.answerable and self.over == len(self._plan.closing)

    def differences(self) -> list[str]:
        """Compare every dialog's state on both sides with what the plan makes of it."""
        found = []
        for number, name in enumerate(self._plan.ids):
            if name not in self._plan.receipts:
                continue  # how far it came before its error, only the topics tell
            entries = receipts = ""
            for n, pad in self._handled(number):
                entries = sha256(f"{entries}{n}:{pad}".encode()).hexdigest()
                receipts = sha256(f"{receipts}{n}:{entries}".encode()).hexdigest()
            length = self._plan.receipts[name]
            for service, digest in ((LEDGER, entries), (TELLER, receipts)):
                state = self.states[service].get(name, (0, ""))
                if state != (length, digest):
                    found.append(f"dialog {name}: {service} has {state}, should be {(length, digest)}")
        return found

    def _handled(self, number: int) -> Iterator[tuple[int, str]]:
        """Numbers and texts of the entries of a dialog that are handled in the end."""
        fate = self._plan.fates.get(self._plan.ids[number])
        for n, pad in enumerate(self._plan.pads(number)):
            if fate is None or fate.n != n:
                yield n, pad
            elif not fate.skipped:
                yield n, MENDED if fate.edited else pad
