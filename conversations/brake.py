"""Counts the dialogs that failed lately: when so many fail at once, the messages are not to blame."""

from __future__ import annotations

from datetime import timedelta

from conversations.config import Brake

_MICROSECOND = timedelta(microseconds=1)


class Failures:
    """The dialogs that failed lately, by peer, and how many handlers succeeded beside them; times in microseconds."""

    PEERS = 1_000
    """Peers remembered at most, for each of the two counts."""
    DIALOGS = Brake.MOST_DIALOGS
    """Dialogs of one peer remembered at most."""

    def __init__(self, brake: Brake) -> None:
        self._brake = brake
        self._window = brake.window // _MICROSECOND
        self._failed: dict[str, dict[bytes, int]] = {}
        """Peers by when one of their dialogs failed last, and those by when they did, longest ago first."""
        self._handled: dict[str, int] = {}
        """Handlers that succeeded in this half of a window, and in the one before."""
        self._handled_before: dict[str, int] = {}
        self._turned_at = 0

    def __len__(self) -> int:
        return sum(map(len, self._failed.values()))

    def note(self, peer: str, dialog: bytes, now: int, braked: int = 0) -> int:
        """Count a failure; return how many dialogs tell that not the peer's messages are to blame, 0 when too few.

        Of each other peer that fails as much, and of the ``braked`` ones, at most half as many count as are needed; of all of them so many
        that the peer itself must have failed a little, too: the fault of others need not be its own.
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
        """Forget failures older than the window."""
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
        """Begin again with a peer."""
        for table in (self._failed, self._handled, self._handled_before):
            table.pop(peer, None)

    def is_over(self, now: int) -> bool:
        """Forget old failures; say whether none is left to compare successes with."""
        self._turn(now)
        return not self._failed
