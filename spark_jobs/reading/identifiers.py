"""Ids of conversations as columns."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it


def uuid_text(conversation: Column) -> Column:
    """Write the 16 bytes of a conversation id as text."""
    digits = F.lower(F.hex(conversation))
    parts = [F.substring(digits, start, size) for start, size in ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))]
    return F.concat_ws("-", *parts)
