"""Limits that keep the code readable, checked over its syntax trees."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("conversations", "spark_jobs", "ops/conversations_ops")
CODE_LINES, FUNCTION_LINES, PARAMETERS = 325, 80, 8
"""Of a module, without empty lines, docstrings and comments; of a function; of its head."""
TYPE_CHECKING_SHARE = 0.2
JUNK_DRAWERS = {"utils", "util", "helpers", "helper", "common", "misc"}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def modules(*roots: str) -> list[Path]:
    return sorted(path for root in roots for path in (ROOT / root).rglob("*.py"))


def functions(tree: ast.Module) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def parameter_names(function: Function) -> list[str]:
    arguments = function.args
    names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return [name for name in names if name not in {"self", "cls"}]


def is_typer_command(function: Function) -> bool:
    """A Typer command declares its options as parameters: their number is the command's, not a design fault."""
    return any(
        "command" in ast.unparse(decorator) or "callback" in ast.unparse(decorator)
        for decorator in function.decorator_list
    )


def code_lines(source: str, tree: ast.Module) -> int:
    """Count the lines for the machine: a module that tells more about itself is not too long."""
    texts = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]
    told = {line for text in texts for line in range(text.lineno, (text.end_lineno or text.lineno) + 1)}
    lines = enumerate(map(str.strip, source.splitlines()), 1)
    return sum(bool(line) and number not in told and not line.startswith("#") for number, line in lines)


def over_budget(path: Path) -> Iterator[str]:
    source = path.read_text(encoding="utf-8")
    where = path.relative_to(ROOT)
    tree = ast.parse(source)
    if (lines := code_lines(source, tree)) > CODE_LINES:
        yield f"{where}: {lines} lines of code"
    for function in functions(tree):
        length = (function.end_lineno or function.lineno) - function.lineno + 1
        if length > FUNCTION_LINES:
            yield f"{where}: {function.name} has {length} lines"
        if (count := len(parameter_names(function))) > PARAMETERS and not is_typer_command(function):
            yield f"{where}: {function.name} has {count} parameters"


def names_used(path: Path) -> set[str]:
    """Dotted names a module imports or reads, e.g. ``unittest.mock`` and ``time.sleep``."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Attribute):
            found.add(ast.unparse(node))
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_modules_functions_and_parameter_lists_stay_small(package: str) -> None:
    assert [complaint for path in modules(package) for complaint in over_budget(path)] == []


def test_no_module_is_a_junk_drawer() -> None:
    assert [path for path in modules(*PACKAGES, "tests") if path.stem in JUNK_DRAWERS] == []


def test_tests_neither_mock_nor_sleep() -> None:
    banned = {"unittest.mock", "mock", "time.sleep"}
    used = {path.relative_to(ROOT): names_used(path) & banned for path in modules("tests")}
    assert {path: names for path, names in used.items() if names} == {}


def test_no_admin_client_is_asked_for_offsets() -> None:
    """Such a request may end the process with a segmentation fault (``conversations/kafka/offsets.py``)."""
    names = {"list_offsets", "list_consumer_group_offsets"}
    paths = modules(*PACKAGES, "tests", "bench", "examples")
    calling = [path for path in paths if names & {name.rpartition(".")[2] for name in names_used(path)}]
    assert calling == []


def test_type_checking_blocks_are_rare() -> None:
    paths = modules(*PACKAGES)
    guarded = [path for path in paths if "typing.TYPE_CHECKING" in names_used(path)]
    assert len(guarded) <= TYPE_CHECKING_SHARE * len(paths), guarded
