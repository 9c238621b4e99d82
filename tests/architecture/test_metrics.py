"""The metrics, the alerts, their runbooks and the dashboards belong together."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conversations.metrics import BOUNDS, REGISTRY, Kind, Metric
from conversations.worker.counts import Counts
from tests.support.command_lines import check_command

ROOT = Path(__file__).resolve().parents[2]
ALERTS = ROOT / "ops" / "prometheus" / "alerts.yml"
UNIT_TESTS = ALERTS.with_name("alerts_test.yml")
RUNBOOKS = ROOT / "ops" / "runbooks"
DASHBOARDS = sorted((ROOT / "ops" / "grafana").glob("*.json"))
SUFFIXES = ("_bucket", "_count", "_sum")
"""What Prometheus adds to the name of a histogram."""
BOUNDED = {"service", "worker", "partition", "handler", "topic", "outcome", "state", "cluster"}
"""Labels that have few values."""


def in_registry(name: str) -> Metric | None:
    known = {it.name: it for it in REGISTRY}
    found = known.get(name)
    for suffix in SUFFIXES:
        histogram = known.get(name.removesuffix(suffix))
        if name.endswith(suffix) and histogram is not None and histogram.kind is Kind.HISTOGRAM:
            found = histogram
    return found


def names(expression: str) -> set[str]:
    """Return the metrics that an expression of Prometheus names."""
    return set(re.findall(r"\bconversations_\w+", expression))


def queries(value: Any) -> Iterator[str]:
    """Return the expressions of a dashboard, those of its variables among them."""
    if isinstance(value, dict):
        yield from (it for key in ("expr", "query") if isinstance(it := value.get(key), str))
        value = list(value.values())
    if isinstance(value, list):
        for it in value:
            yield from queries(it)


def panels(path: Path) -> list[dict[str, Any]]:
    return [it for it in json.loads(path.read_text())["panels"] if it["type"] != "row"]


# -- the registry ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", REGISTRY, ids=lambda it: it.name)
def test_a_metric_follows_the_rules_of_prometheus(metric: Metric) -> None:
    assert re.fullmatch(r"conversations_[a-z]+(_[a-z]+)*", metric.name)
    assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER)
    assert metric.name.endswith("_seconds") == (metric.unit == "seconds")
    assert set(metric.labels) <= BOUNDED
    assert metric.text.endswith(".")
    assert metric.text[0].isupper() or metric.text[0] == "1"


def test_a_name_is_declared_once() -> None:
    assert [name for name, count in Counter(it.name for it in REGISTRY).items() if count > 1] == []
    assert list(BOUNDS) == sorted(set(BOUNDS))


def test_every_count_of_a_worker_is_a_metric_and_every_metric_of_counts_is_counted() -> None:
    fields = {it.field.removeprefix("counts.") for it in REGISTRY if it.field.startswith("counts.")}
    assert fields == Counts().plain().keys()


def test_the_page_of_metrics_is_current() -> None:
    done = subprocess.run([sys.executable, "docs/make_metrics.py", "--check"], cwd=ROOT, check=False)
    assert done.returncode == 0


# -- alerts ------------------------------------------------------------------------------------------------------------


def alerts() -> dict[str, str]:
    """Return the text of each alert by its name."""
    parts = re.split(r"^ +- alert: ", ALERTS.read_text(), flags=re.MULTILINE)[1:]
    return {part.partition("\n")[0]: part for part in parts}


def test_every_metric_of_an_alert_is_declared() -> None:
    texts = [ALERTS.read_text(), UNIT_TESTS.read_text()]
    used = {name for text in texts for name in names(text)} - {"conversations_alerts"}
    assert len(used) > 15
    assert {name for name in used if in_registry(name) is None} == set()


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    named = {
        name: re.findall(r"runbook: ops/runbooks/([\w-]+\.md)$", it, re.MULTILINE) for name, it in alerts().items()
    }
    assert {name for name, found in named.items() if len(found) != 1} == set()
    assert {found for (found,) in named.values()} == {path.name for path in RUNBOOKS.iterdir()}


def test_every_alert_has_a_unit_test_in_which_it_fires_and_one_in_which_it_is_quiet() -> None:
    text = UNIT_TESTS.read_text()
    for name in alerts():
        assert len(re.findall(rf"\balertname: {name}$", text, re.MULTILINE)) == 1, f"{name} is expected to fire"
        assert len(re.findall(rf"\balertname: {name}}}$", text, re.MULTILINE)) == 1, f"{name} is expected to be quiet"


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is missing: apt-get install prometheus")
    return subprocess.run([program, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "config", "ops/prometheus/prometheus.yml"),
        ("check", "rules", "ops/prometheus/alerts.yml"),
        ("test", "rules", "ops/prometheus/alerts_test.yml"),
    ],
    ids=" ".join,
)
def test_promtool_accepts_the_rules_and_each_alert_does_what_its_unit_test_says(arguments: tuple[str, ...]) -> None:
    done = promtool(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr


# -- runbooks ------------------------------------------------------------------------------------------------------------


def commands(path: Path) -> list[list[str]]:
    """Return the command lines of a runbook."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL)
    return [shlex.split(line) for block in blocks for line in block.splitlines()]


@pytest.mark.parametrize("path", sorted(RUNBOOKS.glob("*.md")), ids=lambda it: it.stem)
def test_every_command_of_a_runbook_is_understood(path: Path) -> None:
    """The command line reads it with all its options, and does not run it."""
    found = commands(path)
    assert found
    assert path.read_text().count("```") == 2 * path.read_text().count("```sh\n"), "every block is one of commands"
    for program, *arguments in found:
        if program == "curl":
            assert arguments[-1].startswith("http://127.0.0.1:")
            continue
        assert program == "conversations"
        check_command(shlex.join([program, *arguments]), complete=True)


def test_links_of_runbooks_lead_to_runbooks() -> None:
    links = {link for path in RUNBOOKS.iterdir() for link in re.findall(r"\]\(([^)]+)\)", path.read_text())}
    assert links
    assert {link for link in links if not (RUNBOOKS / link).is_file()} == set()


# -- dashboards ------------------------------------------------------------------------------------------------------------


def test_there_are_dashboards() -> None:
    assert len(DASHBOARDS) == 3


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda it: it.stem)
def test_a_dashboard_asks_only_for_metrics_that_are_declared_and_by_labels_that_they_have(path: Path) -> None:
    asked = list(queries(json.loads(path.read_text())))
    assert {name for query in asked for name in names(query) if in_registry(name) is None} == set()
    for query in asked:
        for name, matchers in re.findall(r"\b(conversations_\w+)\{([^}]*)\}", query):
            metric = in_registry(name)
            assert metric is not None
            assert set(re.findall(r"(\w+)=", matchers)) <= set(metric.labels), query
        grouped = {label for group in re.findall(r"by \(([^)]*)\)", query) for label in group.split(", ")} - {"le"}
        known = {label for name in names(query) if (metric := in_registry(name)) for label in metric.labels}
        assert grouped <= known, query


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda it: it.stem)
def test_a_dashboard_can_be_read(path: Path) -> None:
    """Each panel has a title, says what it shows, has its own place, and asks the chosen data source for the chosen services."""
    board = json.loads(path.read_text())
    assert {it["name"] for it in board["templating"]["list"]} == {"datasource", "service"}
    assert board["uid"] == f"conversations-{path.stem}"
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
    assert len({it["id"] for it in board["panels"]}) == len(board["panels"])
    for panel in panels(path):
        assert panel["title"]
        assert panel["description"].endswith(".")
        assert panel["fieldConfig"]["defaults"]["unit"]
        for target in panel["targets"]:
            assert target["datasource"]["uid"] == "${datasource}"
            assert '{service=~"$service"' in target["expr"]
            assert target["legendFormat"]
        for runbook in re.findall(r"Runbook: ([\w-]+)\.", panel["description"]):
            assert (RUNBOOKS / f"{runbook}.md").is_file()


def test_every_metric_of_a_worker_or_a_supervisor_is_on_a_dashboard_or_in_an_alert() -> None:
    """Except those that only explain another one."""
    shown = {name for path in DASHBOARDS for query in queries(json.loads(path.read_text())) for name in names(query)}
    shown |= names(ALERTS.read_text())
    left = {it.name for it in REGISTRY} - {it.name for name in shown if (it := in_registry(name)) is not None}
    assert left == {
        "conversations_brakes_total",
        "conversations_clock_off_seconds",
        "conversations_client_commands_appended_total",
        "conversations_client_commands_refused_total",
        "conversations_commands_carried_out_total",
        "conversations_destinations_blocked",
        "conversations_feed_records_total",
        "conversations_forwarder_bytes_total",
        "conversations_forwarder_envelopes_total",
        "conversations_forwarder_failures_total",
        "conversations_forwarder_last_success_seconds",
        "conversations_forwarder_partitions",
        "conversations_forwarder_transactions_total",
        "conversations_messages_left_to_sender_total",
        "conversations_partition_early_dialogs",
        "conversations_partition_rollbacks_in_a_row",
        "conversations_partitions_restored_total",
    }
