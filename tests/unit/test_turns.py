"""The slow tests of each file have their turn, and the commit decides which."""

import subprocess
from pathlib import Path

import pytest

from tests.support.documents import ROOT
from tests.support.turns import ALWAYS, COMMIT, TURNS, turn_of, waits

FILES = [f"tests/acceptance/test_{name}.py" for name in ("alerts", "chaos", "doctor", "night", "redrive")]


@pytest.mark.parametrize("file", FILES)
def test_the_slow_tests_of_a_file_have_exactly_one_turn(file: str) -> None:
    assert [waits(file, turn) for turn in range(TURNS)].count(False) == 1


def test_the_demo_waits_for_no_turn() -> None:
    assert (ROOT / ALWAYS).exists()
    assert not any(waits(ALWAYS, turn) for turn in range(TURNS))


def test_without_a_turn_nothing_waits() -> None:
    assert turn_of("", ROOT) is None
    assert not any(waits(file, None) for file in FILES)


def test_a_commit_has_a_turn_and_a_directory_without_commits_runs_all(tmp_path: Path) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "-q"], check=True)
    assert turn_of(COMMIT, tmp_path) is None
    found = set()
    for number in range(60):
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", str(number)], check=True)
        found.add(turn_of(COMMIT, tmp_path))
        assert turn_of(COMMIT, tmp_path) == turn_of(COMMIT, tmp_path)
    assert found == set(range(TURNS))


@pytest.mark.parametrize("text", ["4", "-1", "x", "1.0"])
def test_a_turn_that_does_not_exist_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="--turn"):
        turn_of(text, ROOT)
