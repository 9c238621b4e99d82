"""Tests that share a broker, a Spark or the whole machine stay in one process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.sharing import begins_late, group_of

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("test", "group"),
    [
        ("tests/spark/test_archive.py::test_a[x::y]", "spark"),
        ("tests/acceptance/test_spark.py::test_b", "spark"),
        ("tests/soak/test_soak.py::test_c", "runs"),
        ("tests/unit/spark/test_wire.py::Some::test_d", "tests/unit/spark/test_wire.py"),
    ],
)
def test_the_group_of_a_test_is_its_place_or_its_file(test: str, group: str) -> None:
    assert group_of(test) == group
    assert begins_late(test) is (group not in {"spark", "runs"})


TESTS = """
import os, pathlib, pytest
@pytest.mark.parametrize("number", range(6))
def test_where(number):
    with pathlib.Path(__file__).with_suffix(".pids").open("a") as pids:
        pids.write(f"{os.getpid()}\\n")
"""


def test_a_process_runs_whole_files(tmp_path: Path) -> None:
    """On a real pytest with two processes: a new release of either tool may share the tests in another way."""
    (tmp_path / "conftest.py").write_text("from tests.conftest import pytest_xdist_make_scheduler\n")
    for name in "abcd":
        (tmp_path / f"test_{name}.py").write_text(TESTS)
    options = ["-q", "-n", "2", "--dist", "load", "-p", "no:cacheprovider"]
    call = [sys.executable, "-m", "pytest", *options, str(tmp_path)]
    subprocess.run(call, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True, capture_output=True)
    pids = [set(file.read_text().split()) for file in sorted(tmp_path.glob("*.pids"))]
    assert [len(it) for it in pids] == [1] * 4
    assert len(set.union(*pids)) == 2


CRASHES = """
import os, signal, pytest
def test_crash(): os.kill(os.getpid(), signal.SIGKILL)
def test_after(): pass
"""


def test_a_test_that_ends_its_process_fails_once_and_the_others_run(tmp_path: Path) -> None:
    """Xdist 3.8 would run it in one process after another, and could then wait for ever."""
    (tmp_path / "conftest.py").write_text("from tests.conftest import pytest_xdist_make_scheduler\n")
    (tmp_path / "test_a.py").write_text(CRASHES)
    for name in "bcd":
        (tmp_path / f"test_{name}.py").write_text("def test_alone(): pass\n")
    call = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(call, cwd=tmp_path, env=environment, check=False, capture_output=True, text=True, timeout=60)
    assert "1 failed, 4 passed" in ended.stdout
