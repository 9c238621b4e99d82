"""The class archive of the broker: a file per Java and class path, never a part of one, and no reason for a start to fail."""

import os
import time
from pathlib import Path

import pytest

from conversations_ops.broker.class_archive import UNUSED_DAYS, ClassArchive
from conversations_ops.broker.java import Java


@pytest.fixture
def java(tmp_path: Path) -> Java:
    launcher = tmp_path / "java"
    launcher.write_bytes(b"java")
    return Java(launcher, 17, "PATH")


@pytest.fixture
def jar(tmp_path: Path) -> Path:
    path = tmp_path / "a.jar"
    path.write_bytes(b"jar")
    return path


def written(archive: ClassArchive) -> Path:
    """Do what the JVM does at its end."""
    (option,) = archive.reading_or_writing()
    path = Path(option.removeprefix("-XX:ArchiveClassesAtExit="))
    path.write_bytes(b"classes")
    return path


def test_what_a_clean_run_has_written_is_read_by_the_next(tmp_path: Path, java: Java, jar: Path) -> None:
    archive = ClassArchive(tmp_path / "classes", java, ["-Xmx1m"], [jar])
    assert archive.reading() == []
    part = written(archive)
    assert archive.reading() == [], "no run reads a part"
    archive.keep(143)
    assert not part.exists()
    again = ClassArchive(tmp_path / "classes", java, ["-Xmx1m"], [jar])
    assert again.reading() == again.reading_or_writing() == [f"-XX:SharedArchiveFile={archive.path}"]


@pytest.mark.parametrize("exit_code", [137, 1, None])
def test_what_an_interrupted_run_has_written_is_removed(
    tmp_path: Path, java: Java, jar: Path, exit_code: int | None
) -> None:
    archive = ClassArchive(tmp_path / "classes", java, [], [jar])
    part = written(archive)
    archive.keep(exit_code)
    assert not part.exists()
    assert archive.reading() == []


def test_two_brokers_of_one_process_write_into_files_of_their_own(tmp_path: Path, java: Java, jar: Path) -> None:
    first, second = (ClassArchive(tmp_path / "classes", java, [], [jar]) for _ in range(2))
    assert first.path == second.path
    half = written(second)
    written(first)
    first.keep(143)
    assert half.exists(), "the second JVM still writes it"


def test_another_java_other_jars_and_other_options_have_another_archive(tmp_path: Path, java: Java, jar: Path) -> None:
    def name(*options: str) -> str:
        return ClassArchive(tmp_path / "classes", java, options, [jar]).path.name

    names = [name(), name("-Xmx1m")]
    jar.write_bytes(b"other jar")
    names.append(name())
    java.path.write_bytes(b"other java")
    names.append(name())
    assert len(set(names)) == 4


def test_archives_that_nobody_has_used_are_removed(tmp_path: Path, java: Java, jar: Path) -> None:
    directory = tmp_path / "classes"
    archive, other = (ClassArchive(directory, java, [it], [jar]) for it in ("-Xa", "-Xb"))
    long_ago = time.time() - (UNUSED_DAYS + 1) * 86400
    for name in ("old.jsa", "stale.9.part"):
        (directory / name).write_bytes(b"")
        os.utime(directory / name, (long_ago, long_ago))
    written(other)
    other.keep(0)
    os.utime(other.path, (long_ago, long_ago))
    assert other.reading(), "a start uses it"
    written(archive)
    archive.keep(0)
    assert {it.name for it in directory.iterdir()} == {archive.path.name, other.path.name}


def test_a_cache_that_cannot_be_written_stops_no_start(tmp_path: Path, java: Java, jar: Path) -> None:
    (tmp_path / "classes").write_bytes(b"a file in the way")
    archive = ClassArchive(tmp_path / "classes", java, [], [jar])
    assert archive.reading() == []
    archive.keep(143)
