"""Where the embedded broker keeps what outlives one run: jars, logs, records of running brokers."""

from __future__ import annotations

import os
from pathlib import Path

from conversations.private_files import private_directory

VARIABLE = "CONVERSATIONS_CACHE"


def cache_directory() -> Path:
    """The cache directory, made when missing: ``$CONVERSATIONS_CACHE``, else ``~/.cache/kafka-dialogs``."""
    chosen = os.environ.get(VARIABLE)
    path = Path(chosen).expanduser() if chosen else Path.home() / ".cache" / "kafka-dialogs"
    return private_directory(path).resolve()
