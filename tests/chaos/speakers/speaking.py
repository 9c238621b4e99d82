"""The two speakers outside of handlers: requests to a web server, and a terminal. Each repeats a message until it is accepted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

from conversations.config import Kafka
from conversations_ops.broker.sockets import free_ports
from conversations_ops.console.exit_codes import Exit
from tests.chaos.run import STANDSTILL, Stalled
from tests.chaos.speakers.services import HERE, HOOK, SAID, TERMINAL

PAUSE = 0.05
"""Seconds between two messages of a speaker."""
ANSWER = 30.0
"""Seconds until an answer of the web server counts as missing."""
PROGRAM = Path(sys.executable).with_name("conversations")


class WebServer:
    """The process of the web hook. It is killed, and started again at once."""

    def __init__(self, kafka: Kafka, directory: Path) -> None:
        (self.port,) = free_ports(1)
        self._command = [
            sys.executable, "-m", "tests.chaos.speakers.hook", str(self.port), kafka.bootstrap, kafka.namespace,
        ]  # fmt: skip
        self._log = directory / "hook.log"
        self._process: subprocess.Popen[bytes] | None = None

    def tend(self) -> None:
        """Start it if it does not run."""
        if self._process is None or self._process.poll() is not None:
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def kill(self) -> None:
        """SIGKILL it, and wait for its end."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


class Speaker(threading.Thread):
    """Speaks on the dialogs that it knows, one after the other, until it is told to stop.

    Args:
        name: name of the speaker.
        say: says the message of a number on a dialog with a handle; its result is empty if the message is accepted, else the reason.
    """

    def __init__(self, name: str, say: Callable[[str, int], str]) -> None:
        super().__init__(name=name, daemon=True)
        self.speaker, self._say = name, say
        self.stopping, self._breath = threading.Event(), threading.Event()
        self.handles: dict[str, str] = {}
        """By id of the dialog; the thread of the run adds to it."""
        self.accepted: Counter[str] = Counter()
        """Number of accepted messages by dialog: exactly the numbers below it were accepted."""
        self.repeated: Counter[str] = Counter()
        """How often a message was said again, by reason."""
        self.failure: BaseException | None = None

    def run(self) -> None:
        """Speak until told to stop. The message that is under way is said to its end."""
        try:
            while not self.stopping.wait(PAUSE):
                for dialog, handle in list(self.handles.items()):
                    if self.stopping.wait(PAUSE):
                        break
                    self._until_accepted(handle, self.accepted[dialog])
                    self.accepted[dialog] += 1
        except BaseException as error:  # noqa: BLE001 - carried to the thread that waits
            self.failure = error

    def _until_accepted(self, handle: str, n: int) -> None:
        deadline = time.monotonic() + STANDSTILL
        while why := self._say(handle, n):
            self.repeated[why] += 1
            self._breath.wait(PAUSE)
            if time.monotonic() > deadline:
                raise Stalled(f"{self.speaker} says {n} on {handle} for {STANDSTILL:g} s: {why}")


def by_hook(server: WebServer) -> Speaker:
    """Return a speaker that sends requests to the web hook."""

    def say(handle: str, n: int) -> str:
        data = json.dumps({"handle": handle, "n": n}).encode()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/", data, timeout=ANSWER):
                return ""
        except urllib.error.HTTPError as error:
            with error:
                return f"status {error.code}"
        except OSError:  # nobody listens, or the server was killed while it worked on the request
            return "no answer"

    return Speaker(HOOK, say)


def by_terminal(kafka: Kafka, random: Random, kills: float) -> Speaker:
    """Return a speaker that runs the command line. This share of its processes is killed at some time."""

    def say(handle: str, n: int) -> str:
        body = json.dumps({"speaker": TERMINAL, "n": n})
        command = [
            str(PROGRAM), "dialogs", "send", handle, SAID, body, "--service", f"{HERE}:shop_1", "--key", f"{TERMINAL}-{n}",
            "--bootstrap", kafka.bootstrap, "--namespace", kafka.namespace, "--json",
        ]  # fmt: skip
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ)
        try:
            process.communicate(timeout=random.uniform(0.5, 4.0) if random.random() < kills else None)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return "killed"
        return "" if process.returncode == Exit.FINE else f"exit code {process.returncode}"

    return Speaker(TERMINAL, say)
