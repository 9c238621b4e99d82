"""The comparison with another revision: what it keeps, and what it does without that revision."""

from pathlib import Path

import pytest

from bench import revisions


def test_without_the_revision_nothing_is_compared_and_nothing_fails(capsys: pytest.CaptureFixture[str]) -> None:
    """As in a clone of one commit, whose HEAD~1 is not there."""
    revisions.compare("no-such-revision", pairs=1)
    assert "There is no revision no-such-revision here" in capsys.readouterr().out


def test_each_comparison_is_a_line_with_its_interval(tmp_path: Path) -> None:
    out = tmp_path / "pace.csv"
    for _ in range(2):
        revisions._add(out, "HEAD", [1.25, 1.0, 1.5])
    heading, first, second = out.read_text(encoding="utf-8").splitlines()
    assert heading == "day,commit,before,ratio,low,high"
    assert first == second
    _, commit, before, *figures = first.split(",")
    assert commit.rstrip("+") == before
    assert figures == ["1.250", "1.000", "1.500"]
