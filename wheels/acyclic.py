"""Marks classes whose objects are never part of a reference cycle, in the copy that mypyc compiles (``wheels/acyclic.txt``).

The mark is a decorator of mypyc. It replaces the empty line before the class, so the lines of a traceback stay right. The package of the
decorator is not needed when the module is imported: mypyc only reads the decorator.
"""

from __future__ import annotations

import ast
from collections.abc import Collection
from pathlib import Path

LIST = Path(__file__).with_name("acyclic.txt")
FUTURE = "from __future__ import annotations"
IMPORT = "if not __name__: from mypy_extensions import mypyc_attr"
"""mypyc takes this for a possible import. It is never carried out."""
MARK = "@mypyc_attr(acyclic=True)"


def listed(file: Path) -> list[str]:
    """Return the lines of a list of this directory, without its comments."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def acyclic() -> dict[str, set[str]]:
    """Return the names of the classes, by module, relative to the root of the project."""
    found: dict[str, set[str]] = {}
    for line in listed(LIST):
        module, name = line.split(" ")
        found.setdefault(module, set()).add(name)
    return found


def marked(source: str, names: Collection[str]) -> str:
    """Return the source of a module with a mark on these classes.

    Raises:
        ValueError: the module has no such class, or no room for the mark.
    """
    if not names:
        return source
    lines, left = source.splitlines(), set(names)
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and node.name in left:
            left.remove(node.name)
            first = min(it.lineno for it in (node, *node.decorator_list))
            _write(lines, first - 2, MARK)
    if left:
        raise ValueError(f"there is no class {', '.join(sorted(left))}")
    _write(lines, lines.index(FUTURE) + 1, IMPORT)
    return "\n".join(lines) + "\n"


def _write(lines: list[str], at: int, text: str) -> None:
    if lines[at].strip():
        raise ValueError(f"line {at + 1} is not empty, so there is no room for {text!r}")
    lines[at] = text
