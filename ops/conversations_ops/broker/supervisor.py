"""Keeps one child process alive exactly as long as somebody holds the other end of this process's standard input.

Started by its path with ``python -I -S supervisor.py SCRATCH -- COMMAND...``, so it imports nothing but the standard
library. ``stop`` on standard input, or its end (the parent is gone, however it died), ends the child: SIGTERM, then
SIGKILL after GRACE seconds. At the end of input the SCRATCH directory ("" for none) goes too, since nobody is left to
remove it. A pipe works on every system; PR_SET_PDEATHSIG is Linux only and fires when the parent *thread* ends.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import threading

GRACE = 10.0
STANDARD_INPUT = 0


def main(scratch: str, command: list[str]) -> int:
    """Run the command until it ends by itself or standard input says so; the child's exit code."""
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    orphaned = threading.Event()

    def watch() -> None:
        # Not sys.stdin: its lock, held by this thread while it reads, would make the interpreter abort at its end.
        if not os.read(STANDARD_INPUT, 64):
            orphaned.set()
        child.terminate()
        try:
            child.wait(GRACE)
        except subprocess.TimeoutExpired:
            child.kill()

    threading.Thread(target=watch, daemon=True).start()
    with contextlib.suppress(KeyboardInterrupt):
        child.wait()
    code = child.wait()
    if orphaned.is_set() and scratch:
        shutil.rmtree(scratch, ignore_errors=True)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[3:]))
