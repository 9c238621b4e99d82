"""``conversations version``: what is installed, and which form of it runs."""

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from typer.testing import CliRunner

from conversations.form import PURE, is_compiled, told
from conversations_ops.cli.app import app


def test_it_says_what_is_installed_and_which_form_runs() -> None:
    plain = json.loads(CliRunner().invoke(app, ["version", "--json"]).stdout)
    assert plain["version"] == version("kafka-dialogs")
    assert plain["form"] == ("compiled" if is_compiled() else "python")
    assert set(plain) == {"version", "form", "python", "confluent_kafka"}
    lines = CliRunner().invoke(app, ["version"]).stdout.splitlines()
    assert lines[:2] == [f"kafka-dialogs {plain['version']}", f"form: {told()}"]


def test_a_variable_forces_the_python_form() -> None:
    program = Path(sys.executable).with_name("conversations")
    done = subprocess.run(
        [program, "version"],
        env={**os.environ, PURE: "1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "form: Python, as CONVERSATIONS_PURE is set" in done.stdout.splitlines()
