"""Who owns the state of the worker, counted over its syntax trees: each figure may only fall, and its limit falls with it."""

import ast
from collections.abc import Iterator
from pathlib import Path

WORKER = Path(__file__).resolve().parents[2] / "conversations" / "worker"
ATTRIBUTES = 15
LARGER = {"Active": 18, "Item": 17, "Owner": 22, "Worker": 17}
"""Classes with more attributes than a reader can keep in mind, and how many."""
ASSIGNED_FROM_OUTSIDE = 59
TRIPLE = {"partition", "item", "active"}
TAKE_THE_TRIPLE = 0
Assignment = ast.Assign | ast.AugAssign | ast.AnnAssign


def trees() -> list[ast.Module]:
    return [ast.parse(path.read_text(encoding="utf-8")) for path in sorted(WORKER.glob("*.py"))]


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
    return (node for tree in trees() for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def test_classes_have_few_attributes() -> None:
    classes = (node for tree in trees() for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    counted = {it.name: len(attributes(it)) for it in classes}
    assert {name: count for name, count in counted.items() if count > ATTRIBUTES} == LARGER


def test_an_attribute_is_assigned_by_its_object() -> None:
    outside = [ast.unparse(it) for tree in trees() for it in assigned(tree) if not is_own(it)]
    assert len(outside) == ASSIGNED_FROM_OUTSIDE, outside


def test_no_function_takes_a_partition_with_an_item_and_its_endpoint() -> None:
    taking = [it.name for it in functions() if {argument.arg for argument in it.args.args} >= TRIPLE]
    assert len(taking) == TAKE_THE_TRIPLE, taking
