"""Lists of another cluster: which one a page is asked for, and what waits on the ones that it does not show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from fastapi import HTTPException

from conversations_ops.read_model.live import Live
from conversations_ops.read_model.status import Status, statuses
from conversations_ops.web.desk import Desk


class Place(NamedTuple):
    """The cluster that a list shows."""

    name: str
    """Its name; empty for the cluster of the console."""
    live: Live


def place_of(desk: Desk, cluster: str) -> Place:
    """Return the cluster of a name; an empty name is the cluster of the console.

    Raises:
        HTTPException: the console does not look at such a cluster.
    """
    live = desk.clusters.get(cluster)
    if live is None:
        raise HTTPException(404, f"This console does not look at a cluster {cluster[:128]!r}.")
    return Place(cluster, live)


def about(desk: Desk, place: Place, number: Callable[[Status], int]) -> dict[str, Any]:
    """Return what the template of a list needs to know about clusters.

    Args:
        desk: the desk.
        place: the cluster that the list shows.
        number: the number of things of a service that such a list shows.
    """
    also = {}
    for name, live in desk.clusters.items():
        if name != place.name:
            with live.file() as file:
                also[name] = sum(map(number, statuses(file)))
    return {
        "cluster": place.name, "also": {name: count for name, count in also.items() if count},
        "there": place.live.kafka if place.name else None,
    }  # fmt: skip
