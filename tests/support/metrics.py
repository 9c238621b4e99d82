"""Reads a page of metrics as Prometheus does."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.parser import text_string_to_metric_families

from conversations.testing import Simulation
from conversations_ops.metrics.exposition import exposition
from conversations_ops.metrics.workers import of_workers

Sample = tuple[str, dict[str, str], float]


class Page:
    """The samples of a page."""

    def __init__(self, text: bytes) -> None:
        self.samples: list[Sample] = [
            (it.name, it.labels, it.value)
            for family in text_string_to_metric_families(text.decode())
            for it in family.samples
        ]

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of the samples of a metric with these labels. There must be at least one."""
        found = [value for of, its, value in self.samples if of == name and labels.items() <= its.items()]
        assert found, f"{name} {labels} is not on the page"
        return sum(found)

    def names(self) -> set[str]:
        return {name for name, _, _ in self.samples}

    def has(self, name: str, **labels: str) -> bool:
        return any(of == name and labels.items() <= its.items() for of, its, _ in self.samples)


def page_of(sim: Simulation, *services: str) -> Page:
    """Return the page that a supervisor of these services would serve, with one worker for each."""
    return Page(exposition(of_workers(reports(sim, services))))


def reports(sim: Simulation, services: Iterable[str]) -> list[dict[str, object]]:
    told = {
        it: {"slot": f"{it}-1", "state": "running", "restarts": 0, "feeds": [], **sim.worker(it).condition()}
        for it in services
    }
    return [{"service": name, "workers": [worker]} for name, worker in told.items()]
