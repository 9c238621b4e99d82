"""Settings of librdkafka from a file: a password in an option is seen by whoever lists the processes."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from stat import S_IMODE, S_IROTH

from conversations.errors import DeclarationError

log = logging.getLogger("conversations.ops")

VARIABLE = "CONVERSATIONS_SETTINGS"
"""Names the file."""


def settings_of_file() -> dict[str, str]:
    """Read the NAME=VALUE lines of the file that ``CONVERSATIONS_SETTINGS`` names; none without it.

    Empty lines, and those that begin with ``#``, say nothing.

    Raises:
        DeclarationError: the file cannot be read, or a line is something else; it is named by its number, not by what it says.
    """
    path = os.environ.get(VARIABLE, "")
    if not path:
        return {}
    try:
        if S_IMODE(Path(path).stat().st_mode) & S_IROTH:
            log.warning("%s names %s, which everybody on this machine may read: chmod 600 it", VARIABLE, path)
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DeclarationError(f"{VARIABLE}: {path} cannot be read: {error}") from None
    found = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if not name.strip() or not equals:
            raise DeclarationError(f"{VARIABLE}: line {number} of {path} is not NAME=VALUE")
        found[name.strip()] = value.strip()
    return found
