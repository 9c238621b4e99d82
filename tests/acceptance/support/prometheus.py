"""A real Prometheus, which reads the pages of real supervisors and evaluates the alerts of the repository."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.support.command_line import ROOT
from tests.support.waiting import until

ALERTS = ROOT / "ops" / "prometheus" / "alerts.yml"
SHORTER = (
    (r"for: \d+m", "for: 1s"),  # an alert must hold for two evaluations, not for minutes
    (r"oldest_wait_seconds\) > 3600", "oldest_wait_seconds) > 1"),
    (r"lag_records\) > 1000", "lag_records) > 5"),
    (r"away_seconds\) > 60", "away_seconds) > 1"),
    (r"behind_seconds\) > 300", "behind_seconds) > 2"),
    (r"restarts_total\[15m\]\)\) > 3", "restarts_total[15m])) > 0"),
    (r"in_doubt_total\[10m\]\)\) > 5", "in_doubt_total[10m])) > 0"),
)
"""What a test cannot wait for, or cannot cause often enough, and what stands for it. Everything else of the rules is as it is."""


def shorter_rules() -> str:
    """Return the rules with shorter times and lower numbers."""
    text = ALERTS.read_text()
    for pattern, instead in SHORTER:
        text, times = re.subn(pattern, instead, text)
        assert times, f"{pattern} is not in the rules any more"
    return text


class Prometheus:
    """A Prometheus that runs."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.fired: set[str] = set()
        """Names of the alerts that have fired, as far as ``fires`` has waited for them."""

    def firing(self) -> dict[str, set[str]]:
        """Return the names of the alerts that fire, each with its services; "" if it has none."""
        found: dict[str, set[str]] = {}
        for alert in self._ask("alerts")["alerts"]:
            if alert["state"] == "firing":
                found.setdefault(alert["labels"]["alertname"], set()).add(alert["labels"].get("service", ""))
        return found

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the present result of an expression."""
        return list(self._ask("query", query=expression)["result"])

    def is_up(self) -> bool:
        """Return True if Prometheus answers queries."""
        try:
            with urllib.request.urlopen(f"{self._address}/-/ready", timeout=10) as answer:
                return bool(answer.status == 200)
        except urllib.error.URLError:
            return False

    def fires(self, alert: str, service: str) -> None:
        """Wait until an alert fires for a service."""
        name = f"Conversations{alert}"
        until(lambda: service in self.firing().get(name, set()), f"{name} fires for {service or 'a target'}", pause=0.2)
        self.fired.add(name)

    def _ask(self, what: str, **parameters: str) -> dict[str, Any]:
        asked = f"{self._address}/api/v1/{what}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(asked, timeout=10) as answer:
                return dict(json.load(answer)["data"])
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(f"{parameters}: {error.read().decode()}") from error


@contextmanager
def prometheus(directory: Path, jobs: Mapping[str, Sequence[str]]) -> Iterator[Prometheus]:
    """Run a Prometheus that reads pages of metrics once a second. ``jobs`` has the addresses ``HOST:PORT`` by the name of the job."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("prometheus is missing: apt-get install prometheus")
    scrapes = [{"job_name": job, "static_configs": [{"targets": list(targets)}]} for job, targets in jobs.items()]
    (directory / "alerts.yml").write_text(shorter_rules())
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["alerts.yml"],
        "scrape_configs": scrapes,
    }
    (directory / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [
            program, f"--config.file={directory / 'prometheus.yml'}", f"--storage.tsdb.path={directory / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}", "--log.level=error",
        ],
    )  # fmt: skip
    try:
        found = Prometheus(f"http://127.0.0.1:{port}")
        until(found.is_up, "Prometheus answers")
        yield found
    finally:
        process.terminate()
        process.wait(30)
