"""The packages that fetch jars are an extra: no service needs them."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from conversations_ops.broker.errors import ExtraMissing
from conversations_ops.broker.maven import download

ROOT = Path(__file__).resolve().parents[3]
WITHOUT = "import sys; sys.modules['jgo'] = None; import conversations_ops.cli.app, conversations_ops.broker.jars"


def test_without_the_extra_the_error_names_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "jgo", None)
    with pytest.raises(ExtraMissing, match=r"pip install 'kafka-dialogs\[broker\]'"):
        download("a:b:1", tmp_path, lambda _: None)


def test_the_command_line_needs_no_extra() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT], check=True)


def test_a_service_installs_nothing_that_fetches_jars() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert not [each for each in project["dependencies"] if each.startswith("jgo")]
    assert "jgo==" not in (ROOT / "requirements" / "runtime.txt").read_text()
