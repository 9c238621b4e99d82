"""How far a chaos run of two clusters is, by the notes of both services."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from time import monotonic

from conversations.config import Kafka
from conversations.kafka.follow import Follower


class Watch:
    """Follows the notes on both clusters; a block."""

    def __init__(self, clusters: Mapping[str, Kafka], topic: str, dialogs: int, length: int) -> None:
        self._stack = contextlib.ExitStack()
        self._followers = [self._stack.enter_context(Follower(kafka, [topic])) for kafka in clusters.values()]
        self._dialogs, self._messages = dialogs, 2 * dialogs * length
        self._handled: set[tuple[str, str, int]] = set()
        self._over: set[str] = set()
        self.moved_at = monotonic()

    def close(self) -> None:
        """Stop following."""
        self._stack.close()

    @property
    def handled(self) -> int:
        """Number of messages that their receivers have handled."""
        return len(self._handled)

    @property
    def over(self) -> int:
        """Number of dialogs whose initiators know that they have ended."""
        return len(self._over)

    @property
    def done(self) -> bool:
        """True if all messages are handled, and all dialogs have ended."""
        return self.handled >= self._messages and self.over >= self._dialogs

    def look(self, timeout: float) -> None:
        """Take what is new."""
        for follower in self._followers:
            for record in follower.poll(timeout / len(self._followers)):
                self.moved_at = monotonic()
                self._take(json.loads(record.value() or b"{}"))

    def _take(self, note: dict[str, object]) -> None:
        for kind in ("item", "reply"):
            if kind in note:
                self._handled.add((str(note["dialog"]), kind, int(str(note[kind]))))
        if "over" in note:
            self._over.add(str(note["dialog"]))
