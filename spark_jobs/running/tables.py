"""Tables for people, in the style of the commands."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from conversations_ops.printable import one_line

WIDE = 200


def as_text(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return rows under headers as text, as wide as the terminal; ``WIDE`` if stdout is not a terminal. None is an empty cell."""
    table = Table(box=None, header_style="bold")
    for header in headers:
        table.add_column(header, overflow="fold")
    for row in rows:
        table.add_row(*(Text("" if cell is None else one_line(str(cell))) for cell in row))
    # No colours: the text is printed with its control characters escaped.
    console = Console(width=None if sys.stdout.isatty() else WIDE, color_system=None)
    with console.capture() as captured:
        console.print(table)
    return captured.get().rstrip()
