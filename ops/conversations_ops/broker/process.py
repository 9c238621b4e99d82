"""A server process under a supervisor that ends it when this process is gone, however it went."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from conversations_ops.broker import supervisor

STOP_TIMEOUT = supervisor.GRACE + 5.0


class ServerProcess:
    """One run of a command, its output appended to a log; alive until stopped, killed, or this process ends."""

    def __init__(self, command: list[str], log: Path, scratch: Path | None) -> None:
        """Start the command. ``scratch`` is removed if this process goes without a word."""
        wrapped = [sys.executable, "-I", "-S", supervisor.__file__, str(scratch or ""), "--", *command]
        with log.open("ab") as output:
            # Its own session: Ctrl-C at the terminal is for us to handle, and one signal reaches all of it.
            self._process = subprocess.Popen(
                wrapped, stdin=subprocess.PIPE, stdout=output, stderr=output, start_new_session=True
            )

    @property
    def pid(self) -> int:
        """Process id of the supervisor, which leads the group the server is in."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def stop(self) -> None:
        """End it in order; by force when that takes longer than 15 s. Harmless when it has ended."""
        self._say(b"stop\n")
        try:
            self._process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """SIGKILL the server and its supervisor, as a crash would. Harmless when they have ended."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._say(b"")

    def _say(self, word: bytes) -> None:
        """A last word to the supervisor, which may be gone already."""
        pipe = self._process.stdin
        if pipe is None or pipe.closed:
            return
        with contextlib.suppress(BrokenPipeError):
            pipe.write(word)
            pipe.flush()
        with contextlib.suppress(BrokenPipeError):
            pipe.close()
