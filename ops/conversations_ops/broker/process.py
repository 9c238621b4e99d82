"""A server process under a supervisor. The supervisor ends the server when this process ends, for whatever reason."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from conversations_ops.broker import supervisor
from conversations_ops.host import interruptible

STOP_TIMEOUT = supervisor.GRACE + 5.0


class ServerProcess:
    """One run of a command; its output is appended to a log.

    The command ends by itself, by ``stop``, by ``kill``, or when this process ends.
    """

    def __init__(self, command: list[str], log: Path, scratch: Path | None, inherited: Sequence[int] = ()) -> None:
        """Start the command. If this process dies and has not stopped the command, the supervisor removes the directory ``scratch``.

        The command and its supervisor inherit the file descriptors ``inherited``.
        """
        wrapped = [sys.executable, "-I", "-S", supervisor.__file__, str(scratch or ""), "--", *command]
        with log.open("ab") as output:
            # In a new session, Ctrl-C at the terminal does not reach the server. The supervisor and the server also get their
            # own process group, so that one signal can kill both.
            self._process = subprocess.Popen(
                wrapped, stdin=subprocess.PIPE, stdout=output, stderr=output, start_new_session=True,
                pass_fds=inherited,
            )  # fmt: skip

    @property
    def pid(self) -> int:
        """Process id of the supervisor, which is also the id of the process group of the server."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Exit code of the server; None while the server runs."""
        return interruptible.exit_code(self._process)

    def stop(self) -> None:
        """Stop the server cleanly, and kill it if that takes too long (10 to 15 s). Do nothing if the server has ended."""
        self._say(b"stop\n")
        if not interruptible.wait(self._process, STOP_TIMEOUT):
            self.kill()

    def kill(self) -> None:
        """Kill the server and its supervisor with SIGKILL, as in a crash. Do nothing if they have ended."""
        if self.exit_code is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        interruptible.wait(self._process, math.inf)
        self._say(b"")

    def _say(self, word: bytes) -> None:
        """Write ``word`` to the supervisor's standard input, and close this input. The supervisor may be gone already."""
        pipe = self._process.stdin
        if pipe is None or pipe.closed:
            return
        with contextlib.suppress(BrokenPipeError):
            pipe.write(word)
            pipe.flush()
        with contextlib.suppress(BrokenPipeError):
            pipe.close()
