"""Tables of commands: columns at a terminal, lines with tabs behind a pipe."""

import os
import pty
import subprocess
import sys

from conversations_ops.console.tables import as_text

LONG = "payments.queue-0-1644, which is longer than a terminal is wide, " * 3
PROGRAM = (
    f"from conversations_ops.console.tables import as_text; print(as_text(('LETTER', 'WHAT'), [({LONG!r}, None)]))"
)


def test_a_row_behind_a_pipe_is_one_line_with_tabs() -> None:
    rows = [(LONG, 3, None), ("two\nlines", "\x1b[31m", "")]
    assert as_text(("LETTER", "NUMBER", "WHAT"), rows).splitlines() == [
        "LETTER\tNUMBER\tWHAT",
        f"{LONG}\t3\t",
        "two\\nlines\t\\x1b[31m\t",
    ]


def test_a_terminal_gets_columns_that_are_folded_to_its_width() -> None:
    mine, its = pty.openpty()
    environment = {**os.environ, "COLUMNS": "60", "TERM": "xterm"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], stdout=its, env=environment, check=False)
    lines = os.read(mine, 10_000).decode().splitlines()  # before the other end is closed: that would discard the text
    os.close(its)
    os.close(mine)
    assert done.returncode == 0
    assert lines[0].split() == ["LETTER", "WHAT"]
    assert len(lines) > 3
    assert max(map(len, lines)) <= 60


def test_the_package_is_a_program_too() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "conversations", "--version"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.startswith("kafka-dialogs ")) == (0, True), done.stderr
