"""A short soak: some hours of the product in a minute, on a real Kafka, with restarts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.soak.figures import grown, thirds

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.long
@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_nothing_dies_in_compressed_time(tmp_path: Path) -> None:
    """Queues tick, tombstones and commands are forgotten, workers come and go; the checker finds nothing."""
    command = [
        sys.executable, "-m", "tests.soak", "--minutes", "1", "--factor", "240", "--seed", "1", "--messages", "120",
        "--dialogs", "10", "--others", "8", "--no-audit",
    ]  # fmt: skip
    env = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=580, check=False)
    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-2_000:]
    assert "Clean." in done.stdout


def sample(rows: float) -> dict[str, float]:
    return {"memory MB": 100.0, "rows": rows, "files": 50.0, "disk MB": 10.0}


def test_growth_is_seen_by_thirds() -> None:
    steady = [sample(rows) for rows in (90, 900, 110, 95, 105, 100)]
    assert grown(steady) == []
    leaking = [sample(100 + 400 * n) for n in range(9)]
    assert grown(leaking) == ["rows grew from 500 to 2900"]
    assert thirds(leaking)["rows"] == (500, 2900)
    assert grown(leaking[:5]) == []
