"""Fetches missing jars by their Maven coordinates, and verifies all jars against a lock file at every start.

The broker's jars are one set of jars. Each other set has its own lock file.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.resources
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import tenacity

from conversations_ops.broker import maven
from conversations_ops.broker.errors import DiskFull, DownloadFailed, JarCorrupted
from conversations_ops.broker.progress import Progress, progress
from conversations_ops.cache import cache_directory

LOCK_NAME = "jars.lock"
PARALLEL_DOWNLOADS = 6
NETWORK_ATTEMPTS = 4
WAITS = tenacity.wait_random_exponential(multiplier=0.5, max=5)  # seconds between two attempts


@dataclass(frozen=True)
class Jar:
    """One line of the lock: ``group:artifact:version``, sha256 in hex, size in bytes."""

    coordinate: str
    sha256: str
    size: int

    @property
    def file_name(self) -> str:
        _, artifact, version = self.coordinate.split(":")
        return f"{artifact}-{version}.jar"


def parse_lock(text: str) -> tuple[Jar, ...]:
    """Return the jars of a lock: each line is ``coordinate sha256 size``; ``#`` starts a comment."""
    rows = (line.split() for line in text.splitlines() if line and not line.startswith("#"))
    return tuple(Jar(coordinate, sha256, int(size)) for coordinate, sha256, size in rows)


def broker_jars() -> tuple[Jar, ...]:
    """Return the jars of the embedded broker, from the lock file in this package."""
    package = importlib.resources.files(__package__ or "conversations_ops.broker")
    return parse_lock((package / LOCK_NAME).read_text(encoding="utf-8"))


def ensure_jars(jars: tuple[Jar, ...] | None = None, directory: Path | None = None, what: str = "Kafka") -> list[Path]:
    """Return the paths of verified jars. Fetch missing and damaged jars first; if all jars are intact, do not use the network.

    The defaults are the broker's jars and the directory ``jars/`` of the cache. ``what`` is a name for the jars in the progress display
    and in errors. Only one process fetches at a time. Raises DownloadFailed, JarCorrupted, DiskFull.
    """
    jars = broker_jars() if jars is None else jars
    directory = cache_directory() / "jars" if directory is None else directory
    directory.mkdir(parents=True, exist_ok=True)
    if any(not is_intact(jar, directory) for jar in jars):
        with fetch_lock(directory):  # another process may have fetched jars meanwhile: check again
            fetch([jar for jar in jars if not is_intact(jar, directory)], directory, what)
    return [directory / jar.file_name for jar in jars]


def is_intact(jar: Jar, directory: Path) -> bool:
    """Return True if the directory has the jar with the size and the sha256 of the lock."""
    path = directory / jar.file_name
    return path.is_file() and path.stat().st_size == jar.size and digest(path) == jar.sha256


def digest(path: Path) -> str:
    """Return the sha256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def fetch_lock(directory: Path) -> Iterator[None]:
    """Keep other processes from fetching into the directory while the block runs. First wait, without limit, for a process that fetches."""
    with (directory / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def fetch(jars: list[Jar], directory: Path, what: str = "Kafka") -> None:
    """Fetch jars in parallel. The caller holds the fetch lock."""
    for leftover in directory.glob(".fetch-*"):  # directories of processes that died while fetching
        shutil.rmtree(leftover, ignore_errors=True)
    if not jars:
        return
    total = sum(jar.size for jar in jars)
    title = f"Fetching {what}: {len(jars)} jars, {total / 1e6:.0f} MB, once"
    with progress(title, total) as bar, ThreadPoolExecutor(PARALLEL_DOWNLOADS) as pool:
        try:
            for _ in pool.map(lambda jar: fetch_one(jar, directory, bar), jars):
                pass
        except OSError as error:
            pool.shutdown(cancel_futures=True)
            if error.errno in maven.DISK_FULL:
                raise DiskFull(
                    f"No room for the jars of {what} in {directory}: free {total / 1e6:.0f} MB there"
                ) from error
            raise
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def fetch_one(jar: Jar, directory: Path, bar: Progress) -> None:
    """Put one jar into the directory. If the user's Maven repository has the jar with the correct bytes, copy it. Else download it.

    A download with wrong bytes is thrown away and repeated once. Raises DownloadFailed, JarCorrupted, OSError.
    """
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=directory) as scratch:
        local = maven.local_copy(jar.coordinate)
        if local and local.stat().st_size == jar.size:
            # Verify the copy, not the source, because the source may change after its verification and before the copying.
            copy = Path(shutil.copyfile(local, Path(scratch) / jar.file_name))
            if digest(copy) == jar.sha256:
                bar.advance(jar.size)
                copy.replace(directory / jar.file_name)
                return
    found = ""
    for _ in range(2):
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=directory) as scratch:
            path = download(jar, Path(scratch), bar)
            found = digest(path)
            if found == jar.sha256:
                path.replace(directory / jar.file_name)
                return
    raise JarCorrupted(
        f"The download of {jar.coordinate} has sha256 {found}, but {LOCK_NAME} has {jar.sha256}. "
        "A proxy or mirror probably alters downloads or cuts them off: fetch from another network, then start again"
    )


def download(jar: Jar, scratch: Path, bar: Progress) -> Path:
    """Download one jar. While the network fails, try again with growing waits. Raises DownloadFailed, OSError."""
    attempts = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(maven.NetworkError),
        stop=tenacity.stop_after_attempt(NETWORK_ATTEMPTS),
        wait=WAITS,
        reraise=True,
    )

    def attempt() -> Path:
        return maven.download(jar.coordinate, Path(tempfile.mkdtemp(dir=scratch)), bar.advance)

    try:
        return attempts(attempt)
    except maven.NetworkError as error:
        raise DownloadFailed(
            f"Cannot download {jar.coordinate} ({error}). The first start needs the network, to reach Maven Central; "
            "later starts work offline. Behind a proxy, set HTTPS_PROXY. Or let Maven fetch the artifacts of "
            f"{LOCK_NAME} into ~/.m2 from its own mirrors (mvn dependency:get -Dartifact={jar.coordinate}). Or copy the "
            "directory jars from the cache of another machine"
        ) from error
