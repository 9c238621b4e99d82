"""Commands of a user who may not enter the directories that they name."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

AS_NOBODY = """
import os, sys
from typer.testing import CliRunner
from conversations_ops.cli.app import app
for arguments in (["--help"], ["settings", "--setting", "none=1"]):
    CliRunner().invoke(app, arguments)  # imports what a nobody may not read
if os.geteuid() == 0:
    os.setresuid(65534, 65534, 65534)
found = CliRunner().invoke(app, sys.argv[1:])
print(found.output)
sys.exit(found.exit_code if found.exception is None or isinstance(found.exception, SystemExit) else f"raised {found.exception!r}")
"""


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    """A directory that no user may enter."""
    path = tmp_path / "closed"
    path.mkdir(mode=0)
    return path


def run(closed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "HOME": str(closed / "home"), "CONVERSATIONS_CACHE": ""}
    command = [sys.executable, "-c", AS_NOBODY, *arguments]
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "options", [["--memory-state"], ["--state-dir", "{closed}/state"], ["--state-dir", "/usr"], []]
)
def test_a_run_names_the_directory_and_the_way_out(closed: Path, options: list[str]) -> None:
    given = [option.format(closed=closed) for option in options]
    ended = run(closed, "run", "one:a", "--bootstrap", "127.0.0.1:1", *given)
    assert (ended.returncode, ended.stderr) == (1, "")
    assert f"directory {given[-1] if '--state-dir' in given else closed}" in ended.stdout
    assert ("--state-dir" if given[1:] else "CONVERSATIONS_CACHE") in ended.stdout


def test_who_can_have_no_cache_has_started_no_broker(closed: Path) -> None:
    ended = run(closed, "broker", "status")
    assert (ended.returncode, ended.stderr) == (3, "")
    assert "No broker is running" in ended.stdout
