"""The journal: one entry for each event that somebody decided, a person or the policy of a service."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from conversations.protocol.events import DialogBroken, QueueDisabled, QueueEnabled, RedriveProgress
from conversations_ops.operate.events import Told
from conversations_ops.printable import counted

UNDECIDED = (RedriveProgress.NAME, DialogBroken.NAME)
"""Events with a field ``by`` that are in no journal: nobody decided anew, or ``by`` is the service that found an error."""
POLICY, WORKER = "policy", "worker"
"""Who decided, if no person did: the policy of a message, or a worker that counted its rollbacks."""
_DECIDERS = {"policy": POLICY, "rollbacks": WORKER}
"""Who turned a queue off, by the cause in the event. Any other cause is an operator's."""
AT_ONCE = 5.0
"""Seconds within which the workers of a service tell of one decision about all its partitions."""
_ONE_PARTITION = re.compile(r"partition (\d+)")
_NAMED = 3
"""Maximum number of letters that an entry names."""


class Entry(NamedTuple):
    """One entry of the journal."""

    at: int
    """Microseconds since 1970."""
    who: str
    """Name of the operator, or ``policy`` or ``worker``."""
    what: str
    service: str
    about: str
    """What it was about: dialogs, a redrive, the failed messages of an exception, letters, or a partition and what failed there."""
    reason: str


def entry(it: Told) -> Entry:
    """Return the entry of an event."""
    fields = it.fields
    decider = _DECIDERS.get(str(fields.get("cause"))) if it.name == QueueDisabled.NAME else None
    what = f"{it.name} {fields.get('action') or fields.get('end') or ''}".rstrip()
    about = ", ".join(_about(it, found=str(fields.get("by", "")) if decider else ""))
    return Entry(it.at, decider or str(fields.get("by", "")), what, it.service, about, str(fields.get("reason", "")))


def joined(entries: Iterable[Entry]) -> list[Entry]:
    """Join the entries that one decision wrote for each partition of a service. The entries are in order of time."""
    found: list[tuple[Entry, list[int]]] = []
    for it in entries:
        number = _ONE_PARTITION.fullmatch(it.about)
        before, numbers = found[-1] if found else (it, [])
        alike = it.at - before.at <= AT_ONCE * 1e6 and before._replace(at=it.at, about=it.about) == it
        if number and numbers and alike:
            numbers.append(int(number[1]))
        else:
            found.append((it, [int(number[1])] if number else []))
    return [it if len(numbers) < 2 else it._replace(about=_partitions(numbers)) for it, numbers in found]


def _partitions(numbers: list[int]) -> str:
    first, last = min(numbers), max(numbers)
    if sorted(numbers) == list(range(first, last + 1)):
        return f"partitions {first} to {last}"
    return f"partitions {', '.join(map(str, sorted(numbers)))}"


def _about(it: Told, found: str) -> Iterator[str]:
    """Yield what an event is about. ``found`` is what made a queue go off by itself: a message type, or a number of rollbacks."""
    fields = it.fields
    if it.name in (QueueDisabled.NAME, QueueEnabled.NAME):
        yield f"partition {fields.get('partition', '?')}"
    if found:
        yield found
    yield from it.dialogs
    for name in ("redrive", "transactional_id"):
        if name in fields:
            yield str(fields[name])
    if "exception" in fields:
        yield f"{fields['exception']} at {fields.get('type', '?')}"
    letters = fields.get("letters")
    if isinstance(letters, list):  # in REDRIVE_STARTED it is a number
        yield from map(str, letters[:_NAMED])
        if len(letters) > _NAMED:
            yield counted(len(letters) - _NAMED, "more letter")
