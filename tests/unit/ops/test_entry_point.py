"""What the entry point of the command line needs, and how Ctrl-C ends it before the command line is imported."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = [[str(Path(sys.executable).with_name("conversations"))], [sys.executable, "-m", "conversations"]]


@pytest.mark.parametrize("program", PROGRAMS, ids=["conversations", "python -m conversations"])
def test_ctrl_c_during_the_imports_is_quiet(program: list[str], tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt\n")
    variables = {**os.environ, "PYTHONPATH": str(tmp_path)}
    ended = subprocess.run([*program, "--version"], env=variables, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")
