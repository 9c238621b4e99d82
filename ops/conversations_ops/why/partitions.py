"""The causes for which partitions of a service stall, as rules over facts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from conversations.protocol.events import ClusterAway, PartitionSetAside
from conversations_ops.console.times import next_try
from conversations_ops.operate.queues import Queue
from conversations_ops.printable import counted
from conversations_ops.why.cause import Cause, Clock, command, wait
from conversations_ops.why.facts import Facts


def of_partitions(facts: Facts, service: str, numbers: Sequence[int], clock: Clock) -> Iterator[Cause]:
    """Return why nothing, or little, is done in some partitions of a service: the one of a side, or all of them."""
    queues = [facts.queues[service, it] for it in numbers if (service, it) in facts.queues]
    if (off := next((it for it in queues if it.off), None)) is not None:
        yield _queue_off(off, clock)
    owned = facts.owned.get(service, frozenset())
    if missing := [it for it in numbers if it not in owned]:
        yield _no_owner(facts, service, missing)
    for number in numbers:
        place = service, number
        if (aside := facts.aside.get(place)) is not None and number in owned:
            yield _set_aside(*place, aside, clock)
        if (since := facts.transactions.get(place)) is not None:
            yield _open_transaction(*place, since, clock)
    # What has no owner, or is set aside, is not read at all: that is a cause of its own.
    slow = [
        it for it in numbers if it in owned and (service, it) not in facts.aside and facts.unread.get((service, it))
    ]
    if slow:
        yield _unread(facts, service, slow)


def of_way(facts: Facts, service: str, peer: str, clock: Clock) -> Iterator[Cause]:
    """Return why nothing, or little, goes to a peer on another cluster."""
    way = facts.ways.get(peer)
    if way is None:
        return
    if way.is_carried:
        if way.away is not None:
            since, why = way.away
            says = f"route to {way.cluster} down since {clock(since)}{_waits(facts, service, peer)}: a forwarder runs, and cannot carry: {why}"
            show = command("events", "--event", ClusterAway.NAME)
            yield Cause("cluster-away", service, says, since, needs_person=True, next=show)
        return
    which = "" if not way.carried else f" of {counted(way.partitions - len(way.carried), 'partition')}"
    ended = "" if way.ended is None else f" since {clock(way.ended)}"
    says = f"{peer} lives on cluster {way.cluster} ({way.bootstrap}), and no forwarder carries the messages{which} there{ended}{_waits(facts, service, peer)}: start one"
    yield Cause("no-forwarder", service, says, way.ended, needs_person=True, next=command("forward", way.cluster))


def _waits(facts: Facts, service: str, peer: str) -> str:
    """Say what waits for a peer on another cluster, and when it is tried again."""
    it = facts.unacknowledged.get((service, peer))
    if it is None:
        return ""
    again = next_try(it.next_try, facts.now)
    return f", {it.envelopes:,} unacknowledged{again and f', {again}'}"


def _queue_off(queue: Queue, clock: Clock) -> Cause:
    why = f": {queue.reason}" if queue.reason else ""
    says = f"the queue of partition {queue.partition} is off since {clock(queue.since)} ({queue.off}{why})"
    mend = command("queue", "on", queue.service, reason=True)
    return Cause("queue-off", queue.service, says, queue.since, needs_person=True, next=mend)


def _no_owner(facts: Facts, service: str, missing: Sequence[int]) -> Cause:
    every = facts.partitions(service)
    which = "any partition" if list(missing) == every else f"partition {', '.join(map(str, missing))}"
    unread = sum(facts.unread.get((service, it), 0) for it in missing)
    waits = f", and {wait(unread, 'record')} there" if unread else ""
    says = f"no worker of {service} has {which}{waits}: start the service"
    # Of a dialog, the next question is about its service. Of a service, it is what waits there.
    show = ("why", service) if facts.sides else ("queue", "show", service, "--all")
    return Cause("no-owner", service, says, needs_person=True, next=command(*show))


def _set_aside(service: str, partition: int, aside: tuple[int, str], clock: Clock) -> Cause:
    at, why = aside
    says = (
        f"partition {partition} is set aside since {clock(at)}: {why}; mend that, then restart the workers of {service}"
    )
    show = command("events", "--service", service, "--event", PartitionSetAside.NAME)
    return Cause("set-aside", service, says, at, needs_person=True, next=show)


def _open_transaction(service: str, partition: int, since: int, clock: Clock) -> Cause:
    says = (
        f"a program began a transaction {clock(since)} and has not ended it, which hides the newest records of partition {partition}; "
        "Kafka aborts it after that program's transaction.timeout.ms, or when the program starts again"
    )
    return Cause("open-transaction", service, says, since, next=command("queue", "abort", service, reason=True))


def _unread(facts: Facts, service: str, slow: Sequence[int]) -> Cause:
    count = sum(facts.unread[service, it] for it in slow)
    which = f"partition {slow[0]}" if len(slow) == 1 else counted(len(slow), "partition")
    says = f"{counted(count, 'record')} of {which} {'is' if count == 1 else 'are'} not read yet: a handler is slow, or there is much to do"
    return Cause("unread", service, says, next=command("queue", "show", service, "--all"))
