"""Writes the ``__init__`` of dataclasses into the copy that mypyc compiles (docs/decisions/0064-compiled-by-mypyc.md).

``dataclasses`` makes an ``__init__`` when a module is imported, as Python code. Compiled code that makes such an object calls the
interpreter. It does not if mypyc sees the ``__init__``. The sources stay as they are: a constructor replaces the empty line behind the
docstring of its class in the copy, so the lines of a traceback stay right.
"""

from __future__ import annotations

import ast
from typing import NamedTuple


class Field(NamedTuple):
    """A field of a dataclass."""

    name: str
    annotation: str
    default: str
    """Source of the default; empty if the field has none."""
    factory: str
    """Source of the function that makes a default; empty if there is none."""
    only_by_name: bool

    @property
    def parameter(self) -> str:
        """The parameter that gives the field its value."""
        if self.factory:
            return f"{self.name}: {self.annotation} | None = None"
        return f"{self.name}: {self.annotation}" + (f" = {self.default}" if self.default else "")

    @property
    def assignment(self) -> str:
        """The statement that sets the field."""
        made = f"{self.factory}() if {self.name} is None else " if self.factory else ""
        return f"self.{self.name} = {made}{self.name}"


class Module:
    """The source of a module, and its dataclasses."""

    def __init__(self, source: str) -> None:
        self._lines = source.splitlines(keepends=True)
        found = [it for it in ast.walk(ast.parse(source)) if isinstance(it, ast.ClassDef)]
        self._classes = {it.name: it for it in found if _is_dataclass(it)}

    def with_constructors(self) -> str:
        """Return the source. Its dataclasses have an ``__init__``, unless they are frozen or their class has one already."""
        lines = self._lines.copy()
        for node in self._classes.values():
            behind = node.body[0].end_lineno or 0
            fields = self._fields(node)
            if (
                fields
                and _has_room(node)
                and not lines[behind].strip()
                and not any("lambda" in it.factory for it in fields)
            ):
                lines[behind] = f"{' ' * node.body[0].col_offset}{_written(fields)}\n"
        return "".join(lines)

    def _fields(self, node: ast.ClassDef) -> list[Field]:
        """Return the fields of a class and its bases; empty if a base is not a dataclass of this module."""
        found: dict[str, Field] = {}
        for base in map(ast.unparse, node.bases):
            if base not in self._classes:
                return []
            found |= {it.name: it for it in self._fields(self._classes[base])}
        found |= {it.name: it for it in map(_field, node.body) if it is not None}
        return [*found.values()]


def _is_dataclass(node: ast.ClassDef) -> bool:
    said = [ast.unparse(it) for it in node.decorator_list]
    return any(it.partition("(")[0] == "dataclass" and "frozen" not in it for it in said)


def _has_room(node: ast.ClassDef) -> bool:
    """Whether a class has a docstring, and no constructor of its own."""
    own = {it.name for it in node.body if isinstance(it, ast.FunctionDef)}
    return ast.get_docstring(node) is not None and not own & {"__init__", "__post_init__"}


def _field(node: ast.stmt) -> Field | None:
    if not isinstance(node, ast.AnnAssign) or "ClassVar" in ast.unparse(node.annotation):
        return None
    name, annotation = ast.unparse(node.target), ast.unparse(node.annotation)
    if isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "field":
        said = {str(it.arg): ast.unparse(it.value) for it in node.value.keywords}
        return Field(
            name, annotation, said.get("default", ""), said.get("default_factory", ""), said.get("kw_only") == "True"
        )
    return Field(name, annotation, "" if node.value is None else ast.unparse(node.value), "", only_by_name=False)


def _written(fields: list[Field]) -> str:
    named = [it.parameter for it in fields if it.only_by_name]
    given = [*(it.parameter for it in fields if not it.only_by_name), *(["*", *named] if named else [])]
    return f"def __init__(self, {', '.join(given)}) -> None: {'; '.join(it.assignment for it in fields)}"
