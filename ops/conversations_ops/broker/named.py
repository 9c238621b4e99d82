"""Brokers with a name, that live on after the command that started them: start, find, stop."""

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

from conversations.private_files import private_directory, private_file
from conversations_ops.broker.broker import EmbeddedBroker
from conversations_ops.broker.cache import cache_directory
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

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
STOP_TIMEOUT = 30.0  # seconds
POLL = 0.1
DAEMON = "conversations_ops.broker.daemon"


@dataclasses.dataclass(frozen=True)
class Record:
    """A started broker: who holds it (process id), where it listens, where its files are."""

    name: str
    pid: int
    bootstrap: str
    data: str
    log: str
    kept: bool  # whether the data outlives the broker
    started_at: float  # seconds since 1970


def serve(name: str, data: Path | None, port: int | None, ready: Callable[[Record], None]) -> None:
    """Run a broker under a name until SIGINT or SIGTERM; ``ready`` hears of it when clients are served.

    Raises NameTaken, EndedByItself, and whatever starting a broker raises.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that `stop` and Ctrl-C end in the same way
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
    """Start a broker that outlives this process. Fetches the jars first, in sight of the user.

    Raises NameTaken, and whatever starting a broker raises.
    """
    check_name(name)
    find_java()
    ensure_jars()
    # -P: no module of the current directory may take the place of one of Python's.
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
    """The record in a daemon's one-line answer; the daemon's error is raised here."""
    try:
        told = json.loads(answer)
    except ValueError:
        daemon.wait()
        raise StartFailed("The broker's process ended without a word", log_path=log) from None
    if "error" in told:
        daemon.wait()
        raise by_name(told["kind"])(told["error"], log_path=Path(told["log"]) if told["log"] else None)
    daemon.returncode = 0  # it lives on, by intent: no ResourceWarning about it
    return Record(**told)


def stop(name: str) -> Record:
    """Stop a named broker and wait for it; by force after 30 s. Raises NotRunning, NotTheBroker."""
    record = find(name)
    if record is None or not is_held(name):
        forget(name)  # of one that crashed
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
    """Send a signal to the process that holds a broker, and to no other. Raises NotTheBroker."""
    words = set(command_of(record.pid))
    if not {DAEMON, record.name} <= words and not {"broker", "start", "--foreground"} <= words:
        raise NotTheBroker(
            f"Process {record.pid}, which the record of broker {record.name!r} names, is no broker of this program: it is left "
            f"alone. End the broker by hand, and delete {record_path(record.name)}"
        )
    with contextlib.suppress(ProcessLookupError):  # it has just ended
        os.kill(record.pid, number)


def command_of(pid: int) -> list[str]:
    """The words of a process's command line; none for one that is gone, or somebody else's."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")[:-1]
    except OSError:
        if Path("/proc/self/cmdline").exists():
            return []
    found = subprocess.run(["ps", "-p", str(pid), "-o", "command="], capture_output=True, text=True, check=False)
    return found.stdout.split()


def find_all() -> list[tuple[Record, bool]]:
    """Every recorded broker, and whether its process lives; one that does not has crashed."""
    names = sorted(path.stem for path in directory().glob("*.json"))
    records = ((name, find(name)) for name in names)
    return [(record, is_held(name)) for name, record in records if record is not None]


def find(name: str) -> Record | None:
    """The record of a named broker, alive or not; of what somebody else wrote there is none."""
    path = record_path(name)
    try:
        if path.stat().st_uid != os.geteuid():
            return None
        record = Record(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    return record if type(record.pid) is int and record.pid > 0 and record.name == name else None


def forget(name: str) -> None:
    """Remove the record of a broker that is gone."""
    record_path(name).unlink(missing_ok=True)


def write(record: Record) -> None:
    """Write a record in one step."""
    path = record_path(record.name)
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(dataclasses.asdict(record)), encoding="utf-8")
    draft.replace(path)


@contextlib.contextmanager
def held(name: str) -> Iterator[None]:
    """Own the name while the block runs, recorded or not. Raises NameTaken.

    The lock, not the process id, says that a broker lives: process ids are used again.
    """
    check_name(name)
    with private_file(lock_path(name)) as file:
        if not acquire(file):
            raise NameTaken(
                f"A broker named {name!r} is running. Use it (conversations broker status), stop it (conversations "
                f"broker stop {name}), or give this one another --name"
            )
        try:
            yield
        finally:
            forget(name)


def acquire(file: IO[bytes]) -> bool:
    """Lock a file, allowing for somebody who only looks at the lock just now."""
    for _ in range(5):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            time.sleep(POLL)
        else:
            return True
    return False


def is_held(name: str) -> bool:
    """Whether some process owns the name."""
    try:
        with lock_path(name).open("r") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def check_name(name: str) -> None:
    """Raises BrokerError for a name that cannot be a file name everywhere."""
    if not NAME.fullmatch(name):
        raise BrokerError(f"{name!r} cannot name a broker: use letters, digits, '.', '_' and '-', at most 64")


def directory() -> Path:
    """Where records of named brokers are."""
    return private_directory(cache_directory() / "brokers")


def record_path(name: str) -> Path:
    """File with a broker's record."""
    return directory() / f"{name}.json"


def lock_path(name: str) -> Path:
    """File whose lock a living broker holds."""
    return directory() / f"{name}.lock"


def daemon_log(name: str) -> Path:
    """The last words of a failed process that holds a broker."""
    return directory() / f"{name}.daemon.log"
