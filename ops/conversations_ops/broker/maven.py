"""Fetches artifacts by Maven coordinate. No other module uses jgo (docs/decisions/0002)."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from conversations_ops.broker.errors import ExtraMissing

Advance = Callable[[int], None]
REQUEST_TIMEOUT = 30  # seconds without a byte
DISK_FULL = {errno.ENOSPC, errno.EDQUOT}


class NetworkError(Exception):
    """An artifact could not be fetched; trying again may help."""


def local_copy(coordinate: str) -> Path | None:
    """Return the artifact's file in the user's own Maven repository; None if it is not there. The file is not verified."""
    group, artifact, version = coordinate.split(":")
    repository = Path(os.environ.get("M2_REPO") or Path.home() / ".m2" / "repository")
    path = repository.joinpath(*group.split("."), artifact, version, f"{artifact}-{version}.jar")
    return path if path.is_file() else None


def _jgo() -> Any:
    """Import jgo, which is only installed with the extra ``broker``."""
    try:
        from jgo import maven
    except ModuleNotFoundError as error:
        raise ExtraMissing from error
    return maven


def download(coordinate: str, directory: Path, advance: Advance) -> Path:
    """Download one jar, without its dependencies, into the empty ``directory`` or below it, and return its path.

    The bytes are not verified, because jgo only warns about wrong checksums. Whenever bytes arrive, ``advance`` is called with their
    number. Raises NetworkError, OSError if the file cannot be written, and ExtraMissing if jgo is not installed.
    """
    jgo = _jgo()

    @contextlib.contextmanager
    def progress(_name: str, _size: int) -> Iterator[Advance]:
        yield advance

    logging.getLogger("jgo").setLevel(logging.ERROR)  # no checksum warnings, because the callers verify the sha256
    context = jgo.MavenContext(
        resolver=jgo.PythonResolver(progress_callback=progress), repo_cache=directory, timeout=REQUEST_TIMEOUT
    )
    group, artifact, version = coordinate.split(":")
    try:
        return Path(context.project(group, artifact).at_version(version).artifact().resolve())
    except OSError as error:  # the library ``requests`` raises OSErrors without errno
        if error.errno is not None:
            raise
        raise NetworkError(f"{type(error).__name__}: {root_cause(error)}") from error
    except RuntimeError as error:  # jgo raises it for every HTTP status except 200
        raise NetworkError(str(error)) from error


def root_cause(error: BaseException) -> BaseException:
    """Return the first error of a chain. HTTP libraries wrap an error like "connection refused" in other errors."""
    while error.__context__ is not None:
        error = error.__context__
    return error


def resolve(coordinates: list[str], directory: Path) -> list[tuple[str, Path]]:
    """Return the coordinate and the jar of each given artifact and of each runtime dependency, sorted by coordinate."""
    jgo = _jgo()
    context = jgo.MavenContext(resolver=jgo.PythonResolver(), repo_cache=directory, timeout=REQUEST_TIMEOUT)
    dependencies = [context.create_dependency(coordinate) for coordinate in coordinates]
    given, transitive = context.resolver.resolve(dependencies)
    wanted = {
        f"{each.groupId}:{each.artifactId}:{each.version}": each.artifact
        for each in (*given, *transitive)
        if each.scope in {None, "compile", "runtime"} and not each.optional
    }
    return [(coordinate, artifact.resolve()) for coordinate, artifact in sorted(wanted.items())]
