"""Text from outside, made safe to print: it cannot steer a terminal, nor imitate a line of this program."""

from __future__ import annotations

import json

MARGIN = "    "
"""Indentation of each further line. Lines of this program are not indented."""


def one_line(text: str) -> str:
    """Write a text as one line, with an escape for each character that is not printable.

    Not printable are control characters (ESC, line ends, U+0080 to U+009F, DEL), those that change the direction of
    writing, other invisible ones, and lone surrogates.
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else _escaped(c) for c in text)


def lines(text: str, margin: str = MARGIN) -> str:
    """Write a text of several lines: tabs stay, other characters are as in ``one_line``, and further lines are indented."""
    return f"\n{margin}".join("\t".join(map(one_line, line.split("\t"))) for line in text.split("\n"))


def unstyled(text: str) -> str:
    """Write lines of this program as ``lines`` does, without indentation."""
    return lines(text, "")


def json_line(data: object) -> str:
    """Write plain data as one line of JSON, with an escape for DEL and for each character outside ASCII."""
    return json.dumps(data, default=str).replace("\x7f", "\\u007f")


def _escaped(character: str) -> str:
    return repr(character)[1:-1]
