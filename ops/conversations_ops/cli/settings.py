"""``conversations settings``: prints every setting of the product, in the format of a settings file."""

from __future__ import annotations

import textwrap

import typer

from conversations.config import WorkerSettings
from conversations_ops.cli.kafka_options import Command, settings_of
from conversations_ops.cli.output import Json, failures, show
from conversations_ops.console.exit_codes import EXIT_CODES
from conversations_ops.settings.given import differences, shortened
from conversations_ops.settings.names import SETTINGS, Setting
from conversations_ops.settings.values import written

app = typer.Typer()
WIDTH = 110
"""Width of a comment line, in columns."""


@app.command("settings", epilog=EXIT_CODES, cls=Command)
def listed(context: typer.Context, as_json: Json = False) -> None:
    """Print every setting with its value, its default and its meaning. Needs no Kafka.

    The output can be used as a file for --settings. The settings that you give are checked and printed with your values.

    \b
    Examples:
      conversations settings > shop.settings
      conversations settings --settings shop.settings --json | jq '.["worker.step"]'

    Exit codes: 0 printed, 2 a setting is unknown, or its value is not valid.
    """
    found = settings_of(context)
    with failures(as_json=as_json):
        chosen = shortened(found.worker_settings())
        changed = differences(chosen)
        data = {
            name: {
                "value": changed[name][0] if name in changed else written(it, it.default),
                "default": written(it, it.default),
                "meaning": _meaning(it),
            }
            for name, it in SETTINGS.items()
        }
        show(data, "\n\n".join(_entry(it, data[it.name]["value"], chosen) for it in SETTINGS.values()), as_json=as_json)


def _meaning(setting: Setting) -> str:
    return f"{setting.meaning} At its end: {setting.end}." if setting.end else setting.meaning


def _entry(setting: Setting, value: str, chosen: WorkerSettings) -> str:
    told = f"{_meaning(setting)} Default: {written(setting, setting.default)}."
    comment = textwrap.fill(told, WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)
    without = "# " if setting.group == "brake" and chosen.brake is None else ""
    return f"{comment}\n{without}{setting.name} = {value}"
