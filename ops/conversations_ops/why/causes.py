"""The causes for which a dialog stalls, as rules over facts. Each rule is about one side of the dialog."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Callable, Iterator
from typing import NamedTuple

from conversations.durations import MINUTE
from conversations.protocol.states import State
from conversations_ops.operate.dialogs import STATES, Side
from conversations_ops.operate.queues import Queue
from conversations_ops.printable import counted
from conversations_ops.why.facts import Facts

NEAR = 15 * MINUTE
"""A lifetime that ends within this time is named."""
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


def causes(facts: Facts, clock: Clock) -> list[Cause]:
    """Return why a dialog stalls. A cause that others depend on comes before them; empty if nothing stalls."""
    found = [cause for it in facts.sides for cause in _of_side(facts, it, clock)]
    found += _of_letters(facts)
    return sorted(found, key=lambda it: _ORDER.index(it.name))


_ORDER = (
    "queue-off", "no-owner", "held", "brake", "retry-waits", "slow-handler", "unread", "gap", "unknown-destination", "delayed", "pool", "broken",
    "unacknowledged", "lifetime-near", "letters",
)  # fmt: skip
"""The names of all causes. The first ones are causes of the later ones."""


def next_command(found: list[Cause]) -> str:
    """Return the command for the first cause that needs a person, or else for the first that has a command; empty if there is none."""
    for it in sorted(found, key=lambda it: not it.needs_person):
        if it.next:
            return it.next
    return ""


def _of_side(facts: Facts, it: Side, clock: Clock) -> Iterator[Cause]:
    if it.closed is not None:
        return
    yield from _of_partition(facts, it, clock)
    if facts.other(it) is None and it.peer in facts.services:
        yield from _of_unknown_side(facts, it.peer, clock)
    yield from _of_heads(facts, it, clock)
    if it.waits.waiting.records:
        says = f"{_wait(it.waits.waiting.records, 'record')} for a handler that has not finished"
        yield Cause("slow-handler", it.service, says)
    if it.waits.held.records:
        yield Cause(
            "gap", it.service, f"{counted(it.waits.held.records, 'record')} arrived early: #{it.accepted} is missing, and {it.service} has asked for it"
        )  # fmt: skip
    if it.waits.delayed.records:
        yield _destination(facts, it)
    if it.before:
        yield Cause("pool", it.service, f"it begins when dialog {it.before} is over, which is before it in its pool", next=f"conversations why {it.before}")  # fmt: skip
    if it.state is State.ERROR and not it.heads:
        yield Cause(
            "broken",
            it.service,
            f"it is broken with {it.code} {it.description}".rstrip() + "; on_error has not finished",
        )
    if it.sent > it.acknowledged and not it.waits.delayed.records:
        yield Cause(
            "unacknowledged",
            it.service,
            f"{it.peer} has not acknowledged {counted(it.sent - it.acknowledged, 'envelope')}",
        )
    if it.lifetime_ends is not None and it.lifetime_ends - facts.now < NEAR:
        parked = it.waits.parked.messages
        letters = (
            f"; then {counted(parked, 'parked message')} {'becomes a dead letter' if parked == 1 else 'become dead letters'}"
            if parked
            else ""
        )
        yield Cause(
            "lifetime-near",
            it.service,
            f"the lifetime ends {clock(it.lifetime_ends)}{letters}",
            needs_person=bool(it.heads),
        )


def _of_partition(facts: Facts, it: Side, clock: Clock) -> Iterator[Cause]:
    queue = facts.queue(it)
    if queue is not None and queue.off:
        yield _queue_off(queue, clock)
    unread = facts.unread.get((it.service, it.partition), 0)
    if it.partition not in facts.owned.get(it.service, frozenset()):
        waits = f", and {_wait(unread, 'record')} in its queue" if unread else ""
        says = f"no worker of {it.service} has partition {it.partition}{waits}: start the service"
        yield Cause("no-owner", it.service, says, needs_person=True)
    elif unread:
        says = f"{counted(unread, 'record')} of partition {it.partition} are not read yet: a handler is slow, or there is much to do"
        yield Cause("unread", it.service, says)


def _of_unknown_side(facts: Facts, peer: str, clock: Clock) -> Iterator[Cause]:
    """Return the causes at a peer that has no side yet. It is not known which of its partitions gets one."""
    mine = [queue for (service, _), queue in sorted(facts.queues.items()) if service == peer]
    off = next((queue for queue in mine if queue.off), None)
    if off is not None:
        yield _queue_off(off, clock)
    owned = facts.owned.get(peer, frozenset())
    missing = [queue.partition for queue in mine if queue.partition not in owned]
    if missing:
        which = "any partition" if len(missing) == len(mine) else f"partition {', '.join(map(str, missing))}"
        yield Cause("no-owner", peer, f"no worker of {peer} has {which}: start the service", needs_person=True)


def _queue_off(queue: Queue, clock: Clock) -> Cause:
    why = f": {queue.reason}" if queue.reason else ""
    says = f"the queue of partition {queue.partition} is off since {clock(queue.since)} ({queue.off}{why})"
    command = f"conversations queue on {shlex.quote(queue.service)} {REASON}"
    return Cause("queue-off", queue.service, says, queue.since, needs_person=True, next=command)


def _of_heads(facts: Facts, it: Side, clock: Clock) -> Iterator[Cause]:
    queue = facts.queue(it)
    for head in it.heads:
        what = head.what if head.number < 0 else f"{head.what} #{head.number}"
        behind = f"; {counted(head.behind, 'record')} behind it" if head.behind else ""
        failed = f"{what} failed {counted(head.attempts, 'time')} since {clock(head.since)}: {head.failure}{behind}"
        if head.held:
            command = f"conversations dead-letters retry {shlex.quote(head.letter)} {REASON}"
            yield Cause(
                "held", it.service, f"{failed}; it waits for your decision", head.since, needs_person=True, next=command
            )
        elif head.due is not None:
            yield Cause("retry-waits", it.service, f"{failed}; it is tried again {clock(head.due)}", head.since)
        elif queue is None or not queue.off:
            yield Cause(
                "brake",
                it.service,
                f"{what} waits for the brake: too many dialogs with {it.peer} have failed{behind}",
                head.since,
            )


def _destination(facts: Facts, it: Side) -> Cause:
    waits = f"{_wait(it.waits.delayed.records, 'envelope')} for {it.peer}"
    if it.peer in facts.services:
        return Cause(
            "delayed",
            it.service,
            f"{waits}: its queue takes no records now",
            next=f"conversations queue show {shlex.quote(it.peer)}",
        )
    near = difflib.get_close_matches(it.peer, facts.services, 1)
    guess = f"; is it {near[0]!r}?" if near else "."
    says = f"{waits}: the namespace has no service {it.peer!r}{guess} Apply it, or end the dialog"
    return Cause("unknown-destination", it.service, says, needs_person=True)


def _of_letters(facts: Facts) -> Iterator[Cause]:
    parked = {head.letter for it in facts.sides for head in it.heads}
    found = [it for it in facts.letters if it.letter not in parked]
    if found:
        first = found[0]
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        yield Cause(
            "letters", first.service, f"{first.letter}{more} of this dialog is an open letter ({first.reason})", first.at, needs_person=True,
            next=f"conversations dead-letters show {shlex.quote(first.letter)}",
        )  # fmt: skip


def _wait(count: int, what: str) -> str:
    return f"{counted(count, what)} {'waits' if count == 1 else 'wait'}"


def headline(facts: Facts) -> str:
    """Say in which state each side is: ``loans -> credit   conversing at loans, conversing at credit``."""
    first = facts.sides[0]
    names = f"{first.service} -> {first.peer}" if first.initiator else f"{first.peer} -> {first.service}"
    states = ", ".join(f"{_state(it)} at {it.service}" for it in facts.sides)
    return f"{names if first.peer else first.service}   {states}"


def _state(it: Side) -> str:
    if it.closed is not None and it.code:
        return f"OVER WITH {it.code}"
    return "PARKED" if it.heads else STATES[it.state].upper()
