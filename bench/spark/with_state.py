"""Each message once by ``transformWithState``: a row of state for a dialog's direction, kept by Python."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

DIRECTION = ("conversation_id", "to_target")


class Numbers(StatefulProcessor):
    """Remembers of a direction up to which number it has all, and which ones beyond."""

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
        """Nothing to do."""


def once(messages: DataFrame) -> DataFrame:
    """Leave out of a stream the messages whose number came before."""
    return messages.groupBy(*DIRECTION).transformWithState(Numbers(), messages.schema, "append", "none")
