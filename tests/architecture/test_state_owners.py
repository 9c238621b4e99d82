"""Who owns the state of the worker, and how its modules stand on each other, counted over its syntax trees."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORKER = ROOT / "conversations" / "worker"
ATTRIBUTES = 15
"""More attributes of one class than a reader keeps in mind."""
FLOORS = 9
"""Modules that stand on each other at most: each one imports something of the floor below it."""
TRIPLE = {"partition", "item", "active"}
Assignment = ast.Assign | ast.AugAssign | ast.AnnAssign


@cache
def trees() -> dict[str, ast.Module]:
    return {path.stem: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(WORKER.glob("*.py"))}


# -- state ---------------------------------------------------------------------------------------------------------


def targets(node: Assignment) -> Iterator[ast.expr]:
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        yield from target.elts if isinstance(target, ast.Tuple) else [target]


def assigned(tree: ast.AST) -> Iterator[ast.Attribute]:
    """Attributes that a tree assigns, of whatever object."""
    for node in ast.walk(tree):
        if isinstance(node, Assignment):
            yield from (target for target in targets(node) if isinstance(target, ast.Attribute))


def is_own(attribute: ast.Attribute) -> bool:
    """Say whether an object assigns an attribute of its own, or of its row: a row is a record of plain values."""
    return ast.unparse(attribute.value) in {"self", "self.row", "self._row"}


def attributes(of: ast.ClassDef) -> set[str]:
    declared = {it.target.id for it in of.body if isinstance(it, ast.AnnAssign) and isinstance(it.target, ast.Name)}
    return declared | {attribute.attr for attribute in assigned(of) if ast.unparse(attribute.value) == "self"}


def functions() -> Iterator[ast.FunctionDef]:
    return (node for tree in trees().values() for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def test_classes_have_few_attributes() -> None:
    classes = (node for tree in trees().values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    counted = {it.name: len(attributes(it)) for it in classes}
    assert {name: count for name, count in counted.items() if count > ATTRIBUTES} == {}


def test_an_attribute_is_assigned_by_its_object() -> None:
    outside = [ast.unparse(it) for tree in trees().values() for it in assigned(tree) if not is_own(it)]
    assert outside == []


def test_no_function_takes_a_partition_with_an_item_and_its_endpoint() -> None:
    assert [it.name for it in functions() if {argument.arg for argument in it.args.args} >= TRIPLE] == []


# -- floors --------------------------------------------------------------------------------------------------------


def imported(tree: ast.Module) -> set[str]:
    """Modules of the worker that one of them imports, for types alone as well."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "conversations.worker":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("conversations.worker."):
            found.add(node.module.split(".")[2])
    return found & trees().keys()


def floor(module: str, above: tuple[str, ...] = ()) -> int:
    """The floor that a module stands on.

    Raises:
        AssertionError: it stands on itself.
    """
    assert module not in above, f"a circle: {' -> '.join((*above[above.index(module) :], module))}"
    below = imported(trees()[module])
    return 1 + max((floor(each, (*above, module)) for each in below), default=0)


def test_modules_stand_on_few_floors_and_in_no_circle() -> None:
    floors = {module: floor(module) for module in trees() if module != "__init__"}
    assert max(floors.values()) <= FLOORS, floors


def test_nobody_outside_knows_the_inside_of_the_worker() -> None:
    """But for the product's own test kit, which looks at what a worker keeps, and for what hosts a worker."""
    inside = {f"conversations.worker.{module}" for module in trees()}
    may = {"conversations/crew.py"}
    knows = set()
    for package in ("conversations", "ops", "spark_jobs"):
        for path in (ROOT / package).rglob("*.py"):
            names = {node.module for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)}
            where = path.relative_to(ROOT).as_posix()
            if names & inside and not where.startswith(("conversations/worker/", "conversations/testing/")):
                knows.add(where)
    assert knows <= may, knows - may
