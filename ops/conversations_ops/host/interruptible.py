"""Waits for a process while Ctrl-C may arrive at any moment.

``Popen.poll`` takes a lock. A signal handler that raises right after it, as Ctrl-C does, leaves the lock taken, and ``Popen.wait`` then waits for ever.
So these functions ask the system themselves.
"""

from __future__ import annotations

import os
import subprocess
import time

POLL = 0.02
LOST = 255
"""Exit code of a process whose end was read, and lost by an interrupt."""


def exit_code(process: subprocess.Popen[bytes]) -> int | None:
    """Return the exit code of a process, negative for a signal; None while it runs."""
    if process.returncode is None:
        try:
            ended, status = os.waitpid(process.pid, os.WNOHANG)
        except ChildProcessError:
            process.returncode = LOST
        else:
            if ended:
                process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode


def wait(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Wait until a process has ended. Return False if it runs after so many seconds."""
    deadline = time.monotonic() + seconds
    while exit_code(process) is None:
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL)
    return True
