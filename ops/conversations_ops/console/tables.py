"""Tables of commands and jobs: columns for people at a terminal, lines with tabs for programs behind a pipe."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from conversations_ops.printable import one_line


def as_text(headers: Sequence[str], rows: Iterable[Sequence[object]], whole: Collection[str] = ()) -> str:
    """Return rows under headers as text. None is an empty cell.

    At a terminal, the columns are aligned. Long cells are folded, except in the columns ``whole``. Behind a pipe, each row is one
    line, and tabs separate its cells, so that ``grep``, ``cut`` and ``awk`` can use it.
    """
    cells = [["" if cell is None else one_line(str(cell)) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        return "\n".join("\t".join(row) for row in [list(headers), *cells])
    table = Table(box=None, header_style="bold")
    for header in headers:
        table.add_column(header, overflow="fold", no_wrap=header in whole)
    for row in cells:
        table.add_row(*map(Text, row))
    # No colours, because colours are control characters, and the text is printed with its control characters escaped.
    console = Console(color_system=None)
    with console.capture() as captured:
        console.print(table)
    return captured.get().rstrip()
