"""One patch, applied to a copy of the tree, and what the tests say of it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any
from xml.etree import ElementTree as ET

from tests.mutations.table import RULES, Mutation

LONGEST = 1_200.0
"""Seconds one run of the tests may take."""
EXIT = 20.0
"""Seconds a process may take to end once pytest has written its report."""

Failures = dict[str, str]


class Verdict(StrEnum):
    """What a run says about the guard that was taken out."""

    PASSES = "passes"
    """Nothing was taken out, and nothing fails."""
    FAILS = "FAILS WITHOUT A PATCH"
    KILLED = "killed"
    """Its test fails, and no other."""
    SURVIVES = "SURVIVES"
    BREAKS_OTHERS = "BREAKS OTHERS"
    NOT_APPLICABLE = "DOES NOT APPLY"
    NO_REPORT = "NO REPORT"


@dataclass
class Result:
    """What became of one patch."""

    patch: str
    expected: str
    verdict: Verdict
    seconds: float = 0.0
    failed: dict[str, str] = field(default_factory=dict)
    """Node ids, and what each test said."""
    unsteady: list[str] = field(default_factory=list)
    """Other tests that failed and passed when run once more, alone."""
    detail: str = ""

    @property
    def good(self) -> bool:
        """Whether it is as it must be."""
        return self.verdict in (Verdict.PASSES, Verdict.KILLED)

    def plain(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {**self.__dict__, "verdict": str(self.verdict), "good": self.good}


def baseline(tree: Path, mutations: Sequence[Mutation], bootstrap: str, *, own_test_only: bool) -> Result:
    """Run what the patches will be judged by, without a patch: it must pass."""
    began = perf_counter()
    own = [mutation.test for mutation in mutations]
    tests = own if own_test_only else [RULES, *(m.test for m in mutations if not m.exclusive)]
    with copy_of(tree) as copy:
        failed, output = fails(copy, list(dict.fromkeys(tests)), bootstrap)
        seconds = perf_counter() - began
        if failed is None:
            return Result("(none)", "", Verdict.NO_REPORT, seconds, detail=output)
        _, failed, unsteady = once_more(copy, failed, "", bootstrap)
    verdict = Verdict.FAILS if failed else Verdict.PASSES
    return Result("(none)", "", verdict, seconds, failed, unsteady, detail=output if failed else "")


def run(tree: Path, mutation: Mutation, bootstrap: str, *, own_test_only: bool) -> Result:
    """Apply one patch to a copy of the tree and run the tests there."""
    began = perf_counter()

    def result(verdict: Verdict, failed: Failures | None = None, unsteady: Sequence[str] = (), why: str = "") -> Result:
        seconds = perf_counter() - began
        return Result(mutation.patch, mutation.test, verdict, seconds, failed or {}, list(unsteady), why)

    with copy_of(tree) as copy:
        if complaint := applied(copy, [mutation]):
            return result(Verdict.NOT_APPLICABLE, why=complaint)
        tests = [RULES] if mutation.exclusive and not own_test_only else [mutation.test]
        failed, output = fails(copy, tests, bootstrap)
        if failed is None:
            return result(Verdict.NO_REPORT, why=output)
        failed = {name: why for name, why in failed.items() if name not in mutation.also}
        own, others, unsteady = once_more(copy, failed, mutation.test, bootstrap)
    if not own:
        return result(Verdict.SURVIVES, others, unsteady)
    return result(Verdict.BREAKS_OTHERS if others else Verdict.KILLED, own | others, unsteady)


@contextmanager
def snapshot(root: Path) -> Iterator[Path]:
    """Copy the work tree as it is now, without what git ignores: all patches are judged on the same tree."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root, check=True, capture_output=True, text=True,
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="kafka-dialogs-mutations-") as folder:
        copy = Path(folder)
        for name in filter(None, listed.stdout.split("\0")):
            if (root / name).is_file():
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(root / name, copy / name)
        subprocess.run(["git", "init", "-q"], cwd=copy, check=True)
        yield copy


@contextmanager
def copy_of(tree: Path) -> Iterator[Path]:
    """Copy a snapshot, to be changed."""
    with tempfile.TemporaryDirectory(prefix="kafka-dialogs-mutation-") as folder:
        copy = Path(folder)
        shutil.copytree(tree, copy, dirs_exist_ok=True)
        yield copy


def applied(copy: Path, mutations: Sequence[Mutation], *options: str) -> str:
    """Apply patches; return git's complaint, "" when there is none."""
    done = subprocess.run(
        ["git", "apply", "--unidiff-zero", *options, *(str(it.path) for it in mutations)],
        cwd=copy,
        check=False,
        capture_output=True,
        text=True,
    )
    return "" if done.returncode == 0 else done.stderr.strip() or "git apply failed"


def fails(copy: Path, tests: Sequence[str], bootstrap: str) -> tuple[Failures | None, str]:
    """Run tests in a copy; return those that failed, None when pytest did not get to its report, and its output."""
    report = copy / ".report.xml"
    report.unlink(missing_ok=True)
    with (copy / ".output").open("w+") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *tests],
            cwd=copy, env=_environment(copy, bootstrap), start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
        await_end(process, report)
        output.seek(0)
        said = output.read()[-4_000:]
    if process.returncode in {2, 3, 4, 5} or not report.exists():
        return None, said
    cases = ET.parse(report).getroot().iter("testcase")
    found: Failures = {}
    for case in cases:
        for child in case:
            if child.tag in {"failure", "error"}:  # of its setup and teardown too
                found.setdefault(node_id(case.attrib), child.attrib.get("message", "").split("\n", 1)[0])
    return found, said


def await_end(process: subprocess.Popen[bytes], report: Path) -> None:
    """Wait for pytest; a client that a removed guard left in a bad way may keep its process from ending."""
    deadline = monotonic() + LONGEST
    while process.poll() is None and monotonic() < deadline:
        if report.exists():
            deadline = min(deadline, monotonic() + EXIT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(1)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def node_id(attributes: Mapping[str, str]) -> str:
    """Make pytest's node id of a JUnit test case outside of classes."""
    return f"{attributes['classname'].replace('.', '/')}.py::{attributes['name']}"


def once_more(copy: Path, found: Failures, own: str, bootstrap: str) -> tuple[Failures, Failures, list[str]]:
    """Split failures into the expected one, others that fail again when run alone, and others that do not."""
    mine = {name: why for name, why in found.items() if name == own}
    others = {name: why for name, why in found.items() if name != own}
    if not others:
        return mine, {}, []
    again, _ = fails(copy, list(others), bootstrap)
    steady = others if again is None else {name: why for name, why in others.items() if name in again}
    return mine, steady, [name for name in others if name not in steady]


def _environment(copy: Path, bootstrap: str) -> dict[str, str]:
    # Both roots of our packages: processes that a test starts must not import the installed ones.
    path = os.pathsep.join([str(copy), str(copy / "ops")])
    return {**os.environ, "PYTHONPATH": path, "KAFKA_BOOTSTRAP": bootstrap}
