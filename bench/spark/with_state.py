"""Drops duplicates with ``transformWithState``: Python keeps a row of state for each direction of a dialog."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

DIRECTION = ("conversation_id", "to_target")


class Numbers(StatefulProcessor):
    """Remembers for a direction the first missing number, and the later numbers that have come."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._seen = handle.getValueState("seen", "next bigint, beyond array<bigint>")

    # Spark passes the arguments by these names.
    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: ARG002, N802, N803
        found = self._seen.get()
        following, beyond = (found[0], set(found[1])) if found else (0, set())
        for row in sorted(rows, key=lambda it: int(it.offset)):
            number = row.sequence
            if number is not None:
                if number < following or number in beyond:
                    continue
                beyond.add(number)
                while following in beyond:
                    beyond.remove(following)
                    following += 1
            yield row
        self._seen.update((following, sorted(beyond)))

    def close(self) -> None:
        """Do nothing."""


def once(messages: DataFrame) -> DataFrame:
    """Return a stream without the messages whose numbers have come before."""
    return messages.groupBy(*DIRECTION).transformWithState(Numbers(), messages.schema, "append", "none")
