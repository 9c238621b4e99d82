"""The declaration of a service in the catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

Contracts = Mapping[str, Mapping[str, Sequence[str]]]
"""By contract name, the message types sent by ``initiator``, ``target`` or ``any``."""


@dataclass(frozen=True)
class ServiceDeclaration:
    """A service as the catalog keeps it."""

    name: str
    accepts: Contracts = field(default_factory=dict)
    """Contracts it is the target of."""
    initiates: Contracts = field(default_factory=dict)
    """Contracts it begins dialogs under."""
    retries: Sequence[str] = ()
    """Delays of its poison policies, as names of retry topics have them."""
    lifetime: timedelta = timedelta(0)
    """Longest that a contract lets a dialog live, those without end left out; not in the catalog, but its topics keep it."""

    def entry(self, partitions: int) -> dict[str, Any]:
        """Return the catalog's value: plain data, the same for the same declaration."""
        entry = {"partitions": partitions, "accepts": _plain(self.accepts), "initiates": _plain(self.initiates)}
        return entry | ({"retries": sorted(self.retries)} if self.retries else {})


def _plain(contracts: Contracts) -> dict[str, dict[str, list[str]]]:
    return {
        name: {side: sorted(types) for side, types in sorted(sides.items())}
        for name, sides in sorted(contracts.items())
    }
