"""A real Kafka broker in a child process: KRaft, one node, 127.0.0.1 only."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from conversations.private_files import private_directory
from conversations_ops.broker.class_archive import ClassArchive, broker_classes
from conversations_ops.broker.data import (
    check_room,
    locked,
    needs_format,
    new_cluster_id,
    read_cluster_id,
    write_marker,
)
from conversations_ops.broker.diagnosis import diagnose
from conversations_ops.broker.errors import BrokerError, MetadataMisread, PortTaken
from conversations_ops.broker.jars import ensure_jars
from conversations_ops.broker.java import Java, find_java
from conversations_ops.broker.last_run import is_noted, was_cut_off
from conversations_ops.broker.process import ServerProcess
from conversations_ops.broker.server import (
    HOST,
    Layout,
    format_command,
    jvm,
    render,
    render_controller,
    run_command,
)
from conversations_ops.broker.sockets import accepts, check_free, free_ports
from conversations_ops.cache import cache_directory

START_TIMEOUT = 90.0  # seconds; 3 s on an idle laptop, far more on a busy build machine
FORMAT_TIMEOUT = 60.0
ATTEMPTS = 4
POLL = 0.05
LOG_DAYS = 7


class EmbeddedBroker:
    """A Kafka broker for demos, tests and laptops; a context manager.

    The directory ``data`` is kept when the broker stops. Without ``data``, the broker uses a temporary directory and removes it at the
    end. Without ``port``, the broker takes a free port. ``settings`` override the default settings, which are made for a laptop.

    The broker ends when the process that started it ends, even if that process is killed. Several brokers may run at once. A start
    takes about 4 s, the first start longer: it downloads 45 MB, and has no class archive yet. A failed start raises BrokerError; the
    message says how to fix the cause.
    """

    def __init__(
        self, data: Path | None = None, port: int | None = None, *, settings: Mapping[str, str] | None = None
    ) -> None:
        self._kept = data.expanduser().resolve() if data else None
        self._wanted_port = port
        self._settings = dict(settings or {})
        self._port: int | None = port
        self._scratch: Path | None = None
        self._server: ServerProcess | None = None
        self._log: Path | None = None
        self._jars: list[Path] = []
        self._java: Java | None = None
        self._classes: ClassArchive | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def port(self) -> int:
        """Port for clients. It is known after the start, and stays the same after ``restart()``."""
        if self._port is None:
            raise BrokerError("The broker has not been started: use `with EmbeddedBroker() as broker:`")
        return self._port

    @property
    def bootstrap(self) -> str:
        """Value of ``bootstrap.servers`` for clients."""
        return f"{HOST}:{self.port}"

    @property
    def data(self) -> Path:
        """The data directory, kept or temporary."""
        path = self._kept or self._scratch
        if path is None:
            raise BrokerError("The broker has not been started: use `with EmbeddedBroker() as broker:`")
        return path

    @property
    def log_path(self) -> Path:
        """The server's log. Without ``data``, a clean stop removes the log; after a crash or a failed start the log stays."""
        if self._log is None:
            raise BrokerError("The broker has not been started: use `with EmbeddedBroker() as broker:`")
        return self._log

    @property
    def running(self) -> bool:
        """True if the server process runs."""
        return self._server is not None and self._server.exit_code is None

    def start(self) -> None:
        """Start the broker and wait until it serves clients. A BrokerError leaves the log behind, but no process and no temporary data."""
        if self.running:
            return
        self._java = find_java()
        self._jars = ensure_jars()
        self._classes = broker_classes(self._java, self._jars)
        try:
            layout = self._layout()
            with locked(layout) as lock:
                self._prepare(layout)
                self._run(layout, lock)
        except BaseException:
            self._end(keep_log=True)
            raise

    def stop(self) -> None:
        """Stop the broker cleanly, and remove its temporary data directory. Do nothing if the broker was not started."""
        crashed = self._server is not None and self._server.exit_code is not None
        self._end(keep_log=crashed)

    def kill(self) -> None:
        """Kill the server with SIGKILL, as in a crash. The data of the server stays for ``restart()``."""
        if self._server is not None:
            self._server.kill()
            self._server = None

    def restart(self) -> None:
        """Start the broker again with the same port and data. If the server still runs, stop it first."""
        self._stop_server()
        self._wanted_port = self.port
        self.start()

    def _layout(self) -> Layout:
        """Make the data directory, and check that it is empty or was formatted by this version of Kafka."""
        if self._kept is None and self._scratch is None:
            self._scratch = Path(tempfile.mkdtemp(prefix="kafka-dialogs-")).resolve()
        layout = Layout(self.data)
        layout.data.mkdir(parents=True, exist_ok=True)
        needs_format(layout)
        return layout

    def _prepare(self, layout: Layout) -> None:
        """Make the log file, and format an empty data directory. The caller holds the lock of the directory."""
        to_be_formatted = needs_format(layout)
        check_room(layout.data)
        private_directory(layout.logs)
        if self._log is None:
            self._log = layout.log if self._kept else new_log()
        if to_be_formatted:
            write_marker(layout)
            self._format(layout)

    def _format(self, layout: Layout) -> None:
        port, controller_port = free_ports(2)
        layout.properties.write_text(render(layout, port, controller_port, self._settings), encoding="utf-8")
        command = format_command(self._jvm(), layout, new_cluster_id())
        since = log_size(self.log_path)
        try:
            with self.log_path.open("ab") as output:
                done = subprocess.run(
                    command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, timeout=FORMAT_TIMEOUT, check=False
                )
        except subprocess.TimeoutExpired as late:
            what = f"Kafka did not format its data directory within {FORMAT_TIMEOUT:g} s"
            raise diagnose(self.log_path, since, what) from late
        if done.returncode != 0:
            raise diagnose(self.log_path, since, "Kafka could not format its data directory")

    def _run(self, layout: Layout, lock: int) -> None:
        """Start the server, which inherits the lock. Try again if another program took the free port first, or if Kafka misread its metadata.

        On a busy machine, Kafka 4.3.1 misread its metadata. It reported a corrupt record, although it had just written this record. The
        next start with the same data succeeded.
        """
        for attempt in range(ATTEMPTS):
            port, controller_port = free_ports(2)
            if self._wanted_port is not None:
                port = self._wanted_port
                check_free(port)
            try:
                if was_cut_off(layout):
                    self._note_the_end(layout, lock, controller_port)
                self._serve(layout, lock, port, controller_port)
            except (PortTaken, MetadataMisread):
                self._stop_server()
                if attempt == ATTEMPTS - 1:
                    raise
            else:
                self._port = port
                return

    def _serve(self, layout: Layout, lock: int, port: int, controller_port: int) -> None:
        layout.properties.write_text(render(layout, port, controller_port, self._settings), encoding="utf-8")
        cluster_id = read_cluster_id(layout)
        self._start_server(
            run_command(self._jvm(archive=True), layout),
            lock,
            lambda _: accepts(port) and serves(f"{HOST}:{port}", cluster_id),
            "did not answer",
        )

    def _note_the_end(self, layout: Layout, lock: int, controller_port: int) -> None:
        """Let the controller, alone, note that the last run of the broker has ended."""
        layout.properties.write_text(render_controller(layout, controller_port), encoding="utf-8")
        self._start_server(
            run_command(self._jvm(), layout),
            lock,
            lambda since: is_noted(self.log_path, since),
            "did not note that its last run has ended",
        )
        self._stop_server()

    def _start_server(self, command: list[str], lock: int, ready: Callable[[int], bool], late: str) -> None:
        """Start the server, and wait until it is ready. ``ready`` gets the size that the log had at the start."""
        since = log_size(self.log_path)
        self._server = ServerProcess(command, self.log_path, self._scratch, [lock])
        deadline = time.monotonic() + START_TIMEOUT
        while time.monotonic() < deadline:
            if not self.running:
                raise diagnose(self.log_path, since, "Kafka ended while starting")
            if ready(since):
                return
            time.sleep(POLL)
        raise diagnose(self.log_path, since, f"Kafka {late} within {START_TIMEOUT:.0f} s")

    def _stop_server(self) -> None:
        if self._server is not None:
            self._server.stop()
            if self._classes is not None:
                self._classes.keep(self._server.exit_code)
            self._server = None

    def _end(self, *, keep_log: bool) -> None:
        self._stop_server()
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
            self._scratch = None
            if self._log is not None and not keep_log:
                self._log.unlink(missing_ok=True)
            self._log = self._log if keep_log else None
        self._port = self._wanted_port

    def _jvm(self, *, archive: bool = False) -> list[str]:
        """Return the beginning of a command line. With ``archive``, the JVM writes a missing class archive at its end."""
        assert self._java is not None
        assert self._classes is not None
        classes = self._classes
        return jvm(self._java, self._jars, classes.reading_or_writing() if archive else classes.reading())


def serves(bootstrap: str, cluster_id: str | None = None) -> bool:
    """Return True if Kafka answers on the address within 5 s with a list of brokers, and ``cluster_id`` is None or Kafka's cluster id."""
    client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    try:
        metadata = client.list_topics(timeout=5)
    except KafkaException:
        return False
    return bool(metadata.brokers) and cluster_id in {None, metadata.cluster_id}


def new_log() -> Path:
    """Make a new log file in the cache. Remove logs that crashed brokers left there more than a week ago."""
    directory = cache_directory() / "logs"
    directory.mkdir(exist_ok=True)
    oldest = time.time() - LOG_DAYS * 86400
    for path in directory.glob("broker-*.log"):
        if path.stat().st_mtime < oldest:
            path.unlink(missing_ok=True)
    handle, name = tempfile.mkstemp(prefix="broker-", suffix=".log", dir=directory)
    os.close(handle)
    return Path(name)


def log_size(log: Path) -> int:
    """Return the size of a log in bytes, or 0 if the log does not exist."""
    return log.stat().st_size if log.exists() else 0
