"""What a chaos run will say: dialogs, their entries, which of them end; and the account of the records put on the wire."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from random import Random

from conversations.kafka.offsets import Place
from conversations.protocol.identifiers import RANDOM_BITS, uuid7
from tests.chaos.fates import Fate, draw
from tests.chaos.services import LEDGER, TELLER, is_unwell

OPEN = 0.05
"""Share of the dialogs that are never ended."""
BLOCK = 12
"""Entries in one command at most."""
ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789 .,:;{}[]\"'\\/äöüßéλЖ中😀\n\t"
LONG_PAD, RARELY = 8_000, 0.0005


@dataclass
class Injected:
    """Records put on the wire that no service has sent, by kind; of each: topic, partition, offset."""

    places: dict[str, list[tuple[Place, int]]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, kind: str, place: Place, offset: int) -> None:
        """Note a record that Kafka has confirmed."""
        with self.lock:
            self.places.setdefault(kind, []).append((place, offset))

    def count(self, kind: str) -> int:
        """How many records of a kind there are."""
        with self.lock:
            return len(self.places.get(kind, ()))

    def farthest(self) -> dict[Place, int]:
        """The last injected record of each partition."""
        found: dict[Place, int] = {}
        with self.lock:
            for places in self.places.values():
                for place, offset in places:
                    found[place] = max(found.get(place, -1), offset)
        return found

    def plain(self) -> dict[str, dict[str, object]]:
        """As JSON."""
        with self.lock:
            return {
                kind: {"count": len(places), "where": [[*place, offset] for place, offset in places]}
                for kind, places in self.places.items()
            }


@dataclass(frozen=True)
class Block:
    """Entries of one command: of which dialog, from which number to which."""

    dialog: int
    first: int
    last: int
    """Not included."""


class Plan:
    """Drawn from a seed, except the time in the dialogs' ids.

    Args:
        seed: decides everything.
        messages: entries and receipts together.
        dialogs: how many dialogs share them.
        poison: share of the dialogs that hold an entry which fails as its fate says.
    """

    def __init__(self, seed: int, messages: int, dialogs: int, namespace: str, partitions: int, poison: float) -> None:
        self.seed, self.namespace, self.partitions = seed, namespace, partitions
        random = Random(f"plan {seed}")
        now = time.time_ns() // 1_000
        self.ids = [str(uuid7(now, random.getrandbits(RANDOM_BITS))) for _ in range(dialogs)]
        self.lengths = _lengths(random, messages // 2, dialogs)
        self.ends = [random.random() >= OPEN for _ in self.ids]
        self.blocks = self._blocks(random)
        self.fates = self._fates(Random(f"fates {seed}"), poison)
        self.ends = [ends and not self._unanswered_at_last(place) for place, ends in enumerate(self.ends)]

    @property
    def entries(self) -> int:
        """Entries of all dialogs."""
        return sum(self.lengths)

    @cached_property
    def receipts(self) -> dict[str, int]:
        """How many receipts each dialog will have; one that ends with an error need not have any."""
        return {
            name: length - (fate is not None and fate.skipped)
            for name, length in zip(self.ids, self.lengths, strict=True)
            if (fate := self.fates.get(name)) is None or not fate.ends
        }

    @cached_property
    def answerable(self) -> int:
        """Entries that will have a receipt for sure."""
        return sum(self.receipts.values())

    @cached_property
    def closing(self) -> set[str]:
        """Dialogs that will be over, in agreement or not."""
        ends = {name for name, ends in zip(self.ids, self.ends, strict=True) if ends}
        return ends | {name for name, fate in self.fates.items() if fate.ends}

    def _unanswered_at_last(self, place: int) -> bool:
        """Say whether a dialog's last entry is skipped: all its receipts may be there, and end it, before that is sent."""
        fate = self.fates.get(self.ids[place])
        return fate is not None and fate.skipped and fate.n == self.lengths[place] - 1

    def _fates(self, random: Random, poison: float) -> dict[str, Fate]:
        sick = {name: length for name, length in zip(self.ids, self.lengths, strict=True) if random.random() < poison}
        return {name: draw(random, [n for n in range(length) if not is_unwell(n)]) for name, length in sick.items()}

    def pads(self, dialog: int) -> list[str]:
        """Text of each entry of a dialog."""
        random = Random(f"pads {self.seed} {dialog}")
        return [_pad(random) for _ in range(self.lengths[dialog])]

    def _blocks(self, random: Random) -> list[Block]:
        """Cut every dialog into commands, and mix the dialogs."""
        order = [dialog for dialog, length in enumerate(self.lengths) for _ in range(length)]
        random.shuffle(order)
        said = [0] * len(self.lengths)
        blocks = []
        for dialog in order:
            first, length = said[dialog], self.lengths[dialog]
            if first < length:
                said[dialog] = min(first + random.randint(1, BLOCK), length)
                blocks.append(Block(dialog, first, said[dialog]))
        return blocks

    def write(self, directory: Path, injected: Injected) -> None:
        """Write ``plan.json``, whole or not at all."""
        plan = {
            "namespace": self.namespace,
            "seed": self.seed,
            "partitions": self.partitions,
            "services": {"initiator": TELLER, "target": LEDGER},
            "dialogs": dict(zip(self.ids, self.lengths, strict=True)),
            "ends": sorted(self.closing & self.receipts.keys()),
            "receipts": self.receipts,
            "fates": {dialog: fate.plain() for dialog, fate in self.fates.items()},
            "faults": injected.plain(),
        }
        draft = directory / "plan.json.draft"
        draft.write_text(json.dumps(plan), encoding="utf-8")
        draft.replace(directory / "plan.json")


def _lengths(random: Random, entries: int, dialogs: int) -> list[int]:
    """Share entries out: every dialog gets one at least, some several times as many as others."""
    weights = [random.choice((1, 2, 2, 3, 6)) for _ in range(dialogs)]
    extra: Sequence[int] = random.choices(range(dialogs), weights, k=entries - dialogs)
    lengths = [1] * dialogs
    for dialog in extra:
        lengths[dialog] += 1
    return lengths


def _pad(random: Random) -> str:
    length = LONG_PAD if random.random() < RARELY else random.randint(0, 60)
    return "".join(random.choices(ALPHABET, k=length))
