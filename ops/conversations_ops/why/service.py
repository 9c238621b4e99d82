"""The causes for which a service stalls: its partitions, and its messages that failed, in groups."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from conversations_ops.read_model.letters import Group
from conversations_ops.why.cause import Cause, Clock, in_order, wait
from conversations_ops.why.facts import Facts
from conversations_ops.why.partitions import of_all_partitions


def causes_of_service(
    facts: Facts, service: str, held: Sequence[Group], retried: Sequence[Group], clock: Clock
) -> list[Cause]:
    """Return why a service stalls, in the order of ``ORDER``; empty if nothing stalls.

    Args:
        facts: what is known about the partitions of the service.
        service: its name.
        held: groups of failed messages that wait for a person.
        retried: groups of failed messages that are tried again by themselves.
        clock: writes times.
    """
    return in_order([
        *of_all_partitions(facts, service, clock),
        *(_held(it, clock) for it in held),
        *(_retried(it, clock) for it in retried),
    ])  # fmt: skip


def _held(it: Group, clock: Clock) -> Cause:
    says = f"{_failed(it, clock)}; {'it waits' if it.letters == 1 else 'they wait'} for your decision"
    chosen = {"--service": it.service, "--exception": it.exception, "--type": it.what}
    options = " ".join(f"{option} {shlex.quote(value)}" for option, value in chosen.items() if value)
    return Cause("held", it.service, says, it.first, needs_person=True, next=f"conversations redrive plan {options}")


def _retried(it: Group, clock: Clock) -> Cause:
    says = f"{_failed(it, clock)}; {'it is' if it.letters == 1 else 'they are'} tried again without you"
    return Cause("retry-waits", it.service, says, it.first)


def _failed(it: Group, clock: Clock) -> str:
    behind = f", {wait(it.behind, 'record')} behind" if it.behind else ""
    return f"{it.letters} {it.what} failed with {it.exception} since {clock(it.first)}{behind}"
