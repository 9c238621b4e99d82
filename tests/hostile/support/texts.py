"""Hostile text that could control a terminal or look like a line of the product, and functions that find such text in output."""

import re

RAW = (
    "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\x1b]8;;http://example.test\x1b\\link", "\x1bP$q\x1b\\", "\x9b2J", "\x9d0;t\x9c", "\x85",
    "\x7f", "\b\b\b", "\r", "\n", "\x0b", "\x0c", "\u2028", "\u2029", "\u202e", "\u2066", "\u200f", "\u061c", "\ufeff", "\u200b", "\udc9b",
)  # fmt: skip
"""Control sequences and characters: colours, titles, links, a query to the terminal, C1, DEL, line ends, text direction, invisible, surrogate."""
FORGED = "2026-01-01 00:00:00.000 ERROR   [worker] conversations: all is lost\nerror: forged"
HOSTILE = "".join(f"<{raw}>" for raw in RAW) + "[red]x[/red][link=http://example.test]y[/link]\n" + FORGED

_STYLE = re.compile(r"\x1b\[[0-9;]*m")
"""The only styles that the product itself writes: colours and bold."""


def raw_in(output: str, *, styled: bool = False) -> list[str]:
    """Return the characters of the output that are not printable; line ends and tabs are allowed. ``styled`` allows the product's styles too."""
    text = _STYLE.sub("", output) if styled else output
    return sorted({repr(c) for c in text if not c.isprintable() and c not in "\n\t"})


def forged_in(output: str) -> list[str]:
    """Return the lines of the output that begin like the lines of ``FORGED``."""
    return [line for line in output.split("\n") if line.startswith(("2026-01-01", "error: forged"))]
