"""Makes the virtual environment of Quix Streams once, from its own lock, because Quix Streams needs an older Kafka client.

The lock was made by ``uv pip compile --universal --generate-hashes`` from the first two lines of its heading.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from bench.unavailable import Unavailable

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "requirements" / "bench-quix.txt"
HOME = ROOT / "build" / "bench-quix"
INSTALL_SECONDS = 900


def python() -> Path:
    """Return the interpreter of the environment. Make the environment if it is missing, or if its lock has changed.

    Raises:
        Unavailable: Quix Streams cannot be installed.
    """
    if not LOCK.exists():
        raise Unavailable(f"{LOCK.relative_to(ROOT)} is missing")
    interpreter = HOME / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    stamp = HOME / "made-from"
    wanted = hashlib.sha256(LOCK.read_bytes() + sys.version.encode()).hexdigest()
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
        _make(interpreter)
        stamp.write_text(wanted, encoding="utf-8")
    return interpreter


def _make(interpreter: Path) -> None:
    try:
        shutil.rmtree(HOME, ignore_errors=True)
        venv.create(HOME, with_pip=True)
        command = [
            str(interpreter),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--require-hashes",
        ]
        done = subprocess.run(
            [*command, "-r", str(LOCK)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=INSTALL_SECONDS,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        raise Unavailable(f"its environment cannot be made: {error}") from error
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or [f"pip ended with {done.returncode}"]
        raise Unavailable(f"pip cannot install it: {lines[-1]}")
