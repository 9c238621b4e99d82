"""``conversations route``: which services live on another cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from conversations.kafka import admin
from conversations.kafka.catalog import read_catalog
from conversations.protocol.routes import Cluster
from conversations_ops.cli.kafka_options import Command, kafka_of
from conversations_ops.cli.output import Json, failures, show
from conversations_ops.console.exit_codes import EXIT_CODES
from conversations_ops.console.tables import as_text
from conversations_ops.printable import one_line

DEFAULT_PARTITIONS = 4
"""Number of partitions of a new transmission topic. At most this many forwarders can share its work."""

app = typer.Typer(
    help="Say which services live on another cluster. `conversations forward` carries the messages there.",
    no_args_is_help=True,
    epilog=EXIT_CODES,
)
Service = Annotated[str, typer.Argument(metavar="SERVICE", help="Name of the service.")]


@app.command("add", epilog=EXIT_CODES, cls=Command)
def add(
    context: typer.Context,
    service: Service,
    cluster: Annotated[str, typer.Option(help="A name for the other cluster, e.g. emea.")],
    at: Annotated[
        str,
        typer.Option(metavar="HOST:PORT", help="Addresses of brokers of the other cluster, with commas between them."),
    ],
    its_namespace: Annotated[
        str, typer.Option(help="Namespace of the service on the other cluster. Default: the one of --namespace.")
    ] = "",
    partitions: Annotated[
        int,
        typer.Option(min=1, max=10_000, help="Partitions of the transmission topic. All routes to a cluster share it."),
    ] = DEFAULT_PARTITIONS,
    replication: Annotated[
        int, typer.Option(min=-1, help="Replication factor of new topics; -1 is the broker's default.")
    ] = -1,
    as_json: Json = False,
) -> None:
    """Say that a service lives on another cluster, and create the topics that this needs.

    The services here write its messages into the transmission topic to that cluster. Add a route on the other cluster, too, for each
    service here that has dialogs with it, because answers and acknowledgements come back in the same way.

    \b
    Examples:
      conversations route add credit --cluster emea --at kafka.emea:9092 --bootstrap kafka.home:9092
      conversations route add loans --cluster home --at kafka.home:9092 --bootstrap kafka.emea:9092

    Exit codes: 0 done, 1 Kafka refused, 2 the service lives on this cluster, or the topic has another number of partitions, 3 Kafka unreachable.
    """
    kafka = kafka_of(context)
    with failures(as_json=as_json):
        there = Cluster(cluster, at, its_namespace or kafka.namespace, partitions)
        changes = admin.add_route(kafka, service, there, replication)
    told = changes or [f"Nothing to do: service {service} is on cluster {cluster}"]
    show({"service": service, "cluster": cluster, "changes": changes}, "\n".join(map(one_line, told)), as_json=as_json)


@app.command("remove", epilog=EXIT_CODES, cls=Command)
def remove(context: typer.Context, service: Service, as_json: Json = False) -> None:
    """Remove the route of a service. Messages in the transmission topic are still carried.

    \b
    Example:
      conversations route remove credit
    """
    kafka = kafka_of(context)
    with failures(as_json=as_json):
        admin.remove_route(kafka, service)
    show({"service": service, "removed": True}, f"service {service} has no route any more", as_json=as_json)


@app.command("list", epilog=EXIT_CODES, cls=Command)
def list_routes(context: typer.Context, as_json: Json = False) -> None:
    """List the services that live on another cluster.

    \b
    Example:
      conversations route list
    """
    kafka = kafka_of(context)
    with failures(as_json=as_json):
        catalog = read_catalog(kafka)
    found = [
        (service, cluster) for service in sorted(catalog.routes) if (cluster := catalog.route(service)) is not None
    ]
    rows = [(service, it.name, it.bootstrap, it.namespace, it.partitions) for service, it in found]
    data = [{"service": service, "cluster": it.name, **it._asdict()} for service, it in found]
    for it in data:
        del it["name"]
    headers = ("SERVICE", "CLUSTER", "BROKERS", "NAMESPACE", "PARTITIONS")
    show({"routes": data}, as_text(headers, rows) if rows else "every service lives on this cluster", as_json=as_json)
