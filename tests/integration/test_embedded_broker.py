"""The embedded broker is a real one, keeps what it should, and never outlives its owner."""

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from conversations import Kafka
from conversations.kafka.offsets import Ends
from conversations_ops.broker import EmbeddedBroker
from conversations_ops.broker.broker import serves
from conversations_ops.broker.data import locked
from conversations_ops.broker.errors import BrokerError, DataInUse, NameTaken, NotRunning, PortTaken
from conversations_ops.broker.jars import ensure_jars
from conversations_ops.broker.java import find_java
from conversations_ops.broker.named import find_all, start_detached, stop
from conversations_ops.broker.process import ServerProcess
from conversations_ops.broker.server import Layout
from conversations_ops.broker.sockets import accepts
from tests.integration.support.records import leave_open, new_topic, produce_in_transaction, read
from tests.support.waiting import until

pytestmark = pytest.mark.kafka


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of its own, for tests that name brokers, with the jars of the real one."""
    jars = ensure_jars()[0].parent
    monkeypatch.setenv("CONVERSATIONS_CACHE", str(tmp_path))
    (tmp_path / "jars").symlink_to(jars)


def test_a_throw_away_broker_serves_transactions_and_leaves_nothing_behind() -> None:
    with EmbeddedBroker() as broker:
        topic = new_topic(broker.bootstrap)
        produce_in_transaction(broker.bootstrap, topic, b"1", b"2")
        assert read(broker.bootstrap, topic, 2) == [b"1", b"2"]
        data, log, port = broker.data, broker.log_path, broker.port
        assert log.exists()
    assert not data.exists()
    assert not log.exists()
    assert not accepts(port)


def test_data_is_kept_over_stop_and_kill_and_a_second_broker_on_it_is_refused(tmp_path: Path) -> None:
    with EmbeddedBroker(data=tmp_path / "kafka") as broker:
        topic = new_topic(broker.bootstrap)
        produce_in_transaction(broker.bootstrap, topic, b"before the stop")
    with EmbeddedBroker(data=tmp_path / "kafka") as broker:
        assert read(broker.bootstrap, topic, 1) == [b"before the stop"]
        address = broker.bootstrap
        settings = (tmp_path / "kafka" / "server.properties").read_text(encoding="utf-8")
        with pytest.raises(DataInUse, match="Another broker works"):
            EmbeddedBroker(data=tmp_path / "kafka").start()
        assert broker.running
        assert (tmp_path / "kafka" / "server.properties").read_text(encoding="utf-8") == settings
        broker.kill()
        assert not broker.running
        broker.restart()
        assert broker.bootstrap == address
        assert read(broker.bootstrap, topic, 1) == [b"before the stop"]
    assert (tmp_path / "kafka" / "broker.log").exists()


@pytest.mark.slow
def test_a_restart_after_a_kill_ends_the_transactions_that_were_open() -> None:
    """A partition with such a transaction would stand still for ever.

    A coordinator that is loaded too early loses the transaction. It looks for transactions to abort so often here that it surely does.
    """
    with EmbeddedBroker(settings={"transaction.abort.timed.out.transaction.cleanup.interval.ms": "10"}) as broker:
        topic = new_topic(broker.bootstrap)
        leave_open(broker.bootstrap, topic, b"never committed")
        broker.kill()
        broker.restart()
        assert Ends(Kafka(broker.bootstrap), [topic]).decided_by_now() == {(topic, 0): 2}, "the record and its marker"
        produce_in_transaction(broker.bootstrap, topic, b"later")
        assert read(broker.bootstrap, topic, 1) == [b"later"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc to find the server")
def test_a_server_whose_supervisor_was_killed_keeps_its_data_locked(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    with locked(layout) as lock:
        server = ServerProcess(["sleep", "600"], layout.log, None, [lock])
        until(lambda: children(server.pid), "the supervisor starts its child")
    child = int(children(server.pid)[0])
    os.kill(server.pid, signal.SIGKILL)
    with pytest.raises(DataInUse), locked(layout):
        pass
    os.kill(child, signal.SIGKILL)
    with locked(layout):
        server.kill()


MISREADS_ONCE = """#!/bin/sh
case "$*" in *kafka.Kafka*)
  if [ ! -e {marker} ]; then
    touch {marker}
    echo "Unhandled fault in MetadataLoader#handleCommit: CorruptRecordException: Record is corrupt"
    exit 1
  fi
esac
exec {java} "$@"
"""


@pytest.mark.slow
def test_a_start_at_which_kafka_misread_its_metadata_is_tried_again(
    own_cache: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher, marker = tmp_path / "bin" / "java", tmp_path / "misread"
    launcher.parent.mkdir()
    launcher.write_text(MISREADS_ONCE.format(marker=marker, java=find_java().path))
    launcher.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with EmbeddedBroker() as broker:
        assert marker.exists()
        assert serves(broker.bootstrap)


def test_a_machine_too_busy_to_format_in_time_is_told_as_a_failed_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conversations_ops.broker.broker.FORMAT_TIMEOUT", 0.01)
    broker = EmbeddedBroker()
    with pytest.raises(BrokerError, match=r"did not format its data directory within 0\.01 s"):
        broker.start()
    assert not broker.running


def test_two_brokers_do_not_know_of_each_other_and_a_taken_port_is_refused() -> None:
    with EmbeddedBroker() as one, EmbeddedBroker() as two:
        topic = new_topic(one.bootstrap)
        produce_in_transaction(one.bootstrap, topic, b"1")
        assert two.port != one.port
        assert serves(two.bootstrap)
        with pytest.raises(PortTaken, match=str(one.port)):
            EmbeddedBroker(port=one.port).start()


OWNER = """
import sys
from conversations_ops.broker import EmbeddedBroker
with EmbeddedBroker() as broker:
    print(broker.port, broker.data, flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc to find the supervisor")
def test_the_broker_dies_with_an_owner_killed_by_sigkill_and_its_data_goes() -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    assert owner.stdin is not None
    port, data = owner.stdout.readline().split()
    supervisor = int(children(owner.pid)[0])
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait()
    owner.stdin.close()
    owner.stdout.close()
    wait_for_end(supervisor)
    assert not accepts(int(port))
    assert not Path(data).exists()


def children(pid: int) -> list[str]:
    """Process ids of a process's children."""
    return Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()


def wait_for_end(pid: int) -> None:
    """Wait for a process that is not our child."""
    descriptor = os.pidfd_open(pid)
    try:
        assert select.select([descriptor], [], [], 30)[0], "it lives on"
    finally:
        os.close(descriptor)


@pytest.mark.slow
def test_a_corrupted_jar_is_repaired_before_the_broker_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = ensure_jars()
    monkeypatch.setenv("CONVERSATIONS_CACHE", str(tmp_path))
    (tmp_path / "jars").mkdir()
    for jar in source:
        (tmp_path / "jars" / jar.name).hardlink_to(jar)
    damaged = tmp_path / "jars" / next(jar.name for jar in source if jar.name.startswith("slf4j-api"))
    right = damaged.read_bytes()
    damaged.unlink()
    damaged.write_bytes(right[: len(right) // 2])
    with EmbeddedBroker() as broker:
        assert serves(broker.bootstrap)
    assert damaged.read_bytes() == right


def test_a_named_broker_lives_on_until_it_is_stopped(own_cache: None) -> None:
    record = start_detached("one", None, None)
    try:
        assert serves(record.bootstrap)
        assert find_all() == [(record, True)]
        with pytest.raises(NameTaken, match="--name"):
            start_detached("one", None, None)
    finally:
        stopped = stop("one")
    assert stopped == record
    assert find_all() == []
    assert not accepts(int(record.bootstrap.partition(":")[2]))
    assert not Path(record.data).exists()
    with pytest.raises(NotRunning):
        stop("one")


@pytest.mark.slow
def test_a_detached_brokers_failure_is_told_to_the_command_that_started_it(own_cache: None) -> None:
    with EmbeddedBroker() as other, pytest.raises(PortTaken, match=str(other.port)):
        start_detached("one", None, other.port)
    assert find_all() == []


def test_ctrl_c_ends_a_foreground_broker_without_a_traceback(own_cache: None) -> None:
    python = [sys.executable, "-X", "faulthandler"]
    command = [*python, "-m", "conversations_ops.cli.app", "broker", "start", "--foreground", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    record = json.loads(process.stdout.readline())
    process.send_signal(signal.SIGINT)
    try:
        out, err = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)  # so it writes where it stands, and the assertion shows that
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "", "")
    assert not accepts(int(record["bootstrap"].partition(":")[2]))
    assert not Path(record["data"]).exists()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc to find what the JVM has mapped")
def test_the_second_start_uses_the_class_archive_that_the_first_run_wrote(own_cache: None, tmp_path: Path) -> None:
    archives = tmp_path / "classes"

    def mapped(broker: EmbeddedBroker) -> set[str]:
        """Return the archives that the server has mapped. The last process of the supervisor's group is the server."""
        assert broker._server is not None
        group = broker._server.pid
        maps = [it / "maps" for it in Path("/proc").iterdir() if it.name.isdigit() and _group(it) == group]
        return {line.split("/", 1)[1] for it in maps for line in it.read_text().splitlines() if str(archives) in line}

    def first_run() -> list[Path]:
        with EmbeddedBroker() as first:
            assert not mapped(first)
            assert not any(archives.iterdir()), "an archive is written at the end of a run"
        return list(archives.iterdir())

    # On a busy machine, a server that takes too long to write the archive is killed. Then the next run writes it.
    (archive,) = until(first_run, "a run that wrote the archive")
    assert archive.suffix == ".jsa"
    with EmbeddedBroker() as second:
        assert mapped(second) == {str(archive)[1:]}
        second.kill()
        second.restart()
        assert mapped(second) == {str(archive)[1:]}
    assert list(archives.iterdir()) == [archive]


def _group(process: Path) -> int:
    """Return the process group of a process; 0 if it has ended."""
    try:
        return os.getpgid(int(process.name))
    except ProcessLookupError:
        return 0
