"""A wire that repeats, re-orders and spoils what is said on it."""

from __future__ import annotations

from random import Random

from conversations.protocol.envelope import Envelope
from tests.spark.support.queues import Queues, Talk


class Unreliable:
    """Says dialogs on queues; of the records two of a hundred are repeated and two change places with another."""

    def __init__(self, queues: Queues, chance: Random) -> None:
        self._queues, self._chance = queues, chance
        self.said: list[Envelope] = []
        self.nonsense = 0
        """Records that are no messages."""

    def speak(self, *, dialogs: int, messages: int) -> None:
        """Say whole dialogs, among each other."""
        talks = [Talk() for _ in range(dialogs)]
        wire: list[Envelope] = []
        for number in range(messages):
            wire += [talk.ask(number) for talk in talks]
            wire += [talk.answer(number) for talk in talks if self._chance.random() < 0.5]
        wire += [talk.end(messages) for talk in talks]
        wire.append(talks[0].error(-1, -8462))
        self.said += wire
        for place in range(len(wire)):
            if self._chance.random() < 0.02:
                other = self._chance.randrange(len(wire))
                wire[place], wire[other] = wire[other], wire[place]
        repeated = [it for it in wire if self._chance.random() < 0.02]
        self._queues.say_all([*wire, *repeated])
        self._queues.say(self._chance.choice(wire), astray=1)
        self._queues.put("loans", b"\0junk", b"key", None, 0)
        self.nonsense += 2

    def repeat_old(self, count: int) -> None:
        """Say again what was said long before."""
        self._queues.say_all(self._chance.choices(self.said, k=count))
