"""Opens a person's editor for a text."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

COMMON = ("sensible-editor", "vim", "nano", "vi")
"""Editors that are tried if neither VISUAL nor EDITOR names one."""


class EditorFailed(Exception):
    """No editor could be started, or the editor did not end well. The message says why."""


def edited(text: str, suffix: str) -> str:
    """Let a person edit a text in the program of ``$VISUAL`` or ``$EDITOR``, and return the new text.

    ``suffix`` is the end of the name of the file that the editor opens. Only this user may read the file.

    Raises:
        EditorFailed: there is no editor or no terminal for it, it ended with an error, or the text is not UTF-8 any more.
    """
    command = _editor()
    with tempfile.TemporaryDirectory(prefix="conversations-") as directory:
        file = Path(directory) / f"body{suffix}"
        file.write_bytes(text.encode())
        try:
            code = subprocess.run([*command, str(file)], check=False).returncode
        except OSError as error:
            raise EditorFailed(f"the editor {command[0]!r} cannot be started: {error.strerror}") from error
        if code:
            raise EditorFailed(f"the editor {command[0]!r} ended with status {code}, so nothing was changed")
        try:
            return file.read_bytes().decode()
        except (OSError, UnicodeDecodeError) as error:
            raise EditorFailed(f"the file of the editor {command[0]!r} cannot be read: {error}") from error


def _editor() -> list[str]:
    chosen = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if chosen:
        try:
            return shlex.split(chosen) or [chosen]
        except ValueError as error:
            raise EditorFailed(f"the variable VISUAL or EDITOR is not a command: {error}") from error
    found = next((program for program in COMMON if shutil.which(program)), None)
    if found is None or not sys.stdin.isatty():
        raise EditorFailed(
            "there is no terminal for an editor" if found else "no editor is found, and EDITOR is not set"
        )
    return [found]
