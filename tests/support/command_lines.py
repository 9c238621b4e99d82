"""Lets the command line read a command without running it."""

from __future__ import annotations

import importlib
import shlex
from typing import Any

import typer

from conversations_ops.cli.app import app


def parser_of_job(job: str) -> Any:
    """Return the parser of a Spark job."""
    return importlib.import_module(f"spark_jobs.{job.replace('-', '_')}").parser()


def check_command(line: str, *, complete: bool) -> None:
    """Let the command line parse a command, and do not run it.

    With ``complete`` the command has all its arguments. Otherwise it may be just the name of a command.

    Raises:
        Exception: there is no such command, option or value, or an argument is missing. SystemExit comes from the parser of a job.
    """
    words = shlex.split(line.partition(" | ")[0].partition(" > ")[0], comments=True)
    command: Any = typer.main.get_command(app)
    context: Any = None
    name, rest = words[0], words[1:]
    while True:
        group = hasattr(command, "commands")
        if (group or not complete) and not rest:
            return
        try:
            context = command.make_context(name, rest, parent=context)
        except Exception as error:
            if complete or type(error).__name__ != "MissingParameter":
                raise
            return
        if not group:
            break
        rest = [*context._protected_args, *context.args]
        if not rest:
            return
        name, command, rest = command.resolve_command(context, rest)
    if context.parent.info_name == "spark":
        parser_of_job(name).parse_args(context.args)
