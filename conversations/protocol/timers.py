"""The timers of an endpoint: the dialog timer, which has no name, and the timers with names.

``Fencing`` inherits from ``Timed``, and ``Endpoint`` from ``Fencing``: they are one object. Nearly all endpoints have no timer with a name. So
they have no ``NamedTimers``, and nothing of this module costs them more than a comparison.
"""

from __future__ import annotations

from typing import Final

from conversations.protocol.states import State, check_timer

NEVER: Final = (1 << 62) - 1
"""A deadline that never comes."""
DIALOG_TIMER = ""
"""The name of the dialog timer: the one timer of a dialog in Service Broker."""


class NamedTimers:
    """The timers with names of one endpoint. There is at least one, or there is no such object."""

    __slots__ = ("due", "firing")

    def __init__(self, due: dict[str, int]) -> None:
        self.due = due
        """The time of each timer, in microseconds, by its name."""
        self.firing: set[str] = set()
        """The names of the timers whose handler runs, or waits for another attempt. Their times stay until the handler finishes."""

    def next(self) -> int:
        """Return the time of the first timer that has not fired; ``NEVER`` if there is none."""
        return min((at for name, at in self.due.items() if name not in self.firing), default=NEVER)


class Timed:
    """The timers of an endpoint."""

    __slots__ = ("firing", "named", "state", "timer")

    state: State
    timer: int
    """Time of the dialog timer; ``NEVER`` if it is not set."""
    firing: bool
    """True while the handler of the dialog timer runs.

    The row keeps the timer until the handler finishes, so the timer fires again after a crash.
    """
    named: NamedTimers | None
    """The timers with names; None if there are none."""

    def set_timer(self, at: int, name: str = DIALOG_TIMER) -> None:
        """Set a timer, or set it anew; ``NEVER`` cancels it.

        Raises:
            DialogEnded: the state allows no timer; usually the dialog is over on this side (8458).
        """
        check_timer(self.state)
        if not name:
            self.timer, self.firing = at, False
        elif at == NEVER:
            self._forget(name)
        elif self.named is None:
            self.named = NamedTimers({name: at})
        else:
            self.named.due[name] = at
            self.named.firing.discard(name)

    def restore_timers(self, due: dict[str, int]) -> None:
        """Restore the timers with names from the endpoint's row."""
        self.named = NamedTimers(due) if due else None

    def stop_timers(self) -> None:
        """Cancel all timers, because this side is over or broken."""
        self.timer, self.firing, self.named = NEVER, False, None

    def fire(self, now: int) -> list[str]:
        """Note that the handlers of the timers that are due run from now on. Return the names of these timers, the earliest first."""
        found = sorted((at, name) for name, at in self.timers().items() if at <= now and not self.is_firing(name))
        names = [name for _, name in found]
        self.firing = self.firing or DIALOG_TIMER in names
        if self.named is not None:
            self.named.firing.update(name for name in names if name)
        return names

    def fired(self, name: str = DIALOG_TIMER) -> None:
        """Note that a timer's handler has finished. This cancels the timer, unless the handler has set it anew."""
        if not self.is_firing(name):
            return
        if name:
            self._forget(name)
        else:
            self.timer, self.firing = NEVER, False

    def is_firing(self, name: str = DIALOG_TIMER) -> bool:
        """Return True if the timer's handler runs, or waits for another attempt."""
        return self.firing if not name else self.named is not None and name in self.named.firing

    def resume_firing(self, names: set[str]) -> None:
        """Note the timers whose handler failed, and waits for another attempt."""
        self.firing = DIALOG_TIMER in names
        if self.named is not None:
            self.named.firing = names & self.named.due.keys()

    def next_timer(self) -> int:
        """Return the time of the first timer that has not fired; ``NEVER`` if there is none."""
        soonest = NEVER if self.firing else self.timer
        return soonest if self.named is None else min(soonest, self.named.next())

    def timers(self) -> dict[str, int]:
        """Return the time of each timer that is set, by its name. The handlers of some may run now."""
        found = {} if self.timer == NEVER else {DIALOG_TIMER: self.timer}
        return found if self.named is None else found | self.named.due

    def _forget(self, name: str) -> None:
        if self.named is None:
            return
        self.named.due.pop(name, None)
        self.named.firing.discard(name)
        if not self.named.due:
            self.named = None
