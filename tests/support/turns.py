"""Slow tests take turns: each run of the gate has all quick tests, and the slow tests of a quarter of the files.

Each slow test keeps a promise that a quick test keeps, too. All of them together take longer than all quick ones. Which quarter it is depends on the commit, so a
run can be repeated, and the quarters come in turn by chance. Only the demo, the main command of the README, is in each run.
"""

import subprocess
from pathlib import Path
from zlib import crc32

TURNS = 4
ALWAYS = "tests/acceptance/test_demo.py"
HELP = f"run the slow tests of one turn only: a number below {TURNS}, or 'commit' for the turn of the present commit"
COMMIT = "commit"


def turn_of(chosen: str, directory: Path) -> int | None:
    """Return the turn that an option chooses; None if the slow tests of all turns run. Without git, 'commit' is all of them.

    Raises:
        ValueError: there is no such turn.
    """
    if not chosen:
        return None
    if chosen == COMMIT:
        commit = _commit(directory)
        return int(commit, 16) % TURNS if commit else None
    if not chosen.isdecimal() or int(chosen) >= TURNS:
        raise ValueError(f"--turn {chosen}: {HELP}")
    return int(chosen)


def waits(file: str, turn: int | None) -> bool:
    """Return True if the slow tests of a file wait for another turn."""
    return turn is not None and file != ALWAYS and crc32(file.encode()) % TURNS != turn


def told(turn: int | None) -> str:
    """Return the line about the turn at the beginning of a run; empty if all slow tests run."""
    if turn is None:
        return ""
    return f"slow tests: turn {turn} of 0 to {TURNS - 1} (--turn); 'make test-all' runs all of them"


def _commit(directory: Path) -> str:
    try:
        found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=directory, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return found.stdout.strip() if found.returncode == 0 else ""
