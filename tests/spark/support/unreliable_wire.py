"""A wire that repeats and re-orders records, and adds unusable ones."""

from __future__ import annotations

from random import Random

from conversations.protocol.envelope import Envelope
from tests.spark.support.queues import Queues, Talk


class Unreliable:
    """Writes dialogs into queues. It repeats 2 % of the records, and 2 % of them change places with another record."""

    def __init__(self, queues: Queues, chance: Random) -> None:
        self._queues, self._chance = queues, chance
        self.said: list[Envelope] = []
        self.nonsense = 0
        """Number of unusable records that it has written."""

    def speak(self, *, dialogs: int, messages: int) -> None:
        """Write whole dialogs, whose records are mixed with each other."""
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
        """Write records again that were written long before."""
        self._queues.say_all(self._chance.choices(self.said, k=count))
