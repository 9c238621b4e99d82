"""``conversations acl`` prints the least rights of a role on Kafka."""

from __future__ import annotations

from typing import Annotated

import typer

from conversations.errors import DeclarationError
from conversations.protocol.topics import check_name
from conversations_ops.cli.declarations import Targets, entered_all
from conversations_ops.cli.kafka_options import Command, namespace_of
from conversations_ops.cli.output import Json, failures, show
from conversations_ops.console.exit_codes import EXIT_CODES
from conversations_ops.console.tables import as_text
from conversations_ops.operate.rights import ROLES, command_of, rights_of, rights_to
from conversations_ops.printable import one_line

app = typer.Typer()


@app.command("acl", epilog=EXIT_CODES, cls=Command)
def acl(
    context: typer.Context,
    targets: Targets,
    role: Annotated[str, typer.Option(help=f"One of {', '.join(ROLES)}.")] = "worker",
    service: Annotated[str, typer.Option(help="Only the rights on this service.")] = "",
    cluster: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Another cluster to which routes of this one lead; may be given several times."
        ),
    ] = None,
    principal: Annotated[str, typer.Option(help="With --commands: who gets the rights, for example User:web.")] = "",
    commands: Annotated[bool, typer.Option("--commands", help="Print lines for kafka-acls.sh.")] = False,
    as_json: Json = False,
) -> None:
    """Print the least rights of a role. Needs no Kafka, and grants nothing.

    Give all services that have dialogs with each other, because a worker needs WRITE on the queues of its peers.
    For spark, operator and console, give all services of the namespace, because they look at all of them.

    If services live on another cluster, name it with --cluster. A forwarder has two roles: forwarder on the cluster that it reads, and forwarder-there on
    the other one, where the targets are the services to which it carries messages.

    \b
    Examples:
      conversations acl shop.orders:service shop.billing:service --service orders
      conversations acl shop.orders:service shop.billing:service --role operator --principal User:ann --commands
      conversations acl shop.orders:service --role client --principal User:web --commands
      conversations acl shop.orders:service --role forwarder --cluster emea --principal User:carrier --commands

    Exit codes: 0 printed, 2 the role or the service is unknown, or a target cannot be found.
    """
    if commands and not principal:
        raise typer.BadParameter(
            "--commands needs --principal: the lines grant rights to somebody, for example User:web"
        )
    namespace = namespace_of(context)
    with failures(as_json=as_json), entered_all(targets) as found:
        if role not in ROLES:
            raise DeclarationError(f"there is no role {role!r:.80}: use one of {', '.join(ROLES)}")
        every = [it.service.declaration() for it in found]
        chosen = [it for it in every if service in ("", it.name)]
        if not chosen:
            raise DeclarationError(f"no target is the service {service!r:.80}")
        if role == "forwarder" and not cluster:
            raise DeclarationError("a forwarder carries to a cluster: give --cluster, as `route add` named it")
        rights = list(dict.fromkeys(right for it in chosen for right in rights_of(role, namespace, it, every)))
        rights += rights_to(role, namespace, [check_name("cluster", it) for it in dict.fromkeys(cluster or ())])
        lines = [one_line(command_of(right, principal)) for right in rights]
        text = "\n".join(lines) if commands else as_text(("RESOURCE", "NAME", "PATTERN", "OPERATION", "WHY"), rights)
        show({"role": role, "rights": [right._asdict() for right in rights]}, text, as_json=as_json)
