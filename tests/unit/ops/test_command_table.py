"""The table of commands: it names each module's commands, and a command imports no module of another."""

import pkgutil
import subprocess
import sys
from importlib import import_module

import pytest
import typer

from conversations_ops import cli
from conversations_ops.cli.command_table import PLACES, Commands

STARTED = """
import sys
from typer.testing import CliRunner
from conversations_ops.cli.app import app
assert CliRunner().invoke(app, sys.argv[1:]).exit_code == 0
print(*sorted(it for it in sys.modules if it.startswith("conversations_ops.cli.")))
"""


@pytest.mark.parametrize("name", PLACES)
def test_each_command_is_where_the_table_says(name: str) -> None:
    assert Commands()[name].name == name


def test_every_typer_object_is_in_the_table_or_in_a_group_of_it() -> None:
    modules = [import_module(f"{cli.__name__}.{it.name}") for it in pkgutil.iter_modules(cli.__path__)]
    declared = {
        id(it): f"{module.__name__}.{name}"
        for module in modules
        for name, it in vars(module).items()
        if isinstance(it, typer.Typer) and not module.__name__.endswith(".app")
    }
    named = [getattr(import_module(f"{cli.__name__}.{it.module}"), it.attribute) for it in PLACES.values()]
    reached = {id(it) for it in named} | {id(it.typer_instance) for app in named for it in app.registered_groups}
    assert set(declared) - reached == set(), [declared[it] for it in set(declared) - reached]


def test_every_command_of_a_module_that_is_no_group_is_in_the_table() -> None:
    for place in {it for it in PLACES.values() if not it.group}:
        app = getattr(import_module(f"{cli.__name__}.{place.module}"), place.attribute)
        here = {name for name, it in PLACES.items() if it == place}
        assert set(typer.main.get_group(app).commands) == here


def test_a_command_imports_no_module_of_another() -> None:
    command = [sys.executable, "-c", STARTED, "version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert [it.rpartition(".")[2] for it in done.stdout.split()] == [
        "app",
        "command_table",
        "kafka_options",
        "output",
        "versions",
    ]
