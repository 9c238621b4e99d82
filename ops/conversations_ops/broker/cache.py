"""The directory in which the embedded broker keeps files between runs: jars, logs, records of running brokers."""

from __future__ import annotations

import os
from pathlib import Path

from conversations.private_files import private_directory

VARIABLE = "CONVERSATIONS_CACHE"


def cache_directory() -> Path:
    """Return the cache directory, ``$CONVERSATIONS_CACHE`` or else ``~/.cache/kafka-dialogs``. Make it if it does not exist."""
    chosen = os.environ.get(VARIABLE)
    path = Path(chosen).expanduser() if chosen else Path.home() / ".cache" / "kafka-dialogs"
    return private_directory(path).resolve()
