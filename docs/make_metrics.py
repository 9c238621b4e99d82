"""Write docs/metrics.md from the registry of metrics, ``conversations.metrics``.

python docs/make_metrics.py           write the page
python docs/make_metrics.py --check   exit with 1 if the committed page is stale
"""

from __future__ import annotations

import sys
from pathlib import Path

from conversations.metrics import BOUNDS, REGISTRY, Metric, Source

PAGE = Path(__file__).with_name("metrics.md")
TEXT = f"""# Metrics

<!-- made by `make docs` from conversations/metrics.py -->

`conversations run TARGET --health 8080` serves metrics for Prometheus at `http://127.0.0.1:8080/metrics`, beside its health page. They need
the extra `ops` (`pip install 'kafka-dialogs[ops]'`); without it the page says so with status 501, and everything else works. The supervisor
gets the numbers of its workers once a second, together with their health. So the page asks no worker, and a scrape costs a worker nothing.

The folder `ops` of the repository has what belongs to them:

* `ops/prometheus/alerts.yml`: alerts. Each has a runbook in `ops/runbooks`, with the commands to look and to mend.
* `ops/prometheus/prometheus.yml`: a configuration with the jobs that the alerts and dashboards need.
* `ops/grafana`: three dashboards. *Services* and *workers* are made of what workers report, *namespace* of the read model.

A counter begins again at 0 when its process starts again. A worker whose process starts again has no metrics but its state and its restarts
until it reports again. Histograms have the bounds {", ".join(f"{it:g}" for it in BOUNDS)} seconds. Labels: `service` and `worker` (the slot) name a worker,
`cluster` the other cluster of a forwarder, `partition` is the number of a partition, `handler` the name of a handler function. No label names a dialog. A later version may add metrics.
"""
COLUMNS = "\n| metric | kind | labels | counts | says |\n|---|---|---|---|---|\n"
ABOUT = {
    Source.WORKER: ("Of workers", "Served by the supervisor of `conversations run`."),
    Source.SUPERVISOR: ("Of the supervisor", "Served by the supervisor of `conversations run`."),
    Source.FORWARDER: ("Of forwarders", "Served by `conversations forward emea --health 8081`, for each process."),
    Source.CLIENT: (
        "Of clients",
        "An application serves them with its own metrics: `conversations_ops.metrics.clients.register(client)`.",
    ),
    Source.READ_MODEL: (
        "Of the read model",
        "Of all services of a namespace, whether or not a worker runs: `conversations_ops.metrics.services.of_services(file)`.",
    ),
}


def row(metric: Metric) -> str:
    """Return the row of a metric."""
    cells = (f"`{metric.name}`", metric.kind, ", ".join(metric.labels), metric.unit or "0 or 1", metric.text)
    return "| " + " | ".join(cells) + " |"


def page() -> str:
    """Return the text of docs/metrics.md."""
    parts = [TEXT]
    for source, (title, about) in ABOUT.items():
        table = "\n".join(row(it) for it in REGISTRY if it.source is source)
        parts.append(f"## {title}\n\n{about}\n{COLUMNS}{table}\n")
    return "\n".join(parts)


def main() -> int:
    """Write the page, or check it."""
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    if PAGE.read_text(encoding="utf-8") == page():
        return 0
    print("docs/metrics.md is stale: run make docs")
    return 1


if __name__ == "__main__":
    sys.exit(main())
