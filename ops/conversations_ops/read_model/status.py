"""What each service does now, from the file of the read model: its queue, its dialogs, what waits, and the first cause."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import NamedTuple

from conversations.protocol import rows
from conversations.protocol.events import ClusterAway
from conversations.protocol.partition_row import PartitionRow
from conversations.protocol.topics import STATE
from conversations_ops.console.times import next_try
from conversations_ops.operate.failed import in_words, subject
from conversations_ops.printable import counted
from conversations_ops.read_model.file import File
from conversations_ops.read_model.queues import partition_row


class Only(NamedTuple):
    """The failed message of a group that has no other one."""

    number: int
    """Number of the message; -1 if a handler without a message failed."""
    attempts: int
    failure: str
    """The last exception with its text, which may quote a body."""


class Heads(NamedTuple):
    """The failed messages of a service that have the same exception and message type, and wait for the same thing."""

    exception: str
    what: str
    held: bool
    """True if an operator must decide."""
    dialogs: int
    since: int
    """Time of the first failure, microseconds since 1970."""
    due: int | None
    """Time of the next attempt; None if there is none."""
    only: Only | None = None
    """Its one message, if it has only one and is the largest group of the service."""


class Stall(NamedTuple):
    """A way to another cluster that is down, with what a service has sent on it. Times are in microseconds since 1970."""

    cluster: str
    forwarded: bool
    """True if a forwarder runs, and cannot carry; False if none runs."""
    why: str
    """What the forwarder was told; empty if none runs."""
    since: int | None
    unacknowledged: int
    next_try: int | None
    """Time of the next retransmission; None if it is not known."""
    seen_at: int
    """The time of this look."""


class Unowned(NamedTuple):
    """The partitions of a service that no worker has."""

    partitions: int = 0
    records: int = 0
    """Number of records for them that are not read, in the queue and among the commands."""


class Status(NamedTuple):
    """One service. Times are in microseconds since 1970."""

    service: str
    partitions: int
    off: int
    """Number of partitions whose queue is off."""
    off_why: str
    """Why the first of these queues is off: ``operator``, ``policy`` or ``rollbacks``."""
    off_reason: str
    off_since: int
    open: int
    """Number of sides of dialogs that are not closed."""
    pending: int
    """Number of sent envelopes that the peers have not acknowledged."""
    delayed: int
    """Number of envelopes that the topics of peers cannot take now."""
    parked: int
    """Number of records that are parked, the failed ones among them."""
    held: int
    """Number of failed messages and handlers that wait for an operator."""
    letters: int
    """Number of open letters: dead letters that no dialog waits for, and nobody has closed."""
    oldest: int | None
    """Time since which the first failed message waits; None if none waits."""
    heads: tuple[Heads, ...]
    """The failed messages that wait, the largest group first."""
    waits_for: tuple[tuple[str, int], ...]
    """Peers whose topics cannot take envelopes now, and the number of dialogs that wait for each."""
    stalls: tuple[Stall, ...] = ()
    """The ways to other clusters that are down, while something of the service waits for them. The read model does not know them."""
    unowned: Unowned = Unowned()
    """The partitions without an owner. The read model does not know them."""

    @property
    def needs_person(self) -> bool:
        """True if something goes on only after somebody has decided or mended something."""
        return bool(self.off or self.lacks_worker or self.held or self.letters or self.stalls)

    @property
    def lacks_worker(self) -> bool:
        """True if partitions have no owner, and there is work for one."""
        return bool(self.unowned.partitions and (self.unowned.records or self.open))


def statuses(file: File) -> list[Status]:
    """Return the status of each service of the namespace, ordered by name."""
    with file.explained():
        found = file.connection.execute(
            "SELECT service, count(*) FROM places WHERE kind = ? GROUP BY service ORDER BY service", (STATE,)
        ).fetchall()
        return [_status(file, service, partitions) for service, partitions in found]


def _status(file: File, service: str, partitions: int) -> Status:
    ask = file.connection.execute
    off = _off(file, service)
    ((count, pending, delayed, parked),) = ask(_SUMS, (service,))
    ((letters,),) = ask("SELECT count(*) FROM open WHERE service = ?", (service,))
    heads = _heads(file, service)
    held = sum(it.dialogs for it in heads if it.held)
    oldest = min((it.since for it in heads), default=None)
    first = min(off, key=lambda it: it.off_since, default=PartitionRow())
    return Status(
        service, partitions, len(off), first.off, first.off_reason, first.off_since, count, pending, delayed, parked, held,
        letters, oldest, heads, tuple(ask(_WAITS_FOR, (service,))),
    )  # fmt: skip


_PARTITIONS = """
SELECT value FROM rows WHERE service = ? AND partition IN (SELECT partition FROM places WHERE service = ?) AND key = ?
"""
_SUMS = """
SELECT ifnull(sum(open), 0), ifnull(sum(pending), 0), ifnull(sum(delayed), 0), ifnull(sum(parked), 0) FROM sums WHERE service = ?
"""
_HELD = "due IS NULL AND NOT queue_off"
_HEADS = f"""
SELECT exception, what, sum({_HELD}), min(since) FILTER (WHERE {_HELD}), count(*), min(since) FILTER (WHERE NOT ({_HELD})), min(due)
FROM parked INDEXED BY parked_groups WHERE service = ? GROUP BY exception, what
"""  # noqa: S608 - a constant
_ONLY = f"""
SELECT number, attempts, failure FROM parked INDEXED BY parked_groups WHERE service = ? AND exception = ? AND what = ? AND ({_HELD}) = ? LIMIT 1
"""  # noqa: S608 - a constant
_WAITS_FOR = """
SELECT peer, sum(kept_back) FROM sums WHERE service = ? AND kept_back > 0 GROUP BY peer ORDER BY sum(kept_back) DESC, peer
"""


def _heads(file: File, service: str) -> tuple[Heads, ...]:
    """Return the groups of failed messages, those that are held first. One pass over the index in its order makes both kinds of a group."""
    found: list[Heads] = []
    for exception, what, held, held_since, every, since, due in file.connection.execute(_HEADS, (service,)):
        if held:
            found.append(Heads(exception, what, True, held, held_since, None))
        if every > held:
            found.append(Heads(exception, what, False, every - held, since, due))
    found.sort(key=lambda it: (not it.held, -it.dialogs, it.since))
    if found and found[0].dialogs == 1:
        of = (service, found[0].exception, found[0].what, found[0].held)
        found[0] = found[0]._replace(only=Only(*file.connection.execute(_ONLY, of).fetchone()))
    return tuple(found)


def _off(file: File, service: str) -> list[PartitionRow]:
    found = file.connection.execute(_PARTITIONS, (service, service, rows.PARTITION))
    return [row for (value,) in found if (row := partition_row(value)).off]


def cause(it: Status, clock: Callable[[int], str], *, texts: bool = False) -> str:
    """Say why a service stalls, in one line: the cause that stops most comes first. Empty if nothing stalls.

    ``clock`` writes a time. With ``texts``, the line has the text of an exception, which may quote a body.
    """
    if it.off:
        where = "" if it.off == it.partitions else f" in {it.off} of {counted(it.partitions, 'partition')}"
        reason = f": {it.off_reason}" if it.off_reason else ""
        return f"queue off{where} since {clock(it.off_since)} ({it.off_why}{reason})"
    if it.lacks_worker:
        return without_owner(it.unowned, it.partitions)
    if it.heads:
        head = it.heads[0]
        waits = (
            "held"
            if head.held
            else "waiting for the queue or the brake"
            if head.due is None
            else f"tried again at {clock(head.due)}"
        )
        return f"{counted(head.dialogs, 'dialog')} {waits}: {_failed(head, clock(head.since), texts=texts)}"
    if it.stalls:
        return stalled(it.stalls[0], clock)
    if it.waits_for:
        peer, dialogs = it.waits_for[0]
        return f"waits for {peer} ({counted(dialogs, 'dialog')})"
    return f"{counted(it.letters, 'open letter')} of dialogs that are over" if it.letters else ""


def without_owner(it: Unowned, partitions: int) -> str:
    """Say which partitions no worker has, in one line."""
    which = "any partition" if it.partitions == partitions else f"{it.partitions} of {counted(partitions, 'partition')}"
    waits = f", {counted(it.records, 'record')} {'waits' if it.records == 1 else 'wait'} there" if it.records else ""
    return f"no worker has {which}{waits}: start the service"


def stalled(it: Stall, clock: Callable[[int], str]) -> str:
    """Say why nothing goes to another cluster, in one line."""
    since = "" if it.since is None else f" since {clock(it.since)}"
    again = next_try(it.next_try, it.seen_at)
    waits = f"{it.unacknowledged:,} unacknowledged{again and f', {again}'}" if it.unacknowledged else "nothing waits"
    if not it.forwarded:
        return f"route to {it.cluster}: no forwarder runs{since}, {waits}"
    return f"route to {it.cluster} down{since}, {waits}: {it.why}"


def _failed(head: Heads, since: str, *, texts: bool) -> str:
    if head.only is None:
        return in_words(head.what, None, since, head.exception)
    failure = head.only.failure if texts else head.exception
    return in_words(subject(head.what, head.only.number), head.only.attempts, since, failure)


def next_command(it: Status) -> str:
    """Return the command that shows more about the cause; empty if nothing stalls."""
    if it.off:
        return f"conversations queue show {it.service}"
    if it.lacks_worker:
        return f"conversations why {it.service}"
    if it.held:
        return f"conversations dead-letters list {it.service} --by exception"
    if it.heads:
        return f"conversations retries list {it.service}"
    if it.stalls:
        return mending(it.stalls[0])
    if it.waits_for:
        return f"conversations dialogs list {it.service} --with-pending"
    return f"conversations dead-letters list {it.service} --detached" if it.letters else ""


def mending(it: Stall) -> str:
    """Return the command that mends a way to another cluster or, if none can, shows more."""
    if it.forwarded:
        return f"conversations events --event {ClusterAway.NAME}"
    return shlex.join(["conversations", "forward", it.cluster])


def plain(it: Status, clock: Callable[[int], str]) -> Mapping[str, object]:
    """Return the fields for JSON. ``clock`` writes a time."""
    return {
        "service": it.service, "partitions": it.partitions, "queues_off": it.off, "off_why": it.off_why, "off_reason": it.off_reason,
        "off_since": clock(it.off_since) if it.off else None, "open": it.open, "pending": it.pending, "delayed": it.delayed,
        "parked": it.parked, "held": it.held, "open_letters": it.letters, "oldest_wait": None if it.oldest is None else clock(it.oldest),
        "waits_for": [{"peer": peer, "dialogs": dialogs} for peer, dialogs in it.waits_for],
        "partitions_without_owner": it.unowned.partitions, "records_without_owner": it.unowned.records,
        "routes_down": [plain_stall(stall, clock) for stall in it.stalls],
        "failures": [
            {
                "exception": head.exception, "what": head.what, "held": head.held, "dialogs": head.dialogs, "since": clock(head.since),
                "due": None if head.due is None else clock(head.due),
            }
            for head in it.heads
        ],
        "cause": cause(it, clock, texts=True), "next": next_command(it), "needs_person": it.needs_person,
    }  # fmt: skip


def plain_stall(it: Stall, clock: Callable[[int], str]) -> Mapping[str, object]:
    """Return the fields of a way that is down for JSON. ``clock`` writes a time."""
    since, again = (None if at is None else clock(at) for at in (it.since, it.next_try))
    return {
        "cluster": it.cluster, "forwarder": it.forwarded, "why": it.why, "since": since, "unacknowledged": it.unacknowledged, "next_try": again,
    }  # fmt: skip
