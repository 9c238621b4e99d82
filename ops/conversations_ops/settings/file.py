"""Reads settings files. Passwords belong in a file, because every user who lists the processes sees the options of a command."""

from __future__ import annotations

import logging
from pathlib import Path
from stat import S_IMODE, S_IROTH
from typing import NamedTuple

from conversations.errors import DeclarationError
from conversations_ops.settings.names import SETTINGS

log = logging.getLogger("conversations.ops")

VARIABLE = "CONVERSATIONS_SETTINGS"
"""Environment variable with the path of the settings file, for every command and every job."""


class Line(NamedTuple):
    """A setting, and where it was given."""

    place: str
    name: str
    value: str


def lines_of(path: str) -> list[Line]:
    """Read the NAME=VALUE lines of a file.

    Empty lines and lines that begin with ``#`` are ignored. Settings of librdkafka may contain a password. If the file has settings of
    librdkafka and every user of the machine can read the file, log a warning.

    Raises:
        DeclarationError: the file cannot be read, or a line is not NAME=VALUE. The message has the number of the line, not its text.
    """
    try:
        readable = S_IMODE(Path(path).stat().st_mode) & S_IROTH
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DeclarationError(f"{path} cannot be read: {error}") from None
    found = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if not name.strip() or not equals:
            raise DeclarationError(f"line {number} of {path} is not NAME=VALUE")
        found.append(Line(f"{path}, line {number}", name.strip(), value.strip()))
    if readable and any(line.name not in SETTINGS for line in found):
        log.warning("everybody on this machine may read %s, and it may contain a password: run chmod 600 on it", path)
    return found
