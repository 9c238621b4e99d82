"""The causes for which a dialog stalls, as rules over facts. Each rule is about one side of the dialog."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterator

from conversations.durations import MINUTE
from conversations.protocol import letters
from conversations.protocol.parked import Parked
from conversations.protocol.states import State
from conversations.protocol.topics import QUEUE, service_topic
from conversations_ops.operate import failed
from conversations_ops.operate.dialogs import STATES, Side
from conversations_ops.printable import counted, side_word
from conversations_ops.why.cause import Cause, Clock, command, in_order, next_command, wait
from conversations_ops.why.facts import Facts
from conversations_ops.why.letters import of_letters
from conversations_ops.why.partitions import of_partitions, of_way

NEAR = 15 * MINUTE
"""A lifetime that ends within this time is named."""


def causes(facts: Facts, clock: Clock) -> list[Cause]:
    """Return why a dialog stalls. A cause that others depend on comes before them; empty if nothing stalls."""
    found = [cause for it in facts.sides if it.closed is None for cause in _of_side(facts, it, clock)]
    return in_order([*found, *of_letters(facts)])


def _of_side(facts: Facts, it: Side, clock: Clock) -> Iterator[Cause]:
    yield from of_partitions(facts, it.service, [it.partition], clock)
    if facts.other(it) is None and it.peer in facts.services:  # nobody knows which partition gets the other side
        yield from of_partitions(facts, it.peer, facts.partitions(it.peer), clock)
    if it.sent > it.acknowledged or it.waits.delayed.records:
        yield from of_way(facts, it.service, it.peer, clock)
    yield from _of_heads(facts, it, clock)
    yield from _of_arrivals(it)
    if it.waits.delayed.records:
        yield from _destination(facts, it)
    if it.before:
        yield _pool(facts, it, clock)
    show = command("dialogs", "show", it.name)
    if it.state is State.ERROR and not it.heads:
        says = f"it is broken with {it.code} {it.description}".rstrip() + "; on_error has not finished"
        yield Cause("broken", it.service, says, next=show)
    if it.sent > it.acknowledged and not it.waits.delayed.records:
        yield _unacknowledged(facts, it, clock)
    if it.lifetime_ends is not None and it.lifetime_ends - facts.now < NEAR:
        parked = it.waits.parked.messages
        then = f"; then {counted(parked, 'parked message')} {'becomes a dead letter' if parked == 1 else 'become dead letters'}"
        says = f"the lifetime ends {clock(it.lifetime_ends)}{then if parked else ''}"
        mend = _retry(it.heads[0]) if it.heads else show
        yield Cause("lifetime-near", it.service, says, needs_person=bool(it.heads), next=mend)


def _unacknowledged(facts: Facts, it: Side, clock: Clock) -> Cause:
    says, way = f"has not acknowledged {counted(it.sent - it.acknowledged, 'envelope')}", facts.ways.get(it.peer)
    if way is None:
        return Cause("unacknowledged", it.service, f"{it.peer} {says}", next=command("why", it.peer))
    says = f"{it.peer} on cluster {way.cluster} {says}; {it.service} transmits again after at most 64 s"
    if way.lacked is not None and not it.acknowledged:
        says += f". A forwarder found no service {it.peer!r} there at {clock(way.lacked)}: apply it there, or correct the route"
    return Cause("unacknowledged", it.service, says, next=command("route", "list"))


def _of_heads(facts: Facts, it: Side, clock: Clock) -> Iterator[Cause]:
    queue = facts.queue(it)
    unfit = {letter.letter for letter in facts.letters if letter.reason == letters.UNFIT}
    for head in it.heads:
        what = failed.subject(head.what, head.number, head.timer)
        behind = f"; {counted(head.behind, 'record')} behind it" if head.behind else ""
        told = f"{failed.told(head, clock)}{behind}"
        if head.held and head.letter in unfit:
            says = f"{what} does not fit the running release of {it.service}: {head.failure}{behind}; run one that knows it, then give it back"
            yield Cause("unfit", it.service, says, head.since, needs_person=True, next=_retry(head))
        elif head.held:
            says = f"{told}; it waits for your decision"
            yield Cause("held", it.service, says, head.since, needs_person=True, next=_retry(head))
        elif head.due is not None:
            says = f"{told}; it is tried again {clock(head.due)}"
            yield Cause("retry-waits", it.service, says, head.since, next=_retry(head))
        elif queue is None or not queue.off:
            why = f", this one with {head.failure}" if head.failure else ""
            says = f"{what} waits for the brake: too many dialogs with {it.peer} have failed{why}{behind}"
            yield Cause("brake", it.service, says, head.since, next=_retry(head))


def _retry(head: Parked) -> str:
    return command("dead-letters", "retry", head.letter, reason=True)


def _of_arrivals(it: Side) -> Iterator[Cause]:
    show = command("dialogs", "show", it.name)
    if it.waits.waiting.records:
        says = f"{wait(it.waits.waiting.records, 'record')} for a handler that has not finished"
        yield Cause("slow-handler", it.service, says, next=show)
    if it.waits.held.records:
        early = counted(it.waits.held.records, "record")
        says = f"{early} arrived early: #{it.accepted} is missing, and {it.service} has asked for it"
        yield Cause("gap", it.service, says, next=show)


def _destination(facts: Facts, it: Side) -> Iterator[Cause]:
    waits = f"{wait(it.waits.delayed.records, 'envelope')} for {it.peer}"
    if it.peer not in facts.services and it.peer not in facts.ways:
        near = difflib.get_close_matches(it.peer, facts.services, 1)
        guess = f"; is it {near[0]!r}?" if near else "."
        says = f"{waits}: the namespace has no service {it.peer!r}{guess} Apply it, or close the dialog"
        side = ("--service", it.service, "--side", side_word(initiator=it.initiator))
        mend = command("dialogs", "cleanup", it.name, *side, "--yes", reason=True)  # an END or ERROR would wait, too
        yield Cause("unknown-destination", it.service, says, needs_person=True, next=mend)
        return
    queue = service_topic(facts.kafka.namespace, it.peer, QUEUE)
    for user in facts.lacking.get((it.service, it.peer), ()):
        grant = ("--add", "--allow-principal", user, "--operation", "WRITE", "--topic", queue)
        says = f"{user}, which runs {it.service}, may not write to {queue}: grant it that right"
        mend = shlex.join(("kafka-acls.sh", "--bootstrap-server", facts.kafka.bootstrap, *grant))
        yield Cause("right-missing", it.service, says, needs_person=True, next=mend)
    way = facts.ways.get(it.peer)
    topic = "its queue" if way is None else f"the transmission topic to cluster {way.cluster}"
    show = command("queue", "show", it.peer, "--all") if way is None else command("route", "list")
    yield Cause("delayed", it.service, f"{waits}: {topic} takes no records now", next=show)


def _pool(facts: Facts, it: Side, clock: Clock) -> Cause:
    says = f"it begins when dialog {it.before} is over, which is before it in its pool"
    if facts.ahead is None:
        return Cause("pool", it.service, says, next=command("why", it.before))
    first = facts.ahead.sides[0].name
    found = causes(facts.ahead, clock)
    if first != it.before:
        says += f"; the first one there is {first}"
    person = any(cause.needs_person for cause in found)
    return Cause("pool", it.service, says, needs_person=person, next=next_command(found) or command("why", first))


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
