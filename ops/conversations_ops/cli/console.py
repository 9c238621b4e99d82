"""``conversations console``: the web console."""

from __future__ import annotations

import getpass
import re
import signal
import threading
import webbrowser
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from conversations.errors import DeclarationError
from conversations_ops.cli.clusters import AlsoAt, clusters_of
from conversations_ops.cli.kafka_options import Command, kafka_of
from conversations_ops.cli.option_errors import about_option
from conversations_ops.cli.output import failures
from conversations_ops.cli.users import FileOption, users_file
from conversations_ops.console.exit_codes import EXIT_CODES
from conversations_ops.console.times import span

if TYPE_CHECKING:  # the web console is an extra; its modules are imported when it is asked for
    from conversations_ops.web.desk import Desk, Links
    from conversations_ops.web.server import Listen

app = typer.Typer()
PORT = 8765
_ADDRESS = re.compile(r"(?:(?P<host>\[[0-9a-fA-F:.]+\]|[^\[\]:\s]+):)?(?P<port>[0-9]{1,5})")


@app.command("console", epilog=EXIT_CODES, cls=Command)
def console(
    context: typer.Context,
    listen: Annotated[
        str, typer.Option(metavar="[HOST:]PORT", help="Address on which the console listens. Port 0: any free port.")
    ] = f"127.0.0.1:{PORT}",
    users: FileOption = None,
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Certificate for TLS (PEM). Needs --key.")
    ] = None,
    key: Annotated[Path | None, typer.Option(metavar="FILE", help="Private key of the certificate (PEM).")] = None,
    show_bodies: Annotated[
        bool, typer.Option("--viewers-see-bodies", help="Viewers see the bodies of messages, as operators do.")
    ] = False,
    metrics: Annotated[
        bool,
        typer.Option(
            "--metrics", help="Serve /metrics for Prometheus without a log-in: numbers, and names of services."
        ),
    ] = False,
    idle: Annotated[str, typer.Option(metavar="TIME", help="A session ends after this time without a page.")] = "30m",
    longest: Annotated[str, typer.Option(metavar="TIME", help="A session ends after this time in any case.")] = "12h",
    every: Annotated[
        float, typer.Option(min=0.1, max=60, help="Seconds between two looks at Kafka for new records.")
    ] = 1.0,
    cluster: AlsoAt = None,
    browse: Annotated[bool, typer.Option("--open", help="Open the console in the browser of this machine.")] = False,
) -> None:
    """Show the dialogs of a namespace in a browser, and decide about failed messages there.

    Without users, it listens on this machine only, and prints a link that logs you in once. To let others in, add users with
    'conversations users add', and listen with TLS on another address.

    With --cluster, the first page, the list of dialogs, the search, and the pages of one dialog also have what is on that cluster. Decisions about its
    messages are made in a console of that cluster.

    Viewers look, but not at the bodies of messages. Operators decide. Every decision has the name of its user, and is in the journal.

    \b
    Examples:
      conversations console --bootstrap localhost:9092
      conversations users add ann --role operator
      conversations console --listen 0.0.0.0:8765 --certificate cert.pem --key key.pem
      conversations console --cluster emea    # two clusters, and dialogs between them from both sides
    """
    kafka = kafka_of(context)
    lengths = _span("--idle", idle), _span("--longest", longest)
    with failures(as_json=False):
        _needs_extra()
        from conversations_ops.read_model.live import Live
        from conversations_ops.web.desk import Desk
        from conversations_ops.web.redrives import Redrives
        from conversations_ops.web.server import Listen, bound, is_local
        from conversations_ops.web.sessions import Lengths
        from conversations_ops.web.users import Users

        host, port = _address(listen)
        if (certificate is None) != (key is None):
            raise typer.BadParameter("--certificate and --key go together")
        where = Listen(host, port, certificate, key, metrics)
        file = users_file(users)
        known = Users(file, viewers_see_bodies=show_bodies) if file.exists() else None
        if known is None and not is_local(host):
            raise DeclarationError(
                f"{host} is reached from other machines, and there are no users in {file}: conversations users add NAME --role operator"
            )
        if known is not None:
            known.all()
        socket = bound(where)
        address = where.address(socket.getsockname()[1])
        links = None if known is not None else _links(address, browse=browse)
        with ExitStack() as stack:
            live = stack.enter_context(Live(kafka, every=every))
            others = {
                name: stack.enter_context(Live(there, every=every))
                for name, there in clusters_of(kafka, cluster or ()).items()
            }
            desk = Desk(kafka, live, known, links, Redrives(live), Lengths(*lengths), others)
            _serve(desk, where, socket, address, browse=browse)


def _serve(desk: Desk, where: Listen, socket: object, address: str, *, browse: bool) -> None:
    from conversations_ops.web.server import is_local, server

    if not where.secure and not is_local(where.host):
        typer.echo("Passwords and sessions pass the network unencrypted: give --certificate and --key.", err=True)
    made = server(desk, where)
    typer.echo(f"The console of {desk.kafka.namespace} at {desk.kafka.bootstrap} is on {address}", err=True)
    if desk.links is not None:
        desk.links.renew()
    elif browse:
        _open(address)
    # The server sends the signal again when it has ended, and redrives must end after that.
    signal.signal(signal.SIGTERM, _ended)
    try:
        made.run(sockets=[socket])  # type: ignore[list-item]  # the socket of ``bound``
    finally:
        desk.redrives.close()


def _ended(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


def _links(address: str, *, browse: bool) -> Links:
    from conversations_ops.web.desk import Links

    opened = threading.Event()

    def tell(secret: str) -> None:
        link = f"{address}/login?link={secret}"
        typer.echo(f"Open this link, which logs you in once: {link}", err=True)
        if browse and not opened.is_set():
            opened.set()
            _open(link)

    return Links(getpass.getuser(), tell)


def _open(address: str) -> None:
    threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()


def _needs_extra() -> None:
    """Raise an error that names the extra, if the packages of the web console are not installed."""
    try:
        import fastapi  # noqa: F401
        import jinja2  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise DeclarationError(
            f"the web console needs the package {error.name}: pip install 'kafka-dialogs[ops]'"
        ) from None


def _address(text: str) -> tuple[str, int]:
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found["port"]) > 65_535:
        raise typer.BadParameter(f"--listen {text}: write it as HOST:PORT, [::1]:PORT or PORT")
    return (found["host"] or "127.0.0.1").strip("[]"), int(found["port"])


def _span(option: str, text: str) -> timedelta:
    with about_option(option):
        found = span(text)
    if not found:
        raise typer.BadParameter(f"{option}: it must be longer than 0s")
    return found
