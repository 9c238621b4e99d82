"""The values of metrics, before they are written for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from conversations.metrics import Metric

Value = float | Sequence[float]
"""A number; for a histogram the number of durations in each interval, those above all bounds, and the sum of all durations."""


class Readings:
    """Values of metrics, each with its labels, in the order in which they were added."""

    def __init__(self) -> None:
        self._found: dict[Metric, dict[tuple[str, ...], Value]] = {}

    def add(self, metric: Metric, labels: Sequence[object], value: Value) -> None:
        """Add a value. A second value with the same labels replaces the first one.

        Raises:
            ValueError: the metric has another number of labels.
        """
        if len(labels) != len(metric.labels):
            raise ValueError(f"{metric.name} has the labels {', '.join(metric.labels)}, not {len(labels)} of them")
        self._found.setdefault(metric, {})[tuple(map(str, labels))] = value

    def __iter__(self) -> Iterator[tuple[Metric, dict[tuple[str, ...], Value]]]:
        return iter(self._found.items())
