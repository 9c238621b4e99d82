"""Fetches the jars, compiles the sources, and gives the command that runs the contender."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

from bench import wire
from bench.unavailable import Unavailable
from bench.workload import Job
from conversations_ops.broker import BrokerError
from conversations_ops.broker.jars import Jar, ensure_jars, parse_lock
from conversations_ops.broker.java import OLDEST, find_java, major_version

HERE = Path(__file__).resolve().parent
LOCK = HERE / "jars.lock"
SOURCES = HERE / "src"
CLASSES = HERE.parent.parent / "build" / "bench-kafka-streams"
MAIN = "streams.Loop"
COMPILE_SECONDS = 120
SHOWN = 500
JVM_OPTIONS = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-XX:+ExitOnOutOfMemoryError")


def jars() -> tuple[Jar, ...]:
    """Return the locked jars."""
    return parse_lock(LOCK.read_text(encoding="utf-8"))


def command(job: Job) -> list[str]:
    """Return the command line of one run. Fetch and compile what is missing.

    Raises:
        Unavailable: there is no JDK, the jars cannot be fetched, or the sources cannot be compiled.
    """
    compiler, java = _jdk()
    try:
        paths = ensure_jars(jars())
    except BrokerError as error:
        raise Unavailable(f"its jars cannot be fetched: {error}") from error
    classes = _compiled(compiler, os.pathsep.join(map(str, paths)))
    path = os.pathsep.join([str(classes), *map(str, paths)])
    return [str(java), *JVM_OPTIONS, "-cp", path, MAIN, job.to_json(), json.dumps(wire.FIELDS)]


def _jdk() -> tuple[Path, Path]:
    """Return the compiler and the launcher of one JDK.

    Raises:
        Unavailable: there is no JDK, or it is too old.
    """
    try:
        java = find_java().path
    except BrokerError as error:
        raise Unavailable(str(error)) from error
    beside = java.with_name("javac")
    found = str(beside) if beside.exists() else shutil.which("javac")
    if found is None:
        raise Unavailable(f"a JDK is needed to compile it: no javac beside {java} or on the PATH")
    compiler = Path(found).resolve()
    # The launcher must be from the same JDK: an older launcher cannot load the classes that the compiler makes.
    launcher = compiler.with_name("java")
    if not launcher.exists() or (major_version(launcher) or 0) < OLDEST:
        raise Unavailable(
            f"a JDK {OLDEST} or newer is needed to compile it: {compiler} is older, or has no java beside it"
        )
    return compiler, launcher


def _compiled(compiler: Path, class_path: str) -> Path:
    """Return the directory of the classes. Compile them if the sources, the jars or the compiler have changed."""
    sources = sorted(SOURCES.rglob("*.java"))
    content = b"".join(path.read_bytes() for path in (LOCK, *sources)) + str(compiler).encode()
    target = CLASSES / hashlib.sha256(content).hexdigest()[:16]
    if (target / "complete").exists():
        return target
    shutil.rmtree(CLASSES, ignore_errors=True)
    target.mkdir(parents=True)
    done = subprocess.run(
        [str(compiler), "--release", str(OLDEST), "-cp", class_path, "-d", str(target), *map(str, sources)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=COMPILE_SECONDS, check=False,
    )  # fmt: skip
    if done.returncode:
        raise Unavailable(f"javac cannot compile it: {(done.stderr + done.stdout).strip()[:SHOWN]}")
    (target / "complete").touch()
    return target
