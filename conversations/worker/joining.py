"""Joins the parts of a large body without keeping all of them in memory at the same time."""

from __future__ import annotations

from collections.abc import Iterable
from io import BytesIO

from conversations.interpreter import trim

LARGE = 16_000_000
"""Bytes of a body from which on memory that is free by now is given back to the system. The body comes again as other objects, so it would add to them."""


def join(parts: Iterable[bytes | memoryview]) -> bytes:
    """Return all parts, one behind the other. Each part is free before the next one is made; ``bytes.join`` would keep all of them."""
    whole = BytesIO()
    for part in parts:
        whole.write(part)
    if whole.tell() >= LARGE:
        trim()
    return whole.getvalue()
