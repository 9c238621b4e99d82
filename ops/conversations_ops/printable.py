"""Text from outside as people may see it: nothing in it steers a terminal, and none of it looks like a line of ours."""

from __future__ import annotations

import json

MARGIN = "    "
"""What begins each further line: lines of ours begin at the margin, or look otherwise."""


def one_line(text: str) -> str:
    """Write a text as one line: whatever is no printable character is written as its escape.

    Not printable are control characters (ESC, line ends, U+0080 to U+009F, DEL), those that change the direction of
    writing, other invisible ones, and lone surrogates.
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else _escaped(c) for c in text)


def lines(text: str, margin: str = MARGIN) -> str:
    """Write a text that may have several lines, each as ``one_line`` does but for tabs; all but the first are indented."""
    return f"\n{margin}".join("\t".join(map(one_line, line.split("\t"))) for line in text.split("\n"))


def unstyled(text: str) -> str:
    """Write a text made of several lines of ours, as ``lines`` does, without indenting them."""
    return lines(text, "")


def json_line(data: object) -> str:
    """Write plain data as one line of JSON that is safe to show: everything but ASCII is escaped, and DEL too."""
    return json.dumps(data, default=str).replace("\x7f", "\\u007f")


def _escaped(character: str) -> str:
    return repr(character)[1:-1]
