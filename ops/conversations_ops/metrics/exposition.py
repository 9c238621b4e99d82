"""Writes metrics for Prometheus, through prometheus-client. This package is in the extra ``ops``, so it is imported only here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from http import HTTPStatus
from itertools import accumulate
from types import ModuleType
from typing import Any, Final

from conversations.errors import LogError
from conversations.metrics import BOUNDS, Kind, Metric
from conversations_ops.metrics.readings import Readings, Value

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
"""Content type of ``exposition``."""


class ExtraMissing(LogError):
    """The package prometheus-client is not installed. It is in the extra ``ops``, because services run without it."""

    def __init__(self) -> None:
        super().__init__("metrics need prometheus-client: run pip install 'kafka-dialogs[ops]'")


class Collector:
    """A collector for a registry of prometheus-client. It reads the metrics anew for each scrape."""

    def __init__(self, read: Callable[[], Readings]) -> None:
        self._read = read

    def collect(self) -> Iterable[Any]:
        """Yield the families of metrics."""
        core = _core()
        for metric, values in self._read():
            yield _family(core, metric, values)

    def describe(self) -> Iterable[Any]:
        """Describe nothing, so that a registration reads no metrics."""
        return ()


def exposition(*readings: Readings) -> bytes:
    """Return metrics in the text format of Prometheus.

    Raises:
        ExtraMissing: prometheus-client is not installed.
    """
    _core()
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    for each in readings:
        registry.register(Collector(lambda it=each: it))  # type: ignore[misc]  # a collector is what has ``collect``
    return generate_latest(registry)


def page_of(*readings: Readings) -> tuple[int, str, bytes]:
    """Return the status, the content type and the body of a page of metrics. Without prometheus-client it says what to install."""
    try:
        return HTTPStatus.OK, CONTENT_TYPE, exposition(*readings)
    except ExtraMissing as error:
        return HTTPStatus.NOT_IMPLEMENTED, "text/plain; charset=utf-8", f"{error}\n".encode()


def where(health: str) -> str:
    """Return the address of the metrics beside an address of the health page, or why there are none."""
    try:
        check_installed()
    except ExtraMissing as error:
        return f"not served: {error}"
    return health.removesuffix("health") + "metrics"


def register_with(read: Callable[[], Readings], registry: Any = None) -> None:
    """Register a collector with a registry of prometheus-client, by default with its own.

    Raises:
        ExtraMissing: prometheus-client is not installed.
    """
    _core()
    from prometheus_client import REGISTRY

    (REGISTRY if registry is None else registry).register(Collector(read))


def check_installed() -> None:
    """Check that metrics can be written.

    Raises:
        ExtraMissing: prometheus-client is not installed.
    """
    _core()


def _core() -> ModuleType:
    try:
        from prometheus_client import core
    except ModuleNotFoundError as error:
        raise ExtraMissing from error
    return core


def _family(core: ModuleType, metric: Metric, values: dict[tuple[str, ...], Value]) -> Any:
    if metric.kind is Kind.HISTOGRAM:
        family = core.HistogramMetricFamily(metric.name, metric.text, labels=metric.labels)
        for labels, durations in values.items():
            family.add_metric(labels, _buckets(durations), durations[-1])  # type: ignore[index]  # a histogram has a list
        return family
    kind = core.CounterMetricFamily if metric.kind is Kind.COUNTER else core.GaugeMetricFamily
    family = kind(metric.name, metric.text, labels=metric.labels)
    for labels, value in values.items():
        family.add_metric(labels, value)
    return family


def _buckets(durations: Value) -> list[list[Any]]:
    """Return the upper bound of each interval, and the number of durations up to it."""
    counts: Sequence[float] = durations[:-1]  # type: ignore[index]  # a histogram has a list
    bounds = [*map(str, BOUNDS), "+Inf"]
    return [[bound, count] for bound, count in zip(bounds, accumulate(counts), strict=True)]
