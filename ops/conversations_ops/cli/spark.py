"""``conversations spark``: replaces this process by a job of ``spark_jobs``."""

from __future__ import annotations

import importlib.util
import os
import sys

import typer

from conversations_ops.cli.kafka_options import arguments_of
from conversations_ops.cli.output import show_error
from conversations_ops.console.exit_codes import Exit

JOBS = {
    "archive": "Keep every message of every dialog in Parquet files, once, by service and day.",
    "dialog-metrics": "Count dialogs, messages, errors and reply times by minute, service and contract.",
    "dead-letter-triage": "Group dead letters by cause, and mark the new groups.",
    "stuck-dialogs": "List dialogs that are parked, wait for a peer, or are too old.",
    "delivery-audit": "Prove from the topics that no message was lost, repeated or out of order.",
    "redrive": "Choose dead letters by an SQL predicate, and write a redrive plan.",
    "speak": "Send the rows of a DataFrame as messages of dialogs.",
}
"""Help text of each job, in the order of the help page."""

app = typer.Typer(
    help="Run a Spark job on this machine. For a cluster, see docs/spark.md.",
    no_args_is_help=True,
    epilog="Each job has its own --help, e.g.: conversations spark archive --help",
)


def _add(job: str, help_: str) -> None:
    passed = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}

    @app.command(job, help=help_, context_settings=passed, add_help_option=False)
    def run(context: typer.Context) -> None:
        start(job, [*arguments_of(context), *context.args])


def start(job: str, arguments: list[str]) -> None:
    """Replace this process by the job. So the job writes the output, gets the signals, and sets the exit code."""
    if importlib.util.find_spec("pyspark") is None:
        show_error("PySpark is not installed: pip install 'kafka-dialogs[spark]'", "SparkUnavailable", as_json=False)
        raise typer.Exit(Exit.USAGE)
    module = f"spark_jobs.{job.replace('-', '_')}"
    # -P keeps the current directory off the search path, so that its files cannot replace Python's own modules.
    os.execv(sys.executable, [sys.executable, "-P", "-m", module, *arguments])  # noqa: S606 - starts no shell, by intent


for _job, _help in JOBS.items():
    _add(_job, _help)
