"""Spark jobs as people call them, with the real command line."""

import json
import os
import signal
import subprocess
from pathlib import Path
from random import Random
from uuid import uuid4

import pytest

from conversations import Kafka
from conversations_ops.cli.spark import JOBS
from tests.acceptance.support.command_line import PROGRAM, alive
from tests.spark.support.queues import Queues
from tests.spark.support.unreliable_wire import Unreliable
from tests.support.waiting import SLOWER, until

pytestmark = [pytest.mark.acceptance, pytest.mark.slow, pytest.mark.timeout(240)]


def spark(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``conversations spark``, with some variables of the environment changed."""
    return subprocess.run(
        [PROGRAM, "spark", *arguments], env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=120 * SLOWER
    )  # fmt: skip


def test_every_job_is_listed_and_teaches_itself() -> None:
    listed = spark("--help").stdout
    for job in JOBS:
        assert job in listed
        taught = spark(job, "--help")
        assert taught.returncode == 0, taught.stderr
        assert taught.stdout.startswith(f"usage: conversations spark {job}")
        assert "Exit codes: 0 fine" in taught.stdout


def test_what_is_missing_is_named_with_the_way_out(tmp_path: Path) -> None:
    where = str(tmp_path / "archive")
    nothing = spark("archive", where, CONVERSATIONS_BOOTSTRAP="")
    assert (nothing.returncode, "--bootstrap HOST:PORT" in nothing.stderr) == (2, True)
    (tmp_path / "bin").mkdir()
    java = tmp_path / "bin" / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    old = spark("archive", where, "--bootstrap", "h:1", "--json", PATH=str(java.parent), JAVA_HOME="")
    said = json.loads(old.stdout)
    assert (old.returncode, said["kind"]) == (2, "SparkUnavailable")
    assert "only these were found: Java 11 at " in said["error"]
    assert "install Java 17 or newer" in said["error"]
    assert "embedded-java" not in said["error"]
    no_jars = spark(
        "archive", where, "--bootstrap", "h:1", CONVERSATIONS_CACHE=str(tmp_path / "none"), https_proxy="http://127.0.0.1:9",
        HTTPS_PROXY="http://127.0.0.1:9",
    )  # fmt: skip
    assert no_jars.returncode == 1
    assert "Spark's connectors" in no_jars.stderr


@pytest.mark.kafka
def test_an_archive_is_stopped_by_ctrl_c_and_goes_on_and_its_kafka_is_looked_for(
    kafka_bootstrap: str, tmp_path: Path
) -> None:
    kafka = Kafka(kafka_bootstrap, namespace=f"a{uuid4().hex[:10]}")
    wire = Unreliable(Queues(kafka), Random(5))
    wire.speak(dialogs=30, messages=10)
    where = [str(tmp_path / "archive"), "--bootstrap", kafka.bootstrap, "--namespace", kafka.namespace]
    command = [str(PROGRAM), "spark", "archive", *where, "--most", "20"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as job:
        assert job.stderr is not None
        said = iter(job.stderr.readline, b"")
        assert any(line.startswith(b"batch 2:") for line in said)
        started = [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/cmdline") if _started_by(job.pid, path)]
        assert started
        job.send_signal(signal.SIGINT)
        rest = job.stderr.read().decode()
        assert (job.wait(60), "stopped" in rest) == (130, True)
        assert "Traceback" not in rest, rest
    until(lambda: not any(alive(pid) for pid in started), "the JVM gone", 20)
    done = spark("archive", *where, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert 0 < found["messages"] < len(wire.said)
    gone = spark("archive", where[0], "--bootstrap", "127.0.0.1:9", "--namespace", kafka.namespace)
    assert (gone.returncode, "Kafka cannot be reached at 127.0.0.1:9" in gone.stderr) == (3, True)


def _started_by(pid: int, path: Path) -> bool:
    try:
        status = (path.parent / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return False
    return int(status[3]) == pid  # of its session, which it began
