"""The class archive of the broker: the classes of Kafka as the JVM has them in memory. With it, a start takes half the time.

Theory of operation. The JVM itself writes the archive when a run ends that was started with ``-XX:ArchiveClassesAtExit`` (JEP 350). That run
writes into a file of its own. The file gets its final name after a clean end, so no run reads a part of an archive. The name has a
digest of everything that the archive depends on: after an update of Java or of Kafka, the next run writes a new one. The JVM checks
the archive again, and starts without it if it does not fit. A JVM that cannot write archives writes none, and starts as before.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Sequence
from pathlib import Path

from conversations_ops.broker.java import Java
from conversations_ops.broker.server import JVM_OPTIONS
from conversations_ops.cache import cache_directory

UNUSED_DAYS = 30
"""Days after which an archive that no start has used is removed."""
CLEAN = (0, 143)
"""Exit codes of a JVM that ended by itself, or at SIGTERM. It has written the archive before."""


class ClassArchive:
    """The archive for one Java, with its options, and one class path.

    Args:
        directory: where archives are kept. It is made if it does not exist.
        java: the Java that writes and reads the archive.
        options: other options of the JVM.
        jars: the class path. The jars exist.
    """

    def __init__(self, directory: Path, java: Java, options: Sequence[str], jars: Sequence[Path]) -> None:
        self.path = directory / f"{_digest(java, options, jars)}.jsa"
        self._part = directory / f"{self.path.stem}.{os.urandom(8).hex()}.part"
        with contextlib.suppress(OSError):  # a cache may be read-only; then every start is slow
            directory.mkdir(exist_ok=True)

    def reading(self) -> list[str]:
        """Return the options of a JVM that starts with the archive; none if there is no archive."""
        try:
            os.utime(self.path)  # it is in use
        except OSError:
            return []
        return [f"-XX:SharedArchiveFile={self.path}"]

    def reading_or_writing(self) -> list[str]:
        """Return the options of a JVM that reads the archive, or else writes it at its end."""
        return self.reading() or [f"-XX:ArchiveClassesAtExit={self._part}"]

    def keep(self, exit_code: int | None) -> None:
        """Keep the archive of a run that ended cleanly. Remove what an interrupted run has written, and unused archives."""
        with contextlib.suppress(OSError):  # without an archive, the next start is slower, and that is all
            if not self._part.exists():
                return
            if exit_code not in CLEAN:
                self._part.unlink()
                return
            self._part.replace(self.path)
            self._tidy()

    def _tidy(self) -> None:
        oldest = time.time() - UNUSED_DAYS * 86400
        for path in self.path.parent.iterdir():
            if path.stat().st_mtime < oldest:
                path.unlink(missing_ok=True)


def broker_classes(java: Java, jars: Sequence[Path]) -> ClassArchive:
    """Return the archive of the embedded broker, in the cache."""
    return ClassArchive(cache_directory() / "classes", java, JVM_OPTIONS, jars)


def _digest(java: Java, options: Sequence[str], jars: Sequence[Path]) -> str:
    files = [java.path.resolve(), *jars]
    marks = [f"{path}:{it.st_size}:{it.st_mtime_ns}" for path in files for it in [path.stat()]]
    return hashlib.sha256("\n".join([*options, *marks]).encode()).hexdigest()[:32]
