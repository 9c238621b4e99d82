"""Dialogs that broke with a system code, and that neither a handler nor a client was told of. They are reported to operators.

A peer can break as many dialogs as it can begin, and a peer that is down breaks all of its dialogs when their lifetimes end. So dialogs that
broke **alike** (the same peer, code and finder) are reported together. The first one is reported at once. The others are counted, and
reported by one event a minute, with the dialog that broke last.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from conversations.protocol.code_table import of_error
from conversations.protocol.events import DialogBroken

PAUSE = 60_000_000
"""Shortest time, in microseconds, between two events about dialogs that broke alike."""
KINDS = 1_000
"""Maximum number of kinds that are remembered. If there are more, the kind that was reported first is forgotten."""


@dataclass(slots=True)
class _Kind:
    waits: DialogBroken | None
    """What is not reported yet, with the number of dialogs."""
    reported_at: int | None = None

    def add(self, broken: DialogBroken) -> None:
        """Count another dialog."""
        before = 0 if self.waits is None else self.waits.dialogs
        self.waits = replace(broken, dialogs=before + broken.dialogs)

    def is_quiet(self, now: int) -> bool:
        """Return True if this kind was reported less than a pause ago. The time may have been set back since."""
        return self.reported_at is not None and 0 <= now - self.reported_at < PAUSE

    def report(self, now: int) -> DialogBroken | None:
        """Return what is not reported yet, and note that it is reported now."""
        waits, self.waits, self.reported_at = self.waits, None, now
        return waits


class BrokenDialogs:
    """The broken dialogs of one partition that are not reported yet, and the kinds that were reported a short time ago."""

    __slots__ = ("_kinds",)

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, int, str], _Kind] = {}

    def __len__(self) -> int:
        return len(self._kinds)

    def note(self, broken: DialogBroken) -> None:
        """Note a broken dialog. A peer may invent codes, so all codes that are in no table are one kind."""
        key = broken.peer, broken.code if of_error(broken.code) is not None else 0, broken.by
        kind = self._kinds.get(key)
        if kind is None:
            if len(self._kinds) >= KINDS:
                del self._kinds[next(iter(self._kinds))]
            self._kinds[key] = _Kind(broken)
            return
        kind.add(broken)

    def due(self, now: int) -> Iterator[DialogBroken]:
        """Yield what must be reported now, and forget the kinds of which no dialog broke for a while."""
        for key, kind in list(self._kinds.items()):
            if kind.is_quiet(now):
                continue
            waits = kind.report(now)
            if waits is None:
                del self._kinds[key]
            else:
                yield waits
