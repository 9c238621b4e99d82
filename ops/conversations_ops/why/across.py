"""Why a dialog between clusters stalls: the causes on each of its clusters, and what one cluster knows about the other."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from conversations_ops.operate.dialogs import Side
from conversations_ops.why.cause import Cause, Clock, command, in_order
from conversations_ops.why.causes import causes
from conversations_ops.why.facts import Facts


def sides_of(facts: Mapping[str, Facts]) -> list[Side]:
    """Return the sides that all clusters know, the initiator's side first."""
    return sorted((side for it in facts.values() for side in it.sides), key=lambda it: not it.initiator)


def causes_across(facts: Mapping[str, Facts], services: Mapping[str, Collection[str]], clock: Clock) -> list[Cause]:
    """Return why a dialog stalls. A cause that others depend on comes before them; empty if nothing stalls.

    Args:
        facts: the facts of each cluster, by its name; empty for the cluster that is asked.
        services: the services of each cluster that was read, also of a cluster that does not know the dialog.
        clock: writes times.
    """
    found = [it._replace(cluster=name) for name, known in facts.items() for it in causes(known, clock)]
    return in_order([*found, *_not_there(facts, services)])


def _not_there(facts: Mapping[str, Facts], services: Mapping[str, Collection[str]]) -> Iterator[Cause]:
    """Yield a cause for each peer that does not live where its route says."""
    if "" not in facts:
        return
    for it in facts[""].sides:
        way = facts[""].ways.get(it.peer)
        if it.closed is None and way is not None and way.cluster in services and it.peer not in services[way.cluster]:
            says = f"cluster {way.cluster} has no service {it.peer!r}: apply it there, or correct the route; {it.service} tries again until then"
            yield Cause("unknown-destination", it.service, says, needs_person=True, next=command("route", "list"))
