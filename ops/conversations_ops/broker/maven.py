"""Fetch single artifacts by Maven coordinate; the only module that touches jgo (docs/decisions/0002)."""

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
    """The artifact in the user's own Maven repository, unverified, or None. Never written to."""
    group, artifact, version = coordinate.split(":")
    repository = Path(os.environ.get("M2_REPO") or Path.home() / ".m2" / "repository")
    path = repository.joinpath(*group.split("."), artifact, version, f"{artifact}-{version}.jar")
    return path if path.is_file() else None


def _jgo() -> Any:
    """Import the resolver, which is an extra."""
    try:
        from jgo import maven
    except ModuleNotFoundError as error:
        raise ExtraMissing from error
    return maven


def download(coordinate: str, directory: Path, advance: Advance) -> Path:
    """Download one jar, without its dependencies, to somewhere below ``directory``, which must be empty.

    The bytes are unverified: jgo only warns about checksums. ``advance`` hears of bytes as they arrive. Raises
    NetworkError, OSError when the disk does not take the file, and ExtraMissing when jgo is not installed.
    """
    jgo = _jgo()

    @contextlib.contextmanager
    def progress(_name: str, _size: int) -> Iterator[Advance]:
        yield advance

    logging.getLogger("jgo").setLevel(logging.ERROR)  # its checksum warnings: we verify with sha256 anyway
    context = jgo.MavenContext(
        resolver=jgo.PythonResolver(progress_callback=progress), repo_cache=directory, timeout=REQUEST_TIMEOUT
    )
    group, artifact, version = coordinate.split(":")
    try:
        return Path(context.project(group, artifact).at_version(version).artifact().resolve())
    except OSError as error:  # requests' errors are OSErrors without a number
        if error.errno is not None:
            raise
        raise NetworkError(f"{type(error).__name__}: {root_cause(error)}") from error
    except RuntimeError as error:  # jgo's word for any answer but 200
        raise NetworkError(str(error)) from error


def root_cause(error: BaseException) -> BaseException:
    """The first of a chain of errors: HTTP libraries wrap "connection refused" three times."""
    while error.__context__ is not None:
        error = error.__context__
    return error


def resolve(coordinates: list[str], directory: Path) -> list[tuple[str, Path]]:
    """Coordinates and jars of the given artifacts and everything they need at run time, sorted by coordinate."""
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
