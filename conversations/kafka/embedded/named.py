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

from conversations.kafka.embedded.broker import EmbeddedBroker
from conversations.kafka.embedded.cache import cache_directory
from conversations.kafka.embedded.errors import BrokerError, EndedByItself, NameTaken, NotRunning, StartFailed, by_name
from conversations.kafka.embedded.jars import ensure_jars
from conversations.kafka.embedded.java import find_java

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
STOP_TIMEOUT = 30.0  # seconds
POLL = 0.1


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
    command = [sys.executable, "-m", "conversations.kafka.embedded.daemon", name, str(data or ""), str(port or "")]
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
    """Stop a named broker and wait for it; by force after 30 s. Raises NotRunning."""
    record = find(name)
    if record is None or not is_held(name):
        forget(name)  # of one that crashed
        raise NotRunning(f"No broker named {name!r} is running. `conversations broker status` shows those that are")
    os.kill(record.pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_TIMEOUT
    while is_held(name):
        if time.monotonic() > deadline:
            os.kill(record.pid, signal.SIGKILL)  # the server's supervisor notices and ends the server
            deadline = float("inf")
        time.sleep(POLL)
    return record


def find_all() -> list[tuple[Record, bool]]:
    """Every recorded broker, and whether its process lives; one that does not has crashed."""
    names = sorted(path.stem for path in directory().glob("*.json"))
    records = ((name, find(name)) for name in names)
    return [(record, is_held(name)) for name, record in records if record is not None]


def find(name: str) -> Record | None:
    """The record of a named broker, alive or not."""
    try:
        return Record(**json.loads(record_path(name).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


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
    with lock_path(name).open("w") as file:
        if not acquire(file):
            raise NameTaken(
                f"A broker named {name!r} is running. Use it (conversations broker status), stop it (conversations "
                f"broker stop {name}), or give this one another --name"
            )
        try:
            yield
        finally:
            forget(name)


def acquire(file: IO[str]) -> bool:
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
    path = cache_directory() / "brokers"
    path.mkdir(exist_ok=True)
    return path


def record_path(name: str) -> Path:
    """File with a broker's record."""
    return directory() / f"{name}.json"


def lock_path(name: str) -> Path:
    """File whose lock a living broker holds."""
    return directory() / f"{name}.lock"


def daemon_log(name: str) -> Path:
    """What the process that holds a broker says when it fails."""
    return directory() / f"{name}.daemon.log"
