"""Settings, ports, diagnosis and the supervisor: the parts of the broker that need no broker."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from conversations_ops.broker import supervisor
from conversations_ops.broker.diagnosis import diagnose
from conversations_ops.broker.errors import (
    BrokerError,
    DataInUse,
    DiskFull,
    MetadataMisread,
    PortTaken,
    StartFailed,
    by_name,
)
from conversations_ops.broker.java import Java
from conversations_ops.broker.process import ServerProcess
from conversations_ops.broker.server import HEAP, SETTINGS, Layout, jvm, render, run_command
from conversations_ops.broker.sockets import BELOW_EPHEMERAL, check_free, free_ports, is_free
from conversations_ops.host import interruptible
from tests.support.ports import KeptPorts


def test_every_listener_is_on_the_loopback_interface(tmp_path: Path) -> None:
    lines = dict(line.split("=", 1) for line in render(Layout(tmp_path), 1111, 2222).splitlines())
    assert lines["listeners"] == "PLAINTEXT://127.0.0.1:1111,CONTROLLER://127.0.0.1:2222"
    assert lines["controller.quorum.voters"] == "1@127.0.0.1:2222"
    assert SETTINGS.items() <= lines.items()


def test_the_heap_is_bounded(tmp_path: Path) -> None:
    command = run_command(jvm(Java(Path("java"), 17, "PATH"), [Path("a.jar"), Path("b.jar")]), Layout(tmp_path))
    assert HEAP in command
    assert os.pathsep.join(["a.jar", "b.jar"]) in command


def test_free_ports_differ_and_lie_below_those_of_outgoing_connections() -> None:
    ports = free_ports(5)
    assert len(set(ports)) == 5
    assert all(port in BELOW_EPHEMERAL for port in ports)


def test_a_kept_port_is_not_chosen_and_a_server_can_listen_on_it() -> None:
    with KeptPorts(2) as kept, socket.socket() as server:
        port = kept.numbers[0]
        assert not is_free(port)
        check_free(port)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", port))
        server.listen()
        kept.close()
        assert not is_free(port)


def test_a_port_somebody_listens_on_is_refused() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(PortTaken, match="--port"):
            check_free(other.getsockname()[1])


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("java.net.BindException: Address already in use", PortTaken),
        ("java.io.IOException: No space left on device", DiskFull),
        ("org.apache.kafka.common.KafkaException: Failed to acquire lock on file .lock in /data", DataInUse),
        ("java.lang.IllegalStateException: something new", StartFailed),
        ("org.apache.kafka.common.errors.CorruptRecordException: Record is corrupt", StartFailed),
        (
            "Unhandled fault in MetadataLoader#handleCommit\norg.apache.kafka.common.errors.CorruptRecordException: corrupt",
            MetadataMisread,
        ),
    ],
)
def test_a_failed_start_is_explained_from_the_log_of_this_run_only(
    tmp_path: Path, line: str, kind: type[BrokerError]
) -> None:
    log = tmp_path / "broker.log"
    log.write_text("java.net.BindException: Address already in use\n")
    since = log.stat().st_size
    log.write_text(log.read_text() + f"starting\n{line}\n")
    error = diagnose(log, since, "Kafka ended while starting")
    assert type(error) is kind
    assert str(log) in str(error)


def test_errors_travel_between_processes_by_name() -> None:
    assert by_name("PortTaken") is PortTaken
    assert by_name("Nonsense") is BrokerError


def ended(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


CHILD = "import os, sys; print(os.getpid(), flush=True); sys.stdin.read(); import signal; signal.pause()"


def supervised(scratch: Path) -> tuple[subprocess.Popen[str], int]:
    command = [sys.executable, supervisor.__file__, str(scratch), "--", sys.executable, "-c", CHILD]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, int(process.stdout.readline())


@pytest.mark.parametrize(("word", "scratch_stays"), [("stop\n", True), ("", False)])
def test_the_child_ends_with_the_pipe_and_scratch_goes_only_when_nobody_else_can_remove_it(
    tmp_path: Path, word: str, scratch_stays: bool
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    process, child = supervised(scratch)
    process.communicate(word, timeout=20)
    assert process.returncode == 128 + 15
    assert ended(child)
    assert scratch.exists() is scratch_stays


def test_a_server_that_ends_by_itself_ends_its_supervisor_quietly(tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = ServerProcess([sys.executable, "-c", "raise SystemExit(7)"], log, None)
    assert process._process.wait(20) == 7
    assert log.read_text() == ""
    process.stop()


def test_a_server_is_stopped_although_ctrl_c_came_while_its_end_was_looked_at(tmp_path: Path) -> None:
    """Ctrl-C interrupts ``Popen.poll`` now and then right behind its lock, which then stays taken. It is one of some thousand moments."""
    process = ServerProcess(["sleep", "600"], tmp_path / "log", None)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        for number in range(2_000):
            with contextlib.suppress(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, (10 + number % 400) / 1e6)
                while process.exit_code is None:
                    pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    process.stop()
    assert process.exit_code == 128 + 15


def test_a_server_whose_end_was_read_and_lost_has_ended(tmp_path: Path) -> None:
    process = ServerProcess(["true"], tmp_path / "log", None)
    os.waitpid(process.pid, 0)
    process.stop()
    assert process.exit_code == interruptible.LOST


def test_a_server_process_reports_its_exit_code_and_is_stopped_and_killed_harmlessly_twice(tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = ServerProcess([sys.executable, "-c", "print('hello'); raise SystemExit(7)"], log, None)
    process.stop()
    process.stop()
    process.kill()
    assert process.exit_code in {7, 128 + 15}  # stop may be faster than the program
