"""The routes to other clusters, and the partitions without an owner, for the pages. Kafka is asked beside the requests, so that no page waits for it."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from threading import Lock, Thread
from types import MappingProxyType
from typing import NamedTuple

from conversations.config import Kafka
from conversations.errors import DeclarationError, LogError
from conversations_ops.read_model.live import Live
from conversations_ops.read_model.services import service_names
from conversations_ops.read_model.status import Unowned, statuses
from conversations_ops.why.routes import Route, routes_of
from conversations_ops.why.unowned import unowned_partitions

log = logging.getLogger("conversations.ops")
OLD = 5.0
"""Seconds after which a page lets Kafka be asked again. Nobody asks while nobody looks."""


class Board(NamedTuple):
    """What is known about the routes and the workers of one cluster."""

    routes: Sequence[Route] = ()
    unowned: Mapping[str, Unowned] = MappingProxyType({})
    """The services of which some partitions have no owner."""
    trouble: str = ""
    """Why the last look failed; empty if it did not."""


class Boards:
    """The routes and the workers of each cluster, as they were a few seconds ago.

    Args:
        lives: the read models, by the names of the clusters. This cluster has no name.
    """

    def __init__(self, lives: Mapping[str, Live]) -> None:
        self._lives = lives
        self._known: dict[str, Board] = {}
        self._asked: dict[str, float] = {}
        self._looking: set[str] = set()
        self._lock = Lock()

    def of(self, cluster: str) -> Board | None:
        """Return what is known about the routes and the workers of a cluster; None before the first look. If it is old, a look begins."""
        now = time.monotonic()
        with self._lock:
            begin = cluster not in self._looking and now - self._asked.get(cluster, -OLD) >= OLD
            if begin:
                self._looking.add(cluster)
            known = self._known.get(cluster)
        if begin:
            Thread(target=self._look, args=(cluster,), name=f"routes of {cluster or 'here'}", daemon=True).start()
        return known

    def _look(self, cluster: str) -> None:
        live = self._lives[cluster]
        before = self._known.get(cluster, Board())
        try:
            with live.file() as file:
                unowned = unowned_partitions(live.kafka, file, statuses(file))
                before = before._replace(unowned=unowned)
                found = Board(
                    routes_of(
                        live.kafka, file, lambda name, peers: self._reach(cluster, name, peers), time.time_ns() // 1_000
                    ),
                    unowned,
                )
        except (LogError, DeclarationError) as error:
            found = before._replace(trouble=str(error))
        except Exception as error:
            found = before._replace(trouble=type(error).__name__)
            log.exception("the routes and workers of the cluster %s cannot be looked at", cluster or "here")
        with self._lock:
            self._known[cluster] = found
            self._asked[cluster] = time.monotonic()
            self._looking.discard(cluster)

    def _reach(self, cluster: str, name: str, peers: Collection[str]) -> Kafka | None:
        """Return how to reach a cluster that another one names; None if this console does not look at it, or cannot read it now."""
        if not cluster:
            there = self._lives.get(name)
            return None if there is None or there.progress.trouble else there.kafka
        with self._lives[""].file() as file:
            mine = service_names(file)
        return self._lives[""].kafka if set(mine).intersection(peers) else None
