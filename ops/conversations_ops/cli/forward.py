"""``conversations forward``: carries messages to another cluster."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from conversations.config import Kafka
from conversations.interpreter import relax
from conversations.kafka.catalog import read_catalog
from conversations.kafka.forwarder import Forwarder
from conversations.kafka.forwarding_report import Report
from conversations.run import stopped_by_signals
from conversations_ops.cli.kafka_options import Command, kafka_of, settings_of
from conversations_ops.cli.output import Json, failures, show
from conversations_ops.console import log_lines
from conversations_ops.console.exit_codes import EXIT_CODES
from conversations_ops.host.health import TIMEOUT, served
from conversations_ops.metrics.exposition import page_of, where
from conversations_ops.metrics.forwarders import of_forwarder
from conversations_ops.operate.other_clusters import other_cluster
from conversations_ops.printable import counted
from conversations_ops.settings.given import clients_in

app = typer.Typer()
log = logging.getLogger("conversations.forwarder")


@app.command("forward", epilog=EXIT_CODES, cls=Command)
def forward(
    context: typer.Context,
    cluster: Annotated[str, typer.Argument(metavar="CLUSTER", help="The other cluster, as `route add` named it.")],
    its_settings: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", dir_okay=False, help="File of NAME=VALUE lines for the other cluster: login, TLS."
        ),
    ] = None,
    health: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Port for GET /health, /ready, /live and /metrics; 0 picks a free port."),
    ] = None,
    health_host: Annotated[str, typer.Option(help="Address on which the health page listens.")] = "127.0.0.1",
    log_level: Annotated[str, typer.Option(help=f"Lowest level to log: {', '.join(log_lines.LEVELS)}.")] = "info",
    as_json: Json = False,
) -> None:
    """Carry messages to another cluster until Ctrl-C or SIGTERM.

    Each message is appended there exactly once and in the order of its dialog: the position is kept on the other cluster, in the
    transaction that appends. Run as many as you like, on any machines: they share the partitions of the transmission topic. If one is
    killed, another one goes on. While a cluster is away, nothing is lost, and the forwarder tries again.

    A forwarder works in one direction. Run another one on the other cluster for the answers.

    \b
    Examples:
      conversations forward emea --bootstrap kafka.home:9092
      conversations forward emea --health 8081    # curl localhost:8081/health; Prometheus reads /metrics there
      conversations forward home --bootstrap kafka.emea:9092 --its-settings home.settings

    Exit codes: 0 stopped by a signal, 1 Kafka refused, 2 there is no route to the cluster, 3 Kafka unreachable at the start.
    """
    kafka = kafka_of(context, settings_of(context))
    if log_level.lower() not in log_lines.LEVELS:
        raise typer.BadParameter(f"--log-level {log_level}: one of {', '.join(log_lines.LEVELS)}")
    log_lines.configure("forward", level=log_level, as_json=as_json)
    with failures(as_json=as_json):
        forwarder = _forwarder(kafka, cluster, its_settings)
        relax()
        thread = threading.Thread(target=forwarder.run, name=f"forwarder to {cluster}")
        with _page(forwarder.report, cluster, health_host, health), stopped_by_signals(forwarder.stop):
            thread.start()
            while thread.is_alive():
                thread.join(1.0)  # a join without a time limit would not be ended by a signal
    done = forwarder.carried
    text = f"carried {counted(done.envelopes, 'envelope')} in {counted(done.transactions, 'transaction')}"
    show({"cluster": cluster, **done._asdict()}, text, as_json=as_json)


@contextmanager
def _page(report: Report, cluster: str, host: str, port: int | None) -> Iterator[None]:
    """Serve the health page and the metrics, if a port is given."""
    if port is None:
        yield
        return

    def services() -> list[dict[str, Any]]:
        it = report.condition
        states = {"state": "unreachable" if report.trouble else "running", "trouble": report.trouble}
        numbers = {**report.carried._asdict(), "lag": it.lag, "partitions": list(it.partitions)}
        return [{"service": f"forward {cluster}", "workers": [{**states, **numbers}]}]

    def metrics() -> tuple[int, str, bytes]:
        return page_of(of_forwarder(cluster, report, time.time()))

    with ExitStack() as stack:
        try:
            address = stack.enter_context(served(host, port, services, TIMEOUT, metrics))
        except OSError as error:
            raise typer.BadParameter(f"--health {port}: {error.strerror}") from error
        log.info("health %s, metrics %s", address, where(address))
        yield


def _forwarder(kafka: Kafka, cluster: str, its_settings: Path | None) -> Forwarder:
    catalog = read_catalog(kafka)
    settings = {} if its_settings is None else clients_in(str(its_settings))
    there = other_cluster(catalog, kafka.namespace, cluster, settings)
    return Forwarder(kafka, catalog.clusters[cluster], there)
