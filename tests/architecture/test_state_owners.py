"""Who owns the state of the worker, and how its modules stand on each other, counted over its syntax trees."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORKER = ROOT / "conversations" / "worker"
ATTRIBUTES = 15
"""More attributes of one class than a reader keeps in mind."""
FLOORS = 12
"""Modules that stand on each other at most: each one imports something of the floor below it."""
HARDEST = ("worker", "dispatch", "inbound", "parking", "suspicion")
"""Modules that nobody understands from their code alone."""
NARRATION = 0.25
"""The part of such a module, of its lines that are not empty, that is written for people."""
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


def floors() -> dict[str, int]:
    """The floor of each module: one above the highest that it imports from.

    Raises:
        AssertionError: some stand on each other.
    """
    below = {module: imported(tree) for module, tree in trees().items() if module != "__init__"}
    found: dict[str, int] = {}
    while below.keys() - found.keys():
        ready = [module for module in below.keys() - found.keys() if below[module] <= found.keys()]
        assert ready, f"a circle among {sorted(below.keys() - found.keys())}"
        found |= {module: 1 + max((found[it] for it in below[module]), default=0) for module in ready}
    return found


def test_modules_stand_on_few_floors_and_in_no_circle() -> None:
    assert max(floors().values()) <= FLOORS, floors()


def test_nobody_outside_knows_the_inside_of_the_worker() -> None:
    """Except the product's own test kit, which looks at the state of a worker."""
    inside = {f"conversations.worker.{module}" for module in trees()}
    knows = set()
    for package in ("conversations", "ops", "spark_jobs"):
        for path in (ROOT / package).rglob("*.py"):
            names = {node.module for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)}
            where = path.relative_to(ROOT).as_posix()
            if names & inside and not where.startswith(("conversations/worker/", "conversations/testing/")):
                knows.add(where)
    assert knows == set()


# -- narration -----------------------------------------------------------------------------------------------------


def narration(module: str) -> float:
    """The part of a module's lines, empty ones left out, that is docstrings and comments."""
    source = (WORKER / f"{module}.py").read_text(encoding="utf-8")
    texts = [
        node.value
        for node in ast.walk(trees()[module])
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]
    told = {line for text in texts for line in range(text.lineno, (text.end_lineno or text.lineno) + 1)}
    lines = {number: line.strip() for number, line in enumerate(source.splitlines(), 1) if line.strip()}
    return sum(number in told or line.startswith("#") for number, line in lines.items()) / len(lines)


def test_the_hardest_modules_tell_their_theory() -> None:
    assert {module: round(narration(module), 2) for module in HARDEST if narration(module) < NARRATION} == {}
