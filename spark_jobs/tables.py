"""Tables for people, as the other commands print them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ops.cli.output import printable


def as_text(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Lay rows out under headers, as wide as the terminal; None is an empty cell."""
    table = Table(box=None, header_style="bold")
    for header in headers:
        table.add_column(header, overflow="fold")
    for row in rows:
        table.add_row(*(Text("" if cell is None else printable(str(cell))) for cell in row))
    console = Console()
    with console.capture() as captured:
        console.print(table)
    return captured.get().rstrip()
