"""The declaration of a service in the catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

Contracts = Mapping[str, Mapping[str, Sequence[str]]]
"""Names of message types: by the contract's name, then by the side that sends them: ``initiator``, ``target`` or ``any``."""


@dataclass(frozen=True)
class ServiceDeclaration:
    """The declaration of one service."""

    name: str
    accepts: Contracts = field(default_factory=dict)
    """Contracts of dialogs that the service accepts as their target."""
    initiates: Contracts = field(default_factory=dict)
    """Contracts of dialogs that the service begins."""
    retries: Sequence[str] = ()
    """Delays of its poison policies, written as in the names of retry topics, for example ``5s``."""
    bodies: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Version and schema of each message type's body, by the name of the type: ``{"version": 1, "schema": {...}}``."""
    state_version: int = 1
    """Version of the group state."""
    state: Mapping[str, Any] | None = None
    """JSON schema of the group state; None if it is a dict, or has no schema."""
    lifetime: timedelta = timedelta(0)
    """Longest lifetime in its contracts; unlimited lifetimes do not count.

    The longest lifetime is not in the catalog, but the retention of topics depends on it.
    """
    publishes: Sequence[str] = ()
    """Plain topics to which its handlers publish records."""
    reads: Sequence[str] = ()
    """Plain topics whose records begin its dialogs."""

    accepts_from: Sequence[str] = ()
    """Services that may begin dialogs with it; empty if every service may."""

    def entry(self, partitions: int) -> dict[str, Any]:
        """Return the value of the catalog's record: plain data. Equal declarations have equal values."""
        entry: dict[str, Any] = {
            "partitions": partitions, "accepts": _plain(self.accepts), "initiates": _plain(self.initiates),
        }  # fmt: skip
        further = {
            "retries": sorted(self.retries),
            "publishes": sorted(self.publishes),
            "reads": sorted(self.reads),
            "accepts_from": sorted(self.accepts_from),
            "bodies": {name: dict(body) for name, body in sorted(self.bodies.items())},
            "state_version": self.state_version if self.state_version > 1 else 0,
            "state": self.state,
        }
        return entry | {name: value for name, value in further.items() if value}


def _plain(contracts: Contracts) -> dict[str, dict[str, list[str]]]:
    return {
        name: {side: sorted(types) for side, types in sorted(sides.items())}
        for name, sides in sorted(contracts.items())
    }
