"""Functions for columns of conversation ids; ``conversations.protocol.identifiers`` has functions for one id."""

from __future__ import annotations

from itertools import accumulate

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from conversations.protocol.identifiers import UUID_GROUPS


def uuid_text(conversation: Column) -> Column:
    """Write the 16 bytes of a conversation id as text."""
    digits, starts = F.lower(F.hex(conversation)), accumulate(UUID_GROUPS, initial=1)
    return F.concat_ws(
        "-", *(F.substring(digits, start, size) for start, size in zip(starts, UUID_GROUPS, strict=False))
    )


def drawn_at(conversation: Column) -> Column:
    """Read the time at which an id was made, to the millisecond, from the text of the id; null if the id is not a UUIDv7."""
    digits = F.concat(F.substring(conversation, 1, 8), F.substring(conversation, 10, 4))
    millis = F.conv(digits, 16, 10).cast("long")
    return F.when(F.substring(conversation, 15, 1) == "7", F.timestamp_millis(millis))
