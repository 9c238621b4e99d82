"""What the product has: its variables, its version, the pages of its supervisor, and the times that its workers need."""

from __future__ import annotations

import re
import tomllib
import urllib.error
import urllib.request
from functools import cache
from typing import Any

import yaml

from conversations.config import WorkerSettings
from conversations_ops import cache as directories
from conversations_ops.cli import kafka_options, users
from conversations_ops.host.child import grace
from conversations_ops.host.health import served
from conversations_ops.settings import file
from spark_jobs.running.command_line import NAMESPACE
from tests.support.command_lines import check_command
from tests.support.documents import ROOT

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
VARIABLES = {directories.VARIABLE, kafka_options.VARIABLE, file.VARIABLE, users.VARIABLE, NAMESPACE}
STOPPING = grace(WorkerSettings().revocation)
"""Seconds that the workers have to stop after SIGTERM."""
IMAGES = {f"kafka-dialogs:{PROJECT['version']}": "runtime", f"kafka-dialogs-spark:{PROJECT['version']}": "spark"}
"""The images of the product, and their stages in the Dockerfile."""


def documents(path: str) -> list[dict[str, Any]]:
    """Return the YAML documents of a file of this repository."""
    return list(yaml.safe_load_all((ROOT / path).read_text(encoding="utf-8")))


def untagged(image: str) -> str:
    """Return what is wrong with the name of an image; empty if it has a version."""
    tag = image.rpartition("/")[2].partition(":")[2]
    return "" if re.search(r"\d", tag) else f"image {image}: it needs the tag of a version"


def refused(words: list[str]) -> str:
    """Return why the command line refuses a command; empty if it accepts it. Options that need a Kafka are not tried."""
    try:
        check_command(" ".join(["conversations", *(f"'{word}'" for word in words)]), complete=True)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - Click and argparse have many
        if getattr(error, "exit_code", getattr(error, "code", 1)) == 0:
            return ""  # --help
        return f"conversations {' '.join(words)}: {getattr(error, 'message', error)}"
    return ""


def _name(command: Any) -> str:
    return str(command.name or command.callback.__name__)


def _commands(group: Any) -> list[Any]:
    return list(group.typer_instance.registered_commands)


def option(words: list[str], name: str) -> str:
    """Return the value of an option in a command; empty if it is not given."""
    for place, word in enumerate(words):
        if word == name and place + 1 < len(words):
            return words[place + 1]
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
    return ""


@cache
def status(page: str, *, healthy: bool) -> int:
    """Return the status of a page of the supervisor, while all its workers are healthy or while one is down."""
    workers = [{"service": "s", "workers": [{"state": "running" if healthy else "down"}]}]
    with served("127.0.0.1", 0, lambda: workers) as address:
        try:
            with urllib.request.urlopen(address.replace("/health", page), timeout=10) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            error.close()
            return error.code
