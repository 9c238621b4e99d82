"""Headers of records as columns."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it


def header(name: str) -> Column:
    """Return the value of the first header with a name; null if there is none, or if it has no value."""
    # No lambda function: Spark interprets lambda functions row by row.
    place = F.array_position(F.col("headers")["key"], name).cast("int")
    return F.get(F.col("headers")["value"], place - 1)


def has_header(name: str) -> Column:
    """Return a column that is true if a record has a header with a name."""
    return F.coalesce(F.array_contains(F.col("headers")["key"], name), F.lit(False))
