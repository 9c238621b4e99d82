"""The directory for files that outlive a command: local copies, slots, jars, and the embedded broker's logs and records."""

from __future__ import annotations

import os
from pathlib import Path

from conversations.errors import LogError
from conversations.private_files import private_directory

VARIABLE = "CONVERSATIONS_CACHE"
FIX = f"set {VARIABLE} to a directory on a writable volume"


class NoDirectory(LogError):
    """A directory cannot be made or written. The message has its path, and says how to choose another directory."""


def cache_directory(fix: str = FIX) -> Path:
    """Return the cache directory, as ``cache_path`` does. Make it if it does not exist.

    Raises:
        NoDirectory: the directory cannot be made, for example because the user has no home directory.
    """
    return made(cache_path(fix), fix).resolve()


def cache_path(fix: str = FIX) -> Path:
    """Return the path of the cache directory, ``$CONVERSATIONS_CACHE`` or else ``~/.cache/kafka-dialogs``, and make nothing.

    Raises:
        NoDirectory: the user has no home directory.
    """
    chosen = os.environ.get(VARIABLE)
    try:
        return Path(chosen).expanduser() if chosen else Path.home() / ".cache" / "kafka-dialogs"
    except RuntimeError as error:
        raise NoDirectory(f"there is no directory for the cache: {error}; {fix}") from error


def made(path: Path, fix: str) -> Path:
    """Make a directory for the owner alone, if it does not exist, and return it.

    Raises:
        NoDirectory: the directory cannot be made. The message ends with ``fix``.
    """
    try:
        return private_directory(path)
    except OSError as error:
        raise NoDirectory(f"directory {path} cannot be made: {error.strerror}; {fix}") from error


def writable(path: Path, fix: str) -> Path:
    """Make a directory as ``made`` does, and check that this process may write into it.

    Raises:
        NoDirectory: the directory cannot be made, or it is read-only for this process.
    """
    if not os.access(made(path, fix), os.W_OK | os.X_OK):
        raise NoDirectory(f"directory {path} is read-only for this user; {fix}")
    return path
