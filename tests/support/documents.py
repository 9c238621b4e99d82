"""The code blocks of the pages that users read, for the tests that run them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """One code block between two lines of three backticks."""

    page: str
    number: int
    """Position among all code blocks of the page, from 1."""
    language: str
    """Empty if the page names none."""
    text: str

    @property
    def place(self) -> str:
        """The page and the number: "README.md 3"."""
        return f"{self.page} {self.number}"


def pages() -> list[Path]:
    """Return the README, the guide for contributors, and the pages of docs. Decision records stay as they were written."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks() -> list[Block]:
    """Return all code blocks of all pages, in order."""
    return [
        Block(page.relative_to(ROOT).as_posix(), number, language, text)
        for page in pages()
        for number, (language, text) in enumerate(_FENCED.findall(page.read_text(encoding="utf-8")), 1)
    ]


def block(place: str) -> str:
    """Return the text of the block at a place such as "README.md 3"."""
    (found,) = [it.text for it in blocks() if it.place == place]
    return found


def with_words(text: str, words: Mapping[str, str]) -> str:
    """Return a block with some of its words replaced, for example an address. Each of these words must be in the block."""
    for old, new in words.items():
        assert old in text, f"the block has no {old}"
        text = text.replace(old, new)
    return text
