"""Compiles the programs in Java, and starts them."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from conversations.config import Kafka
from conversations_ops.broker.errors import BrokerError
from conversations_ops.broker.jars import broker_jars, ensure_jars
from conversations_ops.broker.java import find_java
from tests.support.waiting import SLOWER

SOURCES = Path(__file__).parent / "java"
NEEDED = (
    "kafka-clients",
    "slf4j-",
    "jackson-annotations",
    "jackson-core",
    "jackson-databind",
    "lz4-java",
    "snappy-java",
    "zstd-jni",
)
"""Beginnings of the names of the jars that a client of Kafka needs. The embedded broker has them."""


def find_compiler() -> Path | None:
    """Return the compiler of the Java that runs the embedded broker, else the first one on PATH; None if there is none."""
    try:
        beside = find_java().path.resolve().with_name("javac")
    except BrokerError:
        return None
    if beside.exists():
        return beside
    found = shutil.which("javac")
    return Path(found) if found else None


@dataclass(frozen=True)
class Programs:
    """The compiled programs."""

    classes: Path
    jars: tuple[Path, ...]

    @classmethod
    def compile(cls, compiler: Path, classes: Path) -> Self:
        """Compile all sources into the folder ``classes``. A warning is a failure."""
        wanted = tuple(jar for jar in broker_jars() if jar.file_name.startswith(NEEDED))
        jars = tuple(ensure_jars(wanted))
        done = subprocess.run(
            [
                compiler, "-Xlint:all,-processing,-path", "-Werror", "-d", classes, "-cp", ":".join(map(str, jars)),
                *sorted(SOURCES.glob("*.java")),
            ],
            capture_output=True, text=True, timeout=120 * SLOWER, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return cls(classes, jars)

    def command(self, program: str, kafka: Kafka, *arguments: object) -> list[str]:
        """Return the command that runs a program."""
        places = ":".join(map(str, (self.classes, *self.jars)))
        options = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Xmx256m", "-cp", places]
        return [str(find_java().path), *options, program, kafka.bootstrap, kafka.namespace, *map(str, arguments)]

    def run(self, program: str, kafka: Kafka, *arguments: object) -> list[str]:
        """Run a program to its end, and return the lines that it prints."""
        done = subprocess.run(
            self.command(program, kafka, *arguments), capture_output=True, text=True, timeout=120 * SLOWER, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()


class RunningService:
    """The service in Java, in the background. At the end of the ``with`` block it is killed."""

    def __init__(self, programs: Programs, kafka: Kafka, out: Path) -> None:
        self._command = programs.command("CountingService", kafka)
        self.log = out / "java.log"
        self._process = self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """Kill the process with SIGKILL, and wait until it is gone."""
        self._process.kill()
        self._process.wait()

    def start_again(self) -> None:
        """Start another process in the place of a killed one."""
        assert not self.is_alive, "the process runs"
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(self._command, stdout=log, stderr=log)
