"""Counts of recent failures. They decide when a worker puts the brake on for a peer.

If many dialogs fail within a short time, the cause is probably the running release of the service, and not single messages.
"""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar

from conversations.config import Brake

_MICROSECOND = timedelta(microseconds=1)


class Failures:
    """Recently failed dialogs of each peer, and the number of handlers that succeeded in the same time. Times are microseconds."""

    PEERS: ClassVar[int] = 1_000
    """Maximum number of peers whose failures are remembered, and also the maximum number of peers whose successes are remembered."""
    DIALOGS: ClassVar[int] = Brake.MOST_DIALOGS
    """Maximum number of failed dialogs that a worker remembers for one peer."""

    def __init__(self, brake: Brake) -> None:
        self._brake = brake
        self._window = brake.window // _MICROSECOND
        self._failed: dict[str, dict[bytes, int]] = {}
        """Time of the last failure of each dialog, by peer and by dialog.

        Peers and dialogs are in the order of their last failures, oldest first.
        """
        self._handled: dict[str, int] = {}
        """By peer, the number of handlers that succeeded in the present half of a window."""
        self._handled_before: dict[str, int] = {}
        """By peer, the number of handlers that succeeded in the half before the present half."""
        self._turned_at = 0

    def __len__(self) -> int:
        return sum(map(len, self._failed.values()))

    def note(self, peer: str, dialog: bytes, now: int, braked: int = 0) -> int:
        """Count a failure. Return the number of failed dialogs if the brake must be put on for the peer, else 0.

        ``braked`` is the number of other peers for which the brake is on now. The brake must be put on if two conditions are met:

        * The failures of the peer, divided by its failures and successes together, are at least the setting ``share``.
        * The number of failed dialogs is at least the setting ``dialogs``. This number includes failed dialogs of other peers. Each other
          peer whose failures reach the setting ``share`` adds at most half of ``dialogs``. Each of the ``braked`` peers adds exactly half.

        Failed dialogs of other peers alone are not enough. The peer itself must have at least two failed dialogs (one if ``dialogs`` is 1),
        and at least 5 % of ``dialogs``. So a fault that only other peers have does not turn the brake on for this peer.
        """
        self._turn(now)
        mine = self._failed.pop(peer, {})
        mine.pop(dialog, None)
        mine[dialog] = now
        self._failed[peer] = mine
        if len(mine) > self.DIALOGS:
            del mine[next(iter(mine))]
        if len(self._failed) > self.PEERS:
            del self._failed[next(iter(self._failed))]
        if not self._fails(peer):
            return 0
        half = self._brake.dialogs // 2
        others = sum(min(half, len(it)) for name, it in self._failed.items() if name != peer and self._fails(name))
        own = max(2, self._brake.dialogs // 20)
        count = len(mine) + min(others + half * braked, max(0, self._brake.dialogs - own))
        return count if count >= self._brake.dialogs else 0

    def succeeded(self, peer: str) -> None:
        """Count a handler that succeeded."""
        if peer in self._handled or len(self._handled) < self.PEERS:
            self._handled[peer] = self._handled.get(peer, 0) + 1

    def _fails(self, peer: str) -> bool:
        count = len(self._failed[peer])
        handled = self._handled.get(peer, 0) + self._handled_before.get(peer, 0)
        return count >= self._brake.share * (count + handled)

    def _turn(self, now: int) -> None:
        """Forget failures that are older than the window. Begin a new half for the successes if the present half is over."""
        for peer, dialogs in list(self._failed.items()):
            while dialogs and (first := next(iter(dialogs))) and dialogs[first] <= now - self._window:
                del dialogs[first]
            if not dialogs:
                del self._failed[peer]
        if now - self._turned_at >= self._window // 2:
            is_long_ago = now - self._turned_at >= self._window
            self._handled_before, self._handled = {} if is_long_ago else self._handled, {}
            self._turned_at = now

    def clear(self, peer: str) -> None:
        """Forget all failures and successes of a peer."""
        for table in (self._failed, self._handled, self._handled_before):
            table.pop(peer, None)

    def is_over(self, now: int) -> bool:
        """Forget failures that are older than the window. Return True if no failure is left. Then the caller need not count successes."""
        self._turn(now)
        return not self._failed
