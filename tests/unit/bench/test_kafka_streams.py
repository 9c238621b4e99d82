import stat
from pathlib import Path

import pytest

from bench.kafka_streams import program
from bench.unavailable import Unavailable
from bench.workload import Job, Workload
from conversations_ops.broker.server import KAFKA_VERSION

JOB = Job("streams", "nowhere:1", "space", "", Workload())


def test_the_lock_names_the_kafka_that_is_measured_and_no_address() -> None:
    assert f"org.apache.kafka:kafka-streams:{KAFKA_VERSION}" in {jar.coordinate for jar in program.jars()}
    assert "://" not in program.LOCK.read_text(encoding="utf-8")


def test_without_a_compiler_it_is_left_out_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"21.0.1\"' >&2\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(Unavailable, match="no javac"):
        program.command(JOB)


def test_a_reason_names_no_address() -> None:
    assert str(Unavailable("cannot reach https://example.com/simple now")) == "cannot reach the package index now"
