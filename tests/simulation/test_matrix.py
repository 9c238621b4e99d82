"""A few seeds of the matrix; ``python -m tests.simulation.matrix`` runs as many as you like, and repeats one."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.support.matrix.cells import CELLS, DIMENSIONS, cell_of
from tests.simulation.support.matrix.play import play

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "tests.simulation.matrix"]


@pytest.mark.parametrize("alone", [True, False], ids=["alone", "crowded"])
def test_every_message_and_every_end_has_its_place(alone: bool) -> None:
    for seed in range(60):
        play(seed, alone=alone)


def test_each_cell_has_a_seed() -> None:
    assert len({cell_of(seed) for seed in range(CELLS)}) == CELLS
    few = [cell_of(seed) for seed in range(100)]
    for name, values in DIMENSIONS.items():
        assert {getattr(cell, name) for cell in few} == set(values), f"a hundred seeds have no cell for each {name}"


def test_seeds_are_played_in_several_processes() -> None:
    done = subprocess.run(
        [*COMMAND, "--seeds", "3-6", "--alone", "--processes", "2", "--json"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["seeds"], found["failures"]) == (4, [])
    assert found["handled"] > 0


@pytest.mark.parametrize("seeds", ["9-3", "many", "0"])
def test_a_wrong_range_is_refused(seeds: str) -> None:
    done = subprocess.run([*COMMAND, "--seeds", seeds], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--seeds" in done.stderr


@pytest.mark.parametrize("processes", ["1", "2"])
def test_ctrl_c_stops_a_run_in_order(processes: str) -> None:
    command = [*COMMAND, "--seeds", "100000", "--alone", "--processes", processes, "--progress", "0"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert "seeds in" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
        assert process.wait() == 130
    assert said.startswith("stopped: ")
    assert "Traceback" not in said
