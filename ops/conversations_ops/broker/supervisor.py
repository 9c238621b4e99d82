"""Runs one child process, and ends the child when the parent of this process ends. The parent holds the other end of standard input.

The parent starts this module by its path, ``python -I -S supervisor.py SCRATCH -- COMMAND...``. So this module imports only the
standard library.

Two things end the child: the line ``stop`` on standard input, and the end of standard input. Standard input ends when the parent has
died. The child gets SIGTERM, and SIGKILL after GRACE seconds. If the parent has died, the supervisor removes the directory SCRATCH for
the parent. If SCRATCH is empty, there is no directory to remove.

The supervisor uses a pipe, because a pipe works on every system. PR_SET_PDEATHSIG exists only on Linux, and sends its signal when
the parent *thread* ends.
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
    """Run the command until it ends by itself, or until standard input has the line ``stop`` or ends.

    Return the exit code, as a shell would report it.
    """
    # The child inherits the lock of its data. So the lock is held until the child has ended, also if this process is killed first.
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, close_fds=False)
    orphaned = threading.Event()

    def watch() -> None:
        # Do not read sys.stdin, because this thread would hold the lock of sys.stdin while it waits. Then the interpreter
        # would abort at its exit.
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
