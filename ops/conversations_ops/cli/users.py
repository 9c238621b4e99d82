"""``conversations users``: the users of the web console."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from conversations_ops.cli.output import Json, failures, show
from conversations_ops.console.exit_codes import EXIT_CODES
from conversations_ops.console.tables import as_text
from conversations_ops.web.users import Role, Users

VARIABLE = "CONVERSATIONS_USERS"
app = typer.Typer(help="Add, remove and list the users of the web console.", no_args_is_help=True, epilog=EXIT_CODES)
FileOption = Annotated[
    Path | None,
    typer.Option(
        "--users",
        metavar="FILE",
        envvar=VARIABLE,
        help="File of the users. Default: ~/.config/kafka-dialogs/users.json.",
    ),
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the user.")]


def users_file(chosen: Path | None) -> Path:
    """Return the file of the users: the chosen one, or the one in the user's directory for settings."""
    base = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return (chosen or Path(base) / "kafka-dialogs" / "users.json").expanduser()


@app.command("add", epilog=EXIT_CODES)
def add(
    name: Name,
    role: Annotated[Role, typer.Option(help="Viewers look. Operators also decide.")] = Role.VIEWER,
    file: FileOption = None,
) -> None:
    """Add a user, or give a user another role and password. The password is asked for, or is the first line of standard input.

    \b
    Examples:
      conversations users add ann --role operator
      conversations users add ben --role viewer
    """
    path = users_file(file)
    with failures(as_json=False):
        Users(path).add(name, role, _password())
    typer.echo(f"{name} is a user with the role {role.value}, in {path}")


@app.command("remove", epilog=EXIT_CODES)
def remove(name: Name, file: FileOption = None) -> None:
    """Remove a user. The user's sessions end at once.

    \b
    Example:
      conversations users remove ann
    """
    path = users_file(file)
    with failures(as_json=False):
        Users(path).remove(name)
    typer.echo(f"{name} is no user any more")


@app.command("list", epilog=EXIT_CODES)
def list_users(file: FileOption = None, as_json: Json = False) -> None:
    """List the users and their roles.

    \b
    Example:
      conversations users list --json | jq -r '.users[] | select(.role == "operator") | .name'
    """
    path = users_file(file)
    with failures(as_json=as_json):
        found = Users(path).all() if path.exists() else []
    rows = [(it.name, it.role.value) for it in found]
    text = as_text(("NAME", "ROLE"), rows) if rows else f"there is no user in {path}"
    show({"users": [{"name": it.name, "role": it.role.value} for it in found]}, text, as_json=as_json)


def _password() -> str:
    if sys.stdin.isatty():
        return str(typer.prompt("Password", hide_input=True, confirmation_prompt=True))
    return sys.stdin.readline(1_000).rstrip("\r\n")
