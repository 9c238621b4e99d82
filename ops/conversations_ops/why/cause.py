"""A cause for which a dialog or a service stalls, the order of causes, and the command that comes next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from conversations_ops.printable import counted

REASON = "--reason WHY"
Clock = Callable[[int], str]
"""Writes a time, with its distance from now."""


class Cause(NamedTuple):
    """One thing that keeps a dialog from going on."""

    name: str
    """The same word in every output, for programs: ``queue-off``, ``held``, ``no-owner``, ..."""
    service: str
    says: str
    since: int | None = None
    """Since when, microseconds since 1970; None if that is not known."""
    needs_person: bool = False
    """True if it does not pass by itself."""
    next: str = ""
    """A command that mends it or shows more; empty if there is none."""


ORDER = (
    "queue-off", "no-owner", "set-aside", "open-transaction", "held", "brake", "retry-waits", "slow-handler", "unread", "gap", "unknown-destination", "delayed", "pool", "broken",
    "unacknowledged", "lifetime-near", "letters",
)  # fmt: skip
"""The names of all causes. The first ones are causes of the later ones."""


def in_order(found: Iterable[Cause]) -> list[Cause]:
    """Sort causes: a cause that others depend on comes before them."""
    return sorted(found, key=lambda it: ORDER.index(it.name))


def next_command(found: Sequence[Cause]) -> str:
    """Return the command for the first cause that needs a person, or else for the first that has a command; empty if there is none."""
    for it in sorted(found, key=lambda it: not it.needs_person):
        if it.next:
            return it.next
    return ""


def wait(count: int, what: str) -> str:
    """Write how many things wait: ``1 record waits``, ``2 records wait``."""
    return f"{counted(count, what)} {'waits' if count == 1 else 'wait'}"
