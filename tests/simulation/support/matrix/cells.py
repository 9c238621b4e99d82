"""The cells of the matrix: how each side of a dialog ends it, and in what state the messages are until then."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import gcd
from typing import Any

from conversations.protocol.contract import Resend


class Finish(Enum):
    """How a side ends its dialog."""

    NOTHING = "nothing"
    END = "end"
    ERROR = "error"
    CLEANUP = "cleanup"
    """An operator closes the side, and the peer is told nothing."""


class Wait(Enum):
    """What the messages to a side wait for."""

    NOTHING = "nothing"
    PARKED = "parked"
    """A policy has their handler called again later."""
    HELD = "held"
    """Their policy holds the dialog until an operator decides."""


class First(Enum):
    """The side that ends the dialog first."""

    INITIATOR = "initiator"
    TARGET = "target"
    BOTH = "both"
    """Neither knows of the other's end."""


@dataclass(frozen=True)
class Cell:
    """One combination."""

    initiator: Finish
    target: Finish
    first: First
    to_initiator: Wait
    to_target: Wait
    breaks: bool
    """True if messages of the initiator are missing, so that the dialog breaks, and the initiator asks what was accepted."""
    delayed_to_target: bool
    """True if the target's queue takes no records while the sides end the dialog."""
    delayed_to_initiator: bool
    limited: bool
    """True if the lifetime ends."""
    resend: Resend

    def __str__(self) -> str:
        said = {name: value.value if isinstance(value, Enum) else value for name, value in self.__dict__.items()}
        return ", ".join(f"{name} {value}" for name, value in said.items())


DIMENSIONS: dict[str, tuple[Any, ...]] = {
    "initiator": tuple(Finish),
    "target": tuple(Finish),
    "first": tuple(First),
    "to_initiator": tuple(Wait),
    "to_target": tuple(Wait),
    "breaks": (False, True),
    "delayed_to_target": (False, True),
    "delayed_to_initiator": (False, True),
    "limited": (False, True),
    "resend": tuple(Resend),
}
CELLS = 1
for _values in DIMENSIONS.values():
    CELLS *= len(_values)
_STRIDE = 7_919
"""Distance of the cells of two seeds that follow each other, so that a few seeds have cells of every kind."""
if gcd(_STRIDE, CELLS) != 1:
    raise AssertionError("some cells would have no seed")


def cell_of(seed: int) -> Cell:
    """Return the cell of a seed. ``CELLS`` seeds that follow each other have all cells."""
    rest, chosen = seed * _STRIDE % CELLS, {}
    for name, values in DIMENSIONS.items():
        rest, at = divmod(rest, len(values))
        chosen[name] = values[at]
    return Cell(**chosen)
