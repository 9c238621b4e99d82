"""Classes that the collector does not know in the compiled form: they must only refer to values, or a cycle through them would never be freed."""

from __future__ import annotations

import ast
from runpy import run_path
from typing import Any

import pytest

from tests.architecture.test_compiled import MODULES, ROOT

ACYCLIC: Any = run_path(str(ROOT / "wheels" / "acyclic.py"))
CLASSES: dict[str, set[str]] = ACYCLIC["acyclic"]()
MARKED = [(module, name) for module, names in sorted(CLASSES.items()) for name in sorted(names)]
VALUES = {"None", "bool", "bytes", "float", "int", "str", "State", "Kind", "Failure", "Chain", "Fence", "Kept"}
"""Names that an annotation may have: values, and classes of values that are not compiled."""
COLLECTIONS = {"dict", "list", "set", "tuple", "AbstractSet", "MutableSet", "Ellipsis"}

SOURCE = '''from __future__ import annotations

import struct


@dataclass(slots=True)
class Row:
    """A row."""

    number: int


class Other:
    """Another."""
'''


def _class(module: str, name: str) -> ast.ClassDef:
    tree = ast.parse((ROOT / module).read_text(encoding="utf-8"))
    return next(it for it in tree.body if isinstance(it, ast.ClassDef) and it.name == name)


def _names(annotation: ast.expr) -> set[str]:
    """Return the names in an annotation."""
    found = {it.id for it in ast.walk(annotation) if isinstance(it, ast.Name)}
    return found | {str(it.value) for it in ast.walk(annotation) if isinstance(it, ast.Constant)}


def _kept(function: ast.FunctionDef) -> set[str]:
    """Return the names in the values that a method gives to attributes."""
    given = [it for it in ast.walk(function) if isinstance(it, ast.Assign | ast.AnnAssign) and it.value is not None]
    to_self = [it for it in given if "self." in ast.unparse(it).partition(" = ")[0]]
    return {name.id for it in to_self for name in ast.walk(it) if isinstance(name, ast.Name)}


def _annotated(node: ast.ClassDef) -> dict[str, ast.expr]:
    """Return the annotations of the attributes, and of the parameters that methods keep in attributes."""
    said = [it for it in ast.walk(node) if isinstance(it, ast.AnnAssign)]
    found = {
        ast.unparse(it.target): it.annotation for it in said if it in node.body or isinstance(it.target, ast.Attribute)
    }
    for function in (it for it in node.body if isinstance(it, ast.FunctionDef)):
        given = (*function.args.args, *function.args.kwonlyargs)
        kept = _kept(function)
        found |= {it.arg: it.annotation for it in given if it.annotation is not None and it.arg in kept}
    return {name: it for name, it in found.items() if "ClassVar" not in ast.unparse(it)}


@pytest.mark.parametrize(("module", "name"), MARKED)
def test_an_object_refers_only_to_values(module: str, name: str) -> None:
    marked = {called for names in CLASSES.values() for called in names}
    node = _class(module, name)
    assert module in MODULES
    assert {ast.unparse(base) for base in node.bases} <= marked
    for attribute, annotation in _annotated(node).items():
        assert (attribute, _names(annotation) - VALUES - COLLECTIONS - marked) == (attribute, set())


def test_a_class_that_refers_to_others_is_found() -> None:
    names = _names(_annotated(_class("conversations/worker/active.py", "Item"))["active"])
    assert names - VALUES - COLLECTIONS == {"Active"}


def test_a_parameter_that_a_method_keeps_is_found() -> None:
    source = "class Keeper:\n    def keep(self, owner: Active, now: Clock) -> None:\n        self.owner = owner\n"
    (node,) = ast.parse(source).body
    assert isinstance(node, ast.ClassDef)
    assert list(_annotated(node)) == ["owner"]


def test_a_mark_takes_the_place_of_an_empty_line() -> None:
    found = ACYCLIC["marked"](SOURCE, {"Row"}).splitlines()
    changed = [
        (at, line) for at, (line, before) in enumerate(zip(found, SOURCE.splitlines(), strict=True)) if line != before
    ]
    assert changed == [(1, ACYCLIC["IMPORT"]), (4, ACYCLIC["MARK"])]
    assert ACYCLIC["marked"](SOURCE, ()) == SOURCE


@pytest.mark.parametrize(
    ("source", "why"),
    [(SOURCE, "there is no class Missing"), (SOURCE.replace("\n\n\n@", "\n@"), "line 3 is not empty")],
)
def test_what_cannot_be_marked_is_told(source: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        ACYCLIC["marked"](source, {"Missing" if "Missing" in why else "Row"})
