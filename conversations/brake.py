"""When so many dialogs fail at once that not the messages are to blame: a limit as data, and the count it is compared with."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from datetime import timedelta

from conversations.errors import DeclarationError

_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, kw_only=True)
class Brake:
    """How many different dialogs may fail in a while before a worker slows down to one handler at a time.

    A release that fails on every message would otherwise give up on all of them. While the brake is on nothing is given up on and
    no attempt counts: messages wait in their order, one of them is tried every ``probe``, and the first that succeeds ends it.

    Raises:
        DeclarationError: a number or a time that is not positive, or a share above 1.
    """

    dialogs: int = 100
    """So many different dialogs must have failed within the window."""
    share: float = 0.5
    """And they must be this part of them and the handlers that succeeded meanwhile; 0: the number alone counts."""
    window: timedelta = timedelta(seconds=60)
    probe: timedelta = timedelta(seconds=1)
    """From one try to the next while it is on."""

    def __post_init__(self) -> None:
        """Refuse limits that make no sense."""
        if self.dialogs < 1 or not 0 <= self.share <= 1:
            raise DeclarationError("a brake: dialogs is at least 1, share from 0 to 1")
        if min(self.window, self.probe) <= timedelta(0):
            raise DeclarationError("a brake: window and probe are more than zero")

    def scaled(self, factor: float) -> Brake:
        """Return the same with times that are shorter by a factor."""
        return replace(self, window=self.window / factor, probe=self.probe / factor)


class Failures:
    """The dialogs that failed lately, and how many handlers succeeded beside them; times in microseconds."""

    def __init__(self, brake: Brake) -> None:
        self._brake = brake
        self._window = brake.window // _MICROSECOND
        self._failed: dict[bytes, int] = {}
        """Dialogs by when they failed last, longest ago first."""
        self._handled: deque[tuple[int, int]] = deque()
        """Now and then: a time, and how many handlers had succeeded by then."""

    def __len__(self) -> int:
        return len(self._failed)

    def note(self, dialog: bytes, now: int, handled: int) -> bool:
        """Count a failure; True when there were too many. ``handled`` counts successes since any fixed moment."""
        self._failed.pop(dialog, None)
        self._failed[dialog] = now
        while (first := next(iter(self._failed))) and self._failed[first] <= now - self._window:
            del self._failed[first]
        if not self._handled or now - self._handled[-1][0] > self._window // 60:
            self._handled.append((now, handled))
        while self._handled[0][0] <= now - self._window:
            self._handled.popleft()
        count = len(self._failed)
        return count >= self._brake.dialogs and count >= self._brake.share * (count + handled - self._handled[0][1])

    def clear(self) -> None:
        """Begin again."""
        self._failed.clear()
        self._handled.clear()
