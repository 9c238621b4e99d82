"""Makes text from outside safe to print. The printed text cannot control a terminal, and cannot look like a line of this program."""

from __future__ import annotations

import json

MARGIN = "    "
"""Indentation of each line after the first, so that it does not look like a new line of this program."""


def one_line(text: str) -> str:
    """Write a text as one line, with an escape for each character that is not printable.

    The escaped characters are control characters (ESC, line ends, U+0080 to U+009F, DEL), characters that change the
    direction of writing, other invisible characters, and lone surrogates.
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else _escaped(c) for c in text)


def lines(text: str, margin: str = MARGIN) -> str:
    """Write a text of several lines, and indent each line after the first.

    Tabs stay. All other characters that are not printable get an escape, as in ``one_line``.
    """
    return f"\n{margin}".join("\t".join(map(one_line, line.split("\t"))) for line in text.split("\n"))


def unstyled(text: str) -> str:
    """Write a text of this program as ``lines`` does, but without the indentation."""
    return lines(text, "")


def counted(number: int, noun: str) -> str:
    """Write a number with its noun in the singular or the plural: "1 message", "2,000 messages"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def json_line(data: object) -> str:
    """Write plain data as one line of JSON, with an escape for DEL and for each character outside ASCII."""
    return json.dumps(data, default=str).replace("\x7f", "\\u007f")


def _escaped(character: str) -> str:
    return repr(character)[1:-1]


def side_word(*, initiator: bool) -> str:
    """Return the word for a side of a dialog."""
    return "initiator" if initiator else "target"
