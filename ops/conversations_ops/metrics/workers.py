"""The metrics of the workers of one `conversations run`, from the reports that its health page shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from conversations.metrics import FED, FEED_TROUBLE, REGISTRY, RESTARTS, WORKERS, Kind, Metric, Source
from conversations_ops.host.supervisor import STATES
from conversations_ops.metrics.readings import Readings

_OUTCOMES: Final = ("begun", "skipped", "refused")
_OF_WORKER: Final = tuple(it for it in REGISTRY if it.source is Source.WORKER and it not in (FED, FEED_TROUBLE))


def of_workers(services: Iterable[Mapping[str, Any]]) -> Readings:
    """Return the metrics of the workers in ``Supervisor.services``.

    A worker without a report, for example because its process starts again, has only its state and the number of its restarts.
    """
    found = Readings()
    for service in services:
        name, states = service["service"], Counter(worker["state"] for worker in service["workers"])
        for state in STATES:
            found.add(WORKERS, (name, state), states[state])
        for worker in service["workers"]:
            labels = (name, worker["slot"])
            found.add(RESTARTS, labels, worker["restarts"])
            if worker["counts"]:
                for metric in _OF_WORKER:
                    _add(found, metric, labels, worker)
                _add_feeds(found, labels, worker["feeds"])
    return found


def _add(found: Readings, metric: Metric, labels: tuple[str, str], worker: Mapping[str, Any]) -> None:
    first, _, rest = metric.field.partition(".")
    value = worker[first]
    if first == "partitions" and rest:
        for partition in value:
            if (of_one := partition[rest]) is not None:
                found.add(metric, (*labels, partition["partition"]), _number(of_one))
    elif metric.kind is Kind.HISTOGRAM:
        for name, durations in value[rest].items() if len(metric.labels) > 2 else [("", value[rest])]:
            found.add(metric, (*labels, name)[: len(metric.labels)], durations)
    elif first == "kafka":
        found.add(metric, labels, 0.0 if value is None else value[rest])
    elif value is not None:
        found.add(metric, labels, _number(value[rest] if rest else value))


def _number(value: Any) -> float:
    """Return a number as it is, the length of a list, and 1 or 0 for a text or a truth value."""
    if isinstance(value, list):
        return len(value)
    return float(bool(value)) if isinstance(value, str | bool) else value


def _add_feeds(found: Readings, labels: tuple[str, str], feeds: Iterable[Mapping[str, Any]]) -> None:
    for feed in feeds:
        for outcome in _OUTCOMES:
            found.add(FED, (*labels, feed["topic"], outcome), feed[outcome])
        found.add(FEED_TROUBLE, (*labels, feed["topic"]), _number(feed["trouble"]))
