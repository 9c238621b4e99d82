"""Random bits for new ids: those of the system, read many at a time."""

from __future__ import annotations

import os
from collections import deque
from random import SystemRandom

from conversations.protocol.identifiers import RANDOM_BITS

_BYTES = (RANDOM_BITS + 7) // 8
_AT_ONCE = 256
"""Number of ids for which bits are read together."""


class Randomness(SystemRandom):
    """The system's random numbers. Those of new ids are read ahead, because each reading lets other threads run, which takes longer than the reading."""

    def __init__(self) -> None:
        super().__init__()
        self._ahead: deque[int] = deque()

    def getrandbits(self, k: int, /) -> int:
        """Return a number of ``k`` random bits. Several threads may call this at the same time."""
        if k != RANDOM_BITS:
            return super().getrandbits(k)
        while True:
            try:
                return self._ahead.popleft()  # no other thread gets the same number
            except IndexError:
                self._read_ahead()

    def _read_ahead(self) -> None:
        data = os.urandom(_BYTES * _AT_ONCE)
        drawn = (int.from_bytes(data[at : at + _BYTES], "big") for at in range(0, len(data), _BYTES))
        self._ahead.extend([number >> (8 * _BYTES - RANDOM_BITS) for number in drawn])
