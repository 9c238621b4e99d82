"""What a soak says, burst by burst: dialogs of a chaos plan, with messages that fail, and dialogs of every other kind."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from pathlib import Path
from random import Random

from conversations import Client, Kafka
from conversations.config import Periods
from conversations.protocol.identifiers import RANDOM_BITS, uuid7
from tests.chaos.checker import avro
from tests.chaos.checker.records import Place
from tests.chaos.plan import Injected, Plan
from tests.soak.services import ASKER, CODES, DESK, KINDS, UNKNOWN, Ask, asker

EXPIRES = timedelta(seconds=2)
POISON = 0.25


class Story:
    """Everything that was said since the beginning.

    Args:
        seed: decides what is said.
        divided_by: by how much all periods are shortened.
    """

    def __init__(self, seed: int, kafka: Kafka, partitions: int, records: Path, divided_by: float) -> None:
        self._seed, self._kafka, self._partitions = seed, kafka, partitions
        self._records, self._divided_by = records, divided_by
        self._plans: list[Plan] = []
        self.kinds: dict[str, str] = {}
        """Dialogs of other kinds, and which."""
        self.messages = 0

    def burst(self, messages: int, dialogs: int) -> Plan:
        """Plan another burst, and let the services know of it; all its dialogs are meant to be over soon."""
        plan = Plan(
            self._seed * 1_000 + len(self._plans), messages, dialogs, self._kafka.namespace, self._partitions, POISON
        )
        for place, name in enumerate(plan.ids):
            if plan._unanswered_at_last(place):
                del plan.fates[name]
        plan.ends = [True] * len(plan.ids)
        self._plans.append(plan)
        self.messages += messages
        self.write()
        return plan

    def write(self) -> None:
        """Write the plans of all bursts as one."""
        merged: dict[str, object] = {}
        for plan in self._plans:
            plan.write(self._records, Injected())
            found = json.loads((self._records / "plan.json").read_text(encoding="utf-8"))
            for name, value in found.items():
                before = merged.get(name)
                if isinstance(before, dict) and name != "services":
                    merged[name] = {**before, **value}
                elif isinstance(before, list):
                    merged[name] = [*before, *value]
                else:
                    merged[name] = value
        merged["divided_by"] = self._divided_by
        draft = self._records / "plan.json.draft"
        draft.write_text(json.dumps(merged), encoding="utf-8")
        draft.replace(self._records / "plan.json")

    def others(self, count: int, random: Random, periods: Periods) -> None:
        """Begin dialogs of every other kind."""
        with Client(asker(), self._kafka, timeout=timedelta(seconds=60), periods=periods) as client:
            for n in range(count):
                kind = random.choice(sorted(CODES))
                name = str(uuid7(time.time_ns() // 1_000, random.getrandbits(RANDOM_BITS)))
                contract = UNKNOWN if kind == "refuse" else KINDS
                lifetime = EXPIRES if kind == "expire" else None
                with client.begin_dialog(DESK, contract, id=name, lifetime=lifetime) as dialog:
                    dialog.send(Ask(kind=kind, n=n))
                self.kinds[name] = kind


class Ends:
    """How the dialogs of other kinds ended at the side that began them, as its state topic tells."""

    def __init__(self, namespace: str) -> None:
        self._topic = f"{namespace}.{ASKER}.state"
        self.codes: dict[str, int] = {}
        """Of those that are over; 0: in agreement."""

    def take(self, place: Place, key: bytes, value: bytes | None) -> None:
        """Look at a row."""
        if place[0] == self._topic and key[:1] == b"E" and value is not None and value.startswith(avro.TOMBSTONE.head):
            fields = avro.TOMBSTONE.decode(value)
            self.codes[key[1:17].hex()] = int(fields["code"])

    def wrong(self, kinds: dict[str, str]) -> list[str]:
        """Say which ended otherwise than their kind says, or not at all."""
        found = []
        for name, kind in kinds.items():
            code = self.codes.get(name.replace("-", ""))
            if code != CODES[kind]:
                found.append(f"dialog {name} of kind {kind} ended with {code}, should be {CODES[kind]}")
        return found

    def over(self, kinds: dict[str, str]) -> int:
        """How many of them are over."""
        return sum(name.replace("-", "") in self.codes for name in kinds)
