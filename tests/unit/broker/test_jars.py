"""Fetching jars: only bytes the lock names get in place, and what is in place costs no download."""

import errno
import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
import tenacity

from conversations_ops.broker import jars, maven
from conversations_ops.broker.errors import DiskFull, DownloadFailed, JarCorrupted
from conversations_ops.broker.jars import Jar, broker_jars, ensure_jars, parse_lock
from conversations_ops.broker.server import KAFKA_VERSION

CONTENT = b"the bytes of a jar"
JAR = Jar("org.example:thing:1.0", hashlib.sha256(CONTENT).hexdigest(), len(CONTENT))


class Repository:
    """Answers downloads with the given contents, one after the other; an exception is raised instead."""

    def __init__(self, *answers: bytes | Exception) -> None:
        self.answers = list(answers)

    def download(self, coordinate: str, directory: Path, advance: maven.Advance) -> Path:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        path = directory / "download.jar"
        path.write_bytes(answer)
        advance(len(answer))
        return path


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Repository]:
    monkeypatch.setenv("M2_REPO", str(tmp_path / "m2"))
    monkeypatch.setattr(jars, "WAITS", tenacity.wait_none())

    def make(*answers: bytes | Exception) -> Repository:
        made = Repository(*answers)
        monkeypatch.setattr(maven, "download", made.download)
        return made

    return make


def test_a_missing_jar_is_fetched_once_and_then_never_again(
    repository: Callable[..., Repository], tmp_path: Path
) -> None:
    made = repository(CONTENT)
    ensure_jars((JAR,), tmp_path)
    (path,) = ensure_jars((JAR,), tmp_path)
    assert path.read_bytes() == CONTENT
    assert made.answers == []


def test_a_cut_download_is_thrown_away_and_repeated_once(repository: Callable[..., Repository], tmp_path: Path) -> None:
    repository(CONTENT[:5], CONTENT)
    (path,) = ensure_jars((JAR,), tmp_path)
    assert path.read_bytes() == CONTENT


def test_wrong_bytes_twice_is_an_error_and_leaves_nothing_in_place(
    repository: Callable[..., Repository], tmp_path: Path
) -> None:
    repository(b"evil", b"evil")
    with pytest.raises(JarCorrupted, match=r"org\.example:thing:1\.0"):
        ensure_jars((JAR,), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


def test_a_jar_damaged_in_place_is_repaired(repository: Callable[..., Repository], tmp_path: Path) -> None:
    repository(CONTENT)
    (tmp_path / JAR.file_name).write_bytes(CONTENT.upper())  # same length
    (path,) = ensure_jars((JAR,), tmp_path)
    assert path.read_bytes() == CONTENT


def test_a_network_that_recovers_is_waited_for(repository: Callable[..., Repository], tmp_path: Path) -> None:
    repository(maven.NetworkError("reset"), maven.NetworkError("reset"), CONTENT)
    assert ensure_jars((JAR,), tmp_path)[0].exists()


def test_no_network_says_that_only_the_first_start_needs_it(
    repository: Callable[..., Repository], tmp_path: Path
) -> None:
    repository(*[maven.NetworkError("connection refused")] * jars.NETWORK_ATTEMPTS)
    with pytest.raises(DownloadFailed, match="connection refused") as caught:
        ensure_jars((JAR,), tmp_path)
    assert "first start needs the network" in str(caught.value)


def test_a_full_disk_is_named(repository: Callable[..., Repository], tmp_path: Path) -> None:
    repository(OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(DiskFull):
        ensure_jars((JAR,), tmp_path)


def test_the_users_own_maven_repository_is_used_if_it_has_the_right_bytes(
    repository: Callable[..., Repository], tmp_path: Path
) -> None:
    made = repository(CONTENT)
    own = tmp_path / "m2/org/example/thing/1.0/thing-1.0.jar"
    own.parent.mkdir(parents=True)
    own.write_bytes(CONTENT)
    ensure_jars((JAR,), tmp_path / "jars")
    assert made.answers == [CONTENT]

    own.write_bytes(b"truncated")
    ensure_jars((JAR,), tmp_path / "other-jars")
    assert made.answers == []
    assert own.read_bytes() == b"truncated"


def test_the_lock_is_complete_and_of_the_kafka_we_speak_of() -> None:
    locked = {jar.coordinate: jar for jar in broker_jars()}
    assert f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}" in locked
    assert all(len(jar.sha256) == 64 and jar.size > 0 for jar in locked.values())
    assert len({jar.file_name for jar in locked.values()}) == len(locked)


def test_a_lock_line_is_coordinate_sha256_size() -> None:
    assert parse_lock(f"# comment\n{JAR.coordinate} {JAR.sha256} {JAR.size}\n") == (JAR,)
