"""``conversations version``: what is installed, and which form of it runs."""

from __future__ import annotations

import platform
from importlib.metadata import version as installed

import typer

from conversations import form
from conversations_ops.cli.kafka_options import Command
from conversations_ops.cli.output import Json, show

app = typer.Typer()
DISTRIBUTION = "kafka-dialogs"


@app.command("version", cls=Command)
def version(as_json: Json = False) -> None:
    """Print the version, the form that runs (compiled or Python), and the versions below it. Needs no Kafka.

    The compiled form and the Python form have the same source and do the same. The compiled one is faster. CONVERSATIONS_PURE=1 runs
    the Python form.

    \b
    Examples:
      conversations version
      conversations version --json | jq -r .form

    Exit codes: 0 printed.
    """
    plain = {
        "version": installed(DISTRIBUTION),
        "form": form.name(),
        "python": platform.python_version(),
        "confluent_kafka": installed("confluent-kafka"),
    }
    text = f"{DISTRIBUTION} {plain['version']}\nform: {form.told()}\nPython {plain['python']}, confluent-kafka {plain['confluent_kafka']}"
    show(plain, text, as_json=as_json)
