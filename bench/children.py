"""Runs the processes that are measured: ``work`` runs a process to its end, and a ``Child`` answers questions."""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench.stopwatch import MARK

ROOT = Path(__file__).resolve().parent.parent
START = 90.0
"""Seconds that a child may take to start."""
ANSWER = 30.0
GOODBYE = 20.0
SHOWN = 2_000
"""Maximum number of characters of a failed process's stderr that are shown."""


class RunFailed(Exception):
    """A run failed. The text says how."""


def work(command: Sequence[str], limit: float) -> str:
    """Run a process to its end and return what it printed.

    Raises:
        RunFailed: the process failed, or took longer than ``limit`` seconds.
    """
    # The process gets a session of its own. So Ctrl-C reaches only this program, which then ends the process.
    process = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        output, errors = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        raise RunFailed(f"not finished after {limit:.0f} s") from None
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    if process.returncode:
        raise RunFailed(f"its process ended with {process.returncode}:\n{errors.strip()[-SHOWN:]}")
    return output


def result_of(output: str) -> dict[str, Any]:
    """Return what a process reported in its output.

    Raises:
        RunFailed: it reported nothing.
    """
    for line in reversed(output.splitlines()):
        if line.startswith(MARK):
            told: dict[str, Any] = json.loads(line.removeprefix(MARK))
            return told
    raise RunFailed("its process reported nothing")


class Child:
    """A process of ``python -m MODULE JOB`` that answers questions with ``answer``. It ends when the ``with`` block ends."""

    def __init__(self, module: str, job: str, *arguments: str) -> None:
        self._module = module
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, job, *arguments], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self._errors, text=True, start_new_session=True,
        )  # fmt: skip
        self._answers: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(MARK):
                self._answers.put(json.loads(line.removeprefix(MARK)))
        self._answers.put(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()  # a child ends when its standard input ends
        try:
            self._process.wait(0 if kind is not None else GOODBYE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        self._process.stdout.close()
        self._errors.close()

    def await_start(self) -> None:
        """Wait until the child has started.

        Raises:
            RunFailed: the child ended, or takes too long.
        """
        self._next(START)

    def ask(self, question: str, limit: float = ANSWER, **arguments: Any) -> dict[str, Any]:
        """Ask the child a question, and wait at most ``limit`` seconds for the answer.

        Raises:
            RunFailed: the child ended, takes too long, or could not answer.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"question": question, **arguments}) + "\n")
            self._process.stdin.flush()
        except OSError:
            raise self._ended() from None
        return self._next(limit)

    def _next(self, limit: float) -> dict[str, Any]:
        try:
            answer = self._answers.get(timeout=limit)
        except queue.Empty:
            self._process.kill()  # nobody waits for it any more
            raise RunFailed(f"{self._module} did not answer within {limit:.0f} s{self._last_words()}") from None
        if answer is None:
            raise self._ended()
        if "failed" in answer:
            raise RunFailed(f"{self._module}: {answer['failed']}")
        return answer

    def _ended(self) -> RunFailed:
        self._process.wait(GOODBYE)
        return RunFailed(f"{self._module} ended with {self._process.returncode}{self._last_words()}")

    def _last_words(self) -> str:
        self._errors.seek(0)
        words = self._errors.read().strip()[-SHOWN:]
        return f":\n{words}" if words else ""


def answer(answers: Mapping[str, Callable[..., dict[str, Any]]]) -> None:
    """Report that this child process has started. Then answer questions until the parent asks no more."""
    _say({})
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            _say(answers[asked.pop("question")](**asked))
        except Exception as error:  # noqa: BLE001 - told to the parent, which gives up
            _say({"failed": f"{type(error).__name__}: {error}"})


def _say(told: Mapping[str, Any]) -> None:
    sys.stdout.write(f"\n{MARK}{json.dumps(told)}\n")
    sys.stdout.flush()
