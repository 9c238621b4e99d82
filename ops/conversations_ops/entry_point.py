"""The entry point of ``conversations`` and ``conv``. It imports the command line late, so that Ctrl-C also ends the import quietly."""

from __future__ import annotations

import sys

INTERRUPTED = 130
"""Exit code of a command that Ctrl-C ends, as in ``console.exit_codes``, which is not imported yet."""


def main() -> None:
    """Run the command line. Ctrl-C at any time ends it with code 130 and no traceback."""
    try:
        from conversations_ops.cli.app import main as command_line

        command_line()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
