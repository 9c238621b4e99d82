"""The causes for which a dialog stalls, as rules over facts. Each rule is about one side of the dialog."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterator

from conversations.durations import MINUTE
from conversations.protocol.states import State
from conversations_ops.operate.dialogs import STATES, Side
from conversations_ops.printable import counted
from conversations_ops.why.cause import REASON, Cause, Clock, in_order, wait
from conversations_ops.why.facts import Facts
from conversations_ops.why.partitions import of_all_partitions, of_partition

NEAR = 15 * MINUTE
"""A lifetime that ends within this time is named."""


def causes(facts: Facts, clock: Clock) -> list[Cause]:
    """Return why a dialog stalls. A cause that others depend on comes before them; empty if nothing stalls."""
    found = [cause for it in facts.sides for cause in _of_side(facts, it, clock)]
    found += _of_letters(facts)
    return in_order(found)


def _of_side(facts: Facts, it: Side, clock: Clock) -> Iterator[Cause]:
    if it.closed is not None:
        return
    yield from of_partition(facts, it.service, it.partition, clock)
    if facts.other(it) is None and it.peer in facts.services:
        yield from of_all_partitions(facts, it.peer, clock)
    yield from _of_heads(facts, it, clock)
    if it.waits.waiting.records:
        says = f"{wait(it.waits.waiting.records, 'record')} for a handler that has not finished"
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
    waits = f"{wait(it.waits.delayed.records, 'envelope')} for {it.peer}"
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
