"""The patches of ``tests.mutations`` fit the product and the tests of the rules, one by one."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutations.runner import applied
from tests.mutations.table import MUTATIONS, PATCHES, Mutation

ROOT = Path(__file__).resolve().parents[2]


def laws_of(path: Path) -> set[str]:
    """Node ids of a test module, without parameters."""
    functions = (node for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef))
    where = path.relative_to(ROOT).as_posix()
    return {f"{where}::{function.name}" for function in functions if function.name.startswith("test_")}


def test_every_patch_still_applies() -> None:
    """A guard that moved takes its patch along. One process checks all patches, each by itself: a process for each would take a minute."""
    if applied(ROOT, MUTATIONS, "--check"):
        complaints = {it.patch: applied(ROOT, [it], "--check") for it in MUTATIONS}
        assert {patch: complaint for patch, complaint in complaints.items() if complaint} == {}
        raise AssertionError("git refuses the patches together, and none alone")


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.patch)
def test_every_patch_changes_the_product_and_nothing_else(mutation: Mutation) -> None:
    """A patch that changed a test could make it fail by itself."""
    changed = [line.split("/", 1)[1] for line in mutation.path.read_text().splitlines() if line.startswith("+++ ")]
    assert changed
    assert [name for name in changed if not name.startswith(("conversations/", "ops/", "spark_jobs/"))] == []


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.patch)
def test_every_patch_replaces_lines(mutation: Mutation) -> None:
    """One that only adds has nothing to hold on to: it would apply anywhere, and mean something else there."""
    for hunk in mutation.path.read_text().split("\n@@ ")[1:]:
        assert any(line.startswith("-") for line in hunk.splitlines()[1:]), hunk


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.patch)
def test_what_a_patch_replaces_is_there_only_once(mutation: Mutation) -> None:
    """Patches carry no lines around: with a twin in the file it may one day apply to that one, and remove nothing."""
    _, *files = f"\n{mutation.path.read_text()}".split("\n--- a/")
    for file in files:
        name, *hunks = file.split("\n@@ ")
        source = f"\n{(ROOT / name.partition(chr(10))[0]).read_text()}"
        for hunk in hunks:
            replaced = "".join(f"\n{line[1:]}" for line in hunk.splitlines()[1:] if line.startswith("-"))
            assert source.count(f"{replaced}\n") == 1, replaced


def test_every_patch_is_in_the_table_once() -> None:
    assert sorted(path.stem for path in PATCHES.glob("*")) == sorted(mutation.patch for mutation in MUTATIONS)


def test_every_test_a_patch_names_is_there() -> None:
    """With its parameters: pytest refuses a run that names one test that is not there, and so none of the patches would be tried."""
    named = {test for mutation in MUTATIONS for test in (mutation.test, *mutation.also)}
    modules = {test.partition("::")[0] for test in named}
    listed = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *sorted(modules)],
        cwd=ROOT, env={**os.environ, "CONVERSATIONS_PURE": "1"}, check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert not named - set(listed.stdout.splitlines())


def test_every_rule_has_a_patch_that_breaks_it() -> None:
    """A test nobody ever saw fail proves nothing."""
    rules = {test for module in (ROOT / "tests/rules").glob("test_*.py") for test in laws_of(module)}
    assert rules <= {mutation.test.partition("[")[0] for mutation in MUTATIONS}
