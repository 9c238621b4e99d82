"""The causes for which a service stalls: its partitions, its messages that failed, in groups, and its open letters, by reason."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from conversations_ops.operate.reasons import WHY
from conversations_ops.printable import counted
from conversations_ops.read_model.letters import Group, Reasons
from conversations_ops.read_model.peers import PeerWait
from conversations_ops.why.cause import Cause, Clock, command, in_order, wait
from conversations_ops.why.facts import Facts
from conversations_ops.why.letters import SENT_AGAIN
from conversations_ops.why.partitions import of_partitions, of_way


def causes_of_service(
    facts: Facts,
    service: str,
    held: Sequence[Group],
    retried: Sequence[Group],
    left: Sequence[Reasons],
    peers: Sequence[PeerWait],
    clock: Clock,
) -> list[Cause]:
    """Return why a service stalls, in the order of ``TABLE``; empty if nothing stalls.

    Args:
        facts: what is known about the partitions of the service.
        service: its name.
        held: groups of failed messages that wait for a person.
        retried: groups of failed messages that are tried again by themselves.
        left: groups of open letters.
        peers: the peers with which the service has open dialogs.
        clock: writes times.
    """
    by_reason: dict[str, list[Reasons]] = defaultdict(list)
    for it in left:
        by_reason[it.reason].append(it)
    return in_order([
        *of_partitions(facts, service, facts.partitions(service), clock),
        *(_held(it, clock) for it in held),
        *(_retried(it, clock) for it in retried),
        *(_letters(service, reason, found, clock) for reason, found in by_reason.items()),
        *(cause for it in peers for cause in of_way(facts, service, it.peer, clock)),
        *(_peer(facts, service, it) for it in peers if it.stalls),
    ])  # fmt: skip


def _held(it: Group, clock: Clock) -> Cause:
    says = f"{_failed(it, clock)}; {'it waits' if it.letters == 1 else 'they wait'} for your decision"
    chosen = {"--service": it.service, "--exception": it.exception, "--type": it.what}
    options = [word for option, value in chosen.items() if value for word in (option, value)]
    return Cause(
        "held",
        it.service,
        says,
        it.first,
        needs_person=True,
        next=command("redrive", "plan", *options, "--start", reason=True),
    )


def _retried(it: Group, clock: Clock) -> Cause:
    says = f"{_failed(it, clock)}; {'it is' if it.letters == 1 else 'they are'} tried again without you"
    return Cause("retry-waits", it.service, says, it.first, next=command("retries", "list", it.service))


def _letters(service: str, reason: str, found: Sequence[Reasons], clock: Clock) -> Cause:
    first = min(it.first for it in found)
    why = f": {WHY[reason]}" if reason in WHY else ""
    says = f"{counted(sum(it.letters for it in found), 'open letter')} ({reason or 'of another tool'}) since {clock(first)}{why}"
    if reason in WHY and reason not in SENT_AGAIN:
        mend = command("dead-letters", "discard", "--service", service, "--with-reason", reason, reason=True)
    else:
        mend = command("dead-letters", "list", service, "--detached")
    return Cause("letters", service, says, first, needs_person=True, next=mend)


def _peer(facts: Facts, service: str, it: PeerWait) -> Cause:
    if it.peer not in facts.services and it.peer not in facts.ways:
        says = f"{wait(it.kept_back, 'dialog')} for {it.peer}: the namespace has no such service"
        show = command("dialogs", "list", service, "--with-pending")
        return Cause("peer-stalls", service, says, needs_person=True, next=show)
    whys = {
        "whose queue is off": it.is_off, "which holds a message of such a dialog until you decide": it.holds,
        "whose queue takes no records now": it.kept_back,
    }  # fmt: skip
    says = (
        f"{counted(it.open, 'open dialog')} with {it.peer}, {' and '.join(why for why, is_so in whys.items() if is_so)}"
    )
    return Cause("peer-stalls", service, says, needs_person=it.is_off or it.holds, next=_look(facts, it.peer))


def _look(facts: Facts, peer: str) -> str:
    return command("route", "list") if peer in facts.ways else command("why", peer)


def _failed(it: Group, clock: Clock) -> str:
    behind = f", {wait(it.behind, 'record')} behind" if it.behind else ""
    return f"{it.letters} {it.what or 'handler without a message'} failed with {it.exception} since {clock(it.first)}{behind}"
