"""Starts, finds and stops brokers with a name. A broker with a name keeps running after the end of the command that started it."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from conversations.private_files import private_file
from conversations_ops.broker.broker import EmbeddedBroker
from conversations_ops.broker.errors import (
    BrokerError,
    EndedByItself,
    NameTaken,
    NotRunning,
    NotTheBroker,
    StartFailed,
    by_name,
)
from conversations_ops.broker.jars import ensure_jars
from conversations_ops.broker.java import find_java
from conversations_ops.cache import FIX, NoDirectory, cache_directory, made

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
STOP_TIMEOUT = 30.0  # seconds
POLL = 0.1
DAEMON = "conversations_ops.broker.daemon"


@dataclasses.dataclass(frozen=True)
class Record:
    """A started broker: the id of the process that holds it, its address and its files."""

    name: str
    pid: int
    bootstrap: str
    data: str
    log: str
    kept: bool  # True if the data outlives the broker
    started_at: float  # seconds since 1970


def serve(name: str, data: Path | None, port: int | None, ready: Callable[[Record], None]) -> None:
    """Run a broker under a name until SIGINT or SIGTERM. As soon as the broker serves clients, call ``ready`` with its record.

    Raises NameTaken, EndedByItself, and the errors of ``EmbeddedBroker.start``.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that SIGTERM ends this process as Ctrl-C does
    with contextlib.suppress(KeyboardInterrupt), held(name), EmbeddedBroker(data, port) as broker:
        record = Record(
            name, os.getpid(), broker.bootstrap, str(broker.data), str(broker.log_path), data is not None, time.time()
        )
        write(record)
        ready(record)
        while broker.running:
            time.sleep(POLL)
        raise EndedByItself(
            "Kafka ended by itself. Start it again; if it ends again, its log says why", log_path=broker.log_path
        )


def start_detached(name: str, data: Path | None, port: int | None) -> Record:
    """Start a broker that outlives this process. First fetch the jars in this process, so that the user sees the progress.

    Raises NameTaken, and the errors of ``EmbeddedBroker.start``.
    """
    check_name(name)
    find_java()
    ensure_jars()
    # -P: modules of the current directory must not shadow modules of Python.
    command = [sys.executable, "-P", "-m", DAEMON, name, str(data or ""), str(port or "")]
    with daemon_log(name).open("wb") as errors:
        daemon = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
        )
    if daemon.stdout is None:
        raise StartFailed("The broker's process has no output to listen to")
    try:
        with daemon.stdout as answers:
            answer = answers.readline()
    except KeyboardInterrupt:
        daemon.terminate()
        daemon.wait()
        raise
    return understand(answer, daemon_log(name), daemon)


def understand(answer: str, log: Path, daemon: subprocess.Popen[str]) -> Record:
    """Return the record in a daemon's answer, which is one line. If the answer has an error, raise the error."""
    try:
        told = json.loads(answer)
    except ValueError:
        daemon.wait()
        raise StartFailed("The broker's process ended without an answer", log_path=log) from None
    if "error" in told:
        daemon.wait()
        raise by_name(told["kind"])(told["error"], log_path=Path(told["log"]) if told["log"] else None)
    daemon.returncode = 0  # without an exit code here, Python would warn that the daemon still runs
    return Record(**told)


def stop(name: str) -> Record:
    """Stop a named broker and wait for its end. If it has not ended after 30 s, kill it. Raises NotRunning, NotTheBroker."""
    record = find(name)
    if record is None or not is_held(name):
        forget(name)  # the broker may have crashed and left its record
        raise NotRunning(f"No broker named {name!r} is running. `conversations broker status` lists the running ones")
    tell(record, signal.SIGTERM)
    deadline = time.monotonic() + STOP_TIMEOUT
    while is_held(name):
        if time.monotonic() > deadline:
            tell(record, signal.SIGKILL)  # the server's supervisor notices and ends the server
            deadline = float("inf")
        time.sleep(POLL)
    return record


def tell(record: Record, number: signal.Signals) -> None:
    """Send a signal to the process that holds a broker. Raises NotTheBroker if the recorded process is another program."""
    words = set(command_of(record.pid))
    if not {DAEMON, record.name} <= words and not {"broker", "start", "--foreground"} <= words:
        raise NotTheBroker(
            f"The record of broker {record.name!r} names process {record.pid}, which is not a broker of this program. It was not "
            f"stopped. If the broker still runs, end it by hand, and delete {record_path(record.name)}"
        )
    with contextlib.suppress(ProcessLookupError):  # the process has just ended
        os.kill(record.pid, number)


def command_of(pid: int) -> list[str]:
    """Return the words of a process's command line; an empty list if the process is gone or cannot be read."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")[:-1]
    except OSError:
        if Path("/proc/self/cmdline").exists():
            return []
    found = subprocess.run(["ps", "-p", str(pid), "-o", "command="], capture_output=True, text=True, check=False)
    return found.stdout.split()


def find_all() -> list[tuple[Record, bool]]:
    """Return the record of every broker, with True if its process runs, and with False if the broker has crashed.

    If this user can have no cache directory, this user has started no broker.
    """
    try:
        names = sorted(path.stem for path in directory().glob("*.json"))
    except NoDirectory:
        return []
    records = ((name, find(name)) for name in names)
    return [(record, is_held(name)) for name, record in records if record is not None]


def find(name: str) -> Record | None:
    """Return the record of a broker that runs or has crashed; None if the file is missing, damaged, or belongs to another user."""
    path = record_path(name)
    try:
        if path.stat().st_uid != os.geteuid():
            return None
        record = Record(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    return record if type(record.pid) is int and record.pid > 0 and record.name == name else None


def forget(name: str) -> None:
    """Remove the record of a broker that has ended."""
    record_path(name).unlink(missing_ok=True)


def write(record: Record) -> None:
    """Write a record atomically."""
    path = record_path(record.name)
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(dataclasses.asdict(record)), encoding="utf-8")
    draft.replace(path)


@contextlib.contextmanager
def held(name: str) -> Iterator[None]:
    """Hold the name while the block runs, and remove the record at the end of the block. Raises NameTaken.

    A lock on a file shows that a broker runs. A process id would not show this, because the system reuses process ids.
    """
    check_name(name)
    with private_file(lock_path(name)) as file:
        if not acquire(file):
            raise NameTaken(
                f"A broker named {name!r} is running. Use it (its address: conversations broker status), stop it (conversations "
                f"broker stop {name}), or give the new broker another --name"
            )
        try:
            yield
        finally:
            forget(name)


def acquire(file: IO[bytes]) -> bool:
    """Lock a file and return True. Try five times, because ``is_held`` in another process takes the lock for a moment."""
    for _ in range(5):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            time.sleep(POLL)
        else:
            return True
    return False


def is_held(name: str) -> bool:
    """Return True if a process holds the name."""
    try:
        with lock_path(name).open("r") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def check_name(name: str) -> None:
    """Raise BrokerError for a name that some system may not allow as a file name."""
    if not NAME.fullmatch(name):
        raise BrokerError(
            f"{name!r} cannot name a broker: use letters, digits, '.', '_' and '-', at most 64 characters"
        )


def directory() -> Path:
    """Return the directory with the records of named brokers."""
    return made(cache_directory() / "brokers", FIX)


def record_path(name: str) -> Path:
    """Return the path of a broker's record."""
    return directory() / f"{name}.json"


def lock_path(name: str) -> Path:
    """Return the path of the file that is locked while the broker runs."""
    return directory() / f"{name}.lock"


def daemon_log(name: str) -> Path:
    """Return the path of the log of the process that holds a broker. The log says why this process failed."""
    return directory() / f"{name}.daemon.log"
