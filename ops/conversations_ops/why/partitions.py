"""The causes for which a partition of a service stalls, as rules over facts."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from conversations_ops.operate.queues import Queue
from conversations_ops.printable import counted
from conversations_ops.why.cause import REASON, Cause, Clock, wait
from conversations_ops.why.facts import Facts


def of_partition(facts: Facts, service: str, partition: int, clock: Clock) -> Iterator[Cause]:
    """Return why nothing, or little, is done in a partition."""
    queue = facts.queues.get((service, partition))
    if queue is not None and queue.off:
        yield _queue_off(queue, clock)
    unread = facts.unread.get((service, partition), 0)
    since = facts.transactions.get((service, partition))
    if since is not None:
        yield _open_transaction(service, partition, since, clock)
    aside = facts.aside.get((service, partition))
    if partition not in facts.owned.get(service, frozenset()):
        waits = f", and {wait(unread, 'record')} in its queue" if unread else ""
        says = f"no worker of {service} has partition {partition}{waits}: start the service"
        yield Cause("no-owner", service, says, needs_person=True)
    elif aside is not None:
        yield _set_aside(service, partition, aside, clock)
    elif unread:
        says = f"{counted(unread, 'record')} of partition {partition} are not read yet: a handler is slow, or there is much to do"
        yield Cause("unread", service, says)


def of_all_partitions(facts: Facts, service: str, clock: Clock) -> Iterator[Cause]:
    """Return why nothing is done in some partition of a service: for a question about the service, or about a side in an unknown partition."""
    mine = [(name, number) for name, number in sorted(facts.queues) if name == service]
    if (off := next((facts.queues[place] for place in mine if facts.queues[place].off), None)) is not None:
        yield _queue_off(off, clock)
    owned = facts.owned.get(service, frozenset())
    missing = [number for _, number in mine if number not in owned]
    if missing:
        which = "any partition" if len(missing) == len(mine) else f"partition {', '.join(map(str, missing))}"
        yield Cause("no-owner", service, f"no worker of {service} has {which}: start the service", needs_person=True)
    for place in mine:
        if (aside := facts.aside.get(place)) is not None and place[1] in owned:
            yield _set_aside(*place, aside, clock)
        if (since := facts.transactions.get(place)) is not None:
            yield _open_transaction(*place, since, clock)
    yield from _unread(facts, service)


def _unread(facts: Facts, service: str) -> Iterator[Cause]:
    """A partition that is set aside is not read at all, which is a cause of its own."""
    found = [
        count for place, count in facts.unread.items() if place[0] == service and count and place not in facts.aside
    ]
    if found:
        are = "is" if sum(found) == 1 else "are"
        says = f"{counted(sum(found), 'record')} of {counted(len(found), 'partition')} {are} not read yet"
        yield Cause("unread", service, says)


def _queue_off(queue: Queue, clock: Clock) -> Cause:
    why = f": {queue.reason}" if queue.reason else ""
    says = f"the queue of partition {queue.partition} is off since {clock(queue.since)} ({queue.off}{why})"
    command = f"conversations queue on {shlex.quote(queue.service)} {REASON}"
    return Cause("queue-off", queue.service, says, queue.since, needs_person=True, next=command)


def _set_aside(service: str, partition: int, aside: tuple[int, str], clock: Clock) -> Cause:
    at, why = aside
    says = (
        f"partition {partition} is set aside since {clock(at)}: {why}; mend that, then restart the workers of {service}"
    )
    command = f"conversations events --service {shlex.quote(service)} --event PARTITION_SET_ASIDE"
    return Cause("set-aside", service, says, at, needs_person=True, next=command)


def _open_transaction(service: str, partition: int, since: int, clock: Clock) -> Cause:
    says = (
        f"a program began a transaction {clock(since)} and has not ended it, which hides the newest records of partition {partition}; "
        "Kafka aborts it after that program's transaction.timeout.ms, or when the program starts again"
    )
    return Cause("open-transaction", service, says, since)
