"""What breaks in a chaos run of resends: the dialogs, and the errors with which each of them breaks."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from random import Random

from conversations.protocol.identifiers import RANDOM_BITS, uuid7
from tests.chaos.resend.services import HANDLED, SINK, SOURCE, TOLD, topic

BREAKS = (1, 1, 2, 2, 3, 3, 4)
"""How many times dialogs break. There is no fourth new dialog, so the last of four breaks leaves dead letters."""


class Break(StrEnum):
    """How the driver breaks a dialog, besides a lifetime that ends. Each error is of the class after which messages are sent again."""

    CLEANUP = "-8462, after a cleanup of the target"
    RESTORED = "-9719 at both sides"
    KEY_LOST = "-28052 at both sides"
    EXPIRED = "-8489 at both sides"


SIMULATED = {Break.RESTORED: -9719, Break.KEY_LOST: -28052, Break.EXPIRED: -8489}
"""Breaks by records on the wire: the causes of two of these errors do not exist yet."""


class Plan:
    """Drawn from a seed, except the time in the ids.

    Args:
        seed: decides everything.
        dialogs: number of dialogs.
        length: number of items of each dialog.
    """

    def __init__(self, seed: int, dialogs: int, length: int) -> None:
        random, now = Random(f"resend {seed}"), time.time_ns() // 1_000
        self.length = length
        self.ids = [str(uuid7(now, random.getrandbits(RANDOM_BITS))) for _ in range(dialogs)]
        self.breaks: dict[str, dict[int, Break]] = {}
        """By id of the first dialog: the numbers of the items after which it breaks, and how."""
        self.lifetimes: dict[str, timedelta] = {}
        """The lifetimes of first dialogs that end before all is said."""
        for name in self.ids:
            count = random.choice(BREAKS)
            if random.random() < 0.25:
                self.lifetimes[name] = timedelta(seconds=random.uniform(1.5, 6.0))
                count -= 1
            at = random.sample(range(length), min(count, length))
            if random.random() < 0.5:
                # There is time for a new dialog between two breaks, so that the second one breaks the new dialog.
                at = list(range(random.randrange(2), length, 3))[:count]
            self.breaks[name] = {number: random.choice(list(Break)) for number in at}

    def write(self, directory: Path, namespace: str) -> None:
        """Write ``plan.json`` for the checker."""
        plan = {
            "namespace": namespace, "services": [SOURCE, SINK], "told": topic(TOLD), "handled": topic(HANDLED),
            "dialogs": self.ids, "length": self.length,
        }  # fmt: skip
        (directory / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
