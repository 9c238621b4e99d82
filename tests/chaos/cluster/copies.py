"""Harm to a worker's local copies of state while it is down: bits flipped, files cut short or lost, an old copy put back."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

FLIPS = 3
"""Bits flipped in a file at most."""
DATA = (".sst", ".log")
"""Files that hold rows; damage to others is met when a copy is opened."""


def damage(directory: Path, random: Random) -> int:
    """Damage the files of some copies; return how many."""
    harmed = 0
    for copy in sorted(path for path in directory.glob("*") if path.is_dir()):
        files = sorted(path for path in copy.iterdir() if path.is_file() and path.stat().st_size > 0)
        rows = [path for path in files if path.suffix in DATA]
        if not files or random.random() < 0.3:
            continue
        harmed += 1
        chosen = random.choice(rows if rows and random.random() < 0.8 else files)
        random.choice((_flip, _flip, _cut, _zero, _remove))(chosen, random)
    return harmed


def _flip(file: Path, random: Random) -> None:
    data = bytearray(file.read_bytes())
    for _ in range(random.randint(1, FLIPS)):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    file.write_bytes(data)


def _cut(file: Path, random: Random) -> None:
    data = file.read_bytes()
    file.write_bytes(data[: random.randrange(len(data))])


def _zero(file: Path, random: Random) -> None:
    data = bytearray(file.read_bytes())
    start = random.randrange(len(data))
    end = min(len(data), start + 4096)
    data[start:end] = bytes(end - start)
    file.write_bytes(data)


def _remove(file: Path, random: Random) -> None:
    file.unlink()


def keep(directory: Path, where: Path) -> None:
    """Copy a worker's copies to another place."""
    shutil.rmtree(where, ignore_errors=True)
    if directory.exists():
        shutil.copytree(directory, where)


def put_back(where: Path, directory: Path) -> bool:
    """Put what was kept in the place of what is there now; return whether there was anything."""
    if not where.exists():
        return False
    shutil.rmtree(directory, ignore_errors=True)
    where.rename(directory)
    return True
