"""What is written about the product is what the product is."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.mutations.table import MUTATIONS

ROOT = Path(__file__).resolve().parents[2]


def run(folder: Path, *command: str) -> str:
    """Run a Python command in a folder and return what it prints."""
    result = subprocess.run(
        [sys.executable, *command], cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_state_diagram_is_current() -> None:
    """The diagram and table in docs/protocol.md are those of the transition table."""
    run(ROOT, "docs/make_state_diagram.py", "--check")


def test_the_list_of_events_is_current() -> None:
    """docs/events.md and the schema of events are those of the classes."""
    run(ROOT, "docs/make_events.py", "--check")


def test_the_table_of_codes_is_current() -> None:
    """docs/codes.md is the table of codes."""
    run(ROOT, "docs/make_codes.py", "--check")


def test_the_table_of_checks_is_current() -> None:
    """docs/doctor.md is the table of the doctor's checks."""
    run(ROOT, "docs/make_doctor.py", "--check")


def test_hello_is_short(tmp_path: Path) -> None:
    """The first example has at most 25 lines and prints its reply with neither Kafka nor Java."""
    example = ROOT / "examples" / "hello.py"
    assert len(example.read_text().splitlines()) <= 25
    assert run(tmp_path, str(example)) == "Hello, Ada\n"


def test_links_lead_somewhere() -> None:
    """Every relative link of the README and the docs names a file that exists."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    missing = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
        if not (page.parent / target).exists()
    ]
    assert not missing


def test_guarantees_name_tests_and_mutations_that_exist() -> None:
    """Every test the guarantees cite exists, and every mutation is cited."""
    page = (ROOT / "docs" / "guarantees.md").read_text()
    cited = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page)
    assert cited
    assert not [f"{file}::{name}" for file, name in cited if f"def {name}(" not in (ROOT / file).read_text()]
    assert set(re.findall(r"\[(\d{2,3})\]", page)) == {mutation.patch.partition("-")[0] for mutation in MUTATIONS}


def test_files_that_the_architecture_names_are_there() -> None:
    named = re.findall(
        r"`((?:conversations|ops|spark_jobs|tests)/[\w./]+)`", (ROOT / "docs" / "architecture.md").read_text()
    )
    assert len(named) > 20
    assert [name for name in named if not (ROOT / name).exists()] == []
