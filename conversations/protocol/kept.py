"""The part of an endpoint's row that can change."""

from __future__ import annotations

from typing import NamedTuple


class Kept(NamedTuple):
    """The fields of an endpoint's row that can change, in the order of the row."""

    state: int
    next_in: int
    next_out: int
    acked: int
    told: int
    end_seq: int
    timer: int
    """-1 if no timer is set."""
    asked: int
    held: int
    """Number of held messages."""
    discarded: int
    dead_lettered: int
    code: int
    """0 if the dialog is not broken."""
    description: str
