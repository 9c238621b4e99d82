"""Type checkers see what users write: the examples are right, and each known mistake is found."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MISTAKES = Path(__file__).with_name("must_fail.py")
ERROR = re.compile(r"^[^:\n]+:(\d+): error: (.*)$", re.MULTILINE)


def mypy(*paths: Path) -> subprocess.CompletedProcess[str]:
    """Run mypy with the project's settings."""
    command = [sys.executable, "-m", "mypy", "--no-error-summary", *map(str, paths)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=110)


def test_examples_are_typed() -> None:
    """What the examples show passes strict checking."""
    result = mypy(ROOT / "examples")
    assert result.returncode == 0, result.stdout


def test_every_mistake_is_found_and_nothing_else() -> None:
    """Each line marked E is an error for mypy, and no other line is."""
    marked = {n for n, line in enumerate(MISTAKES.read_text().splitlines(), 1) if line.endswith("# E")}
    found = {int(line) for line, _ in ERROR.findall(mypy(MISTAKES).stdout)}
    assert found == marked


@pytest.mark.slow
def test_pyright_finds_the_same_mistakes() -> None:
    """A second type checker agrees, line by line, in what users write and in what is wrong."""
    command = [
        sys.executable,
        "-m",
        "pyright",
        "--pythonpath",
        sys.executable,
        "--outputjson",
        str(MISTAKES),
        "examples",
    ]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=110)
    try:
        report = json.loads(result.stdout)["generalDiagnostics"]
    except (ValueError, KeyError):
        pytest.skip(f"pyright needs Node.js, which it could not start or fetch: {result.stderr[-300:]}")
    marked = {n for n, line in enumerate(MISTAKES.read_text().splitlines(), 1) if line.endswith("# E")}
    errors = [entry for entry in report if entry["severity"] == "error"]
    elsewhere = [entry for entry in errors if Path(entry["file"]) != MISTAKES]
    assert {entry["range"]["start"]["line"] + 1 for entry in errors if Path(entry["file"]) == MISTAKES} == marked
    assert not elsewhere
