"""What may be compiled by mypyc, and what must stay Python."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conversations.form import PURE, digest, is_compiled
from tests.support.forms import can_compile
from tests.support.waiting import SLOWER

ROOT = Path(__file__).resolve().parents[2]
LINES = (ROOT / "wheels" / "modules.txt").read_text(encoding="utf-8").splitlines()
MODULES = [line for line in LINES if line and not line.startswith("#")]
LEFT_OUT = {line.split(" ")[1].rstrip(":") for line in LINES if line.startswith("# conversations/")}

LOOPS = {"any", "all", "next", "sum"}
"""Functions that mypyc compiles as a loop over a generator expression. The loop ends as early as in Python."""
TAKES_ALL = {"min", "max", "sorted", "list", "set", "tuple", "dict", "frozenset"}
"""Functions that need all values, so a list is as good."""
METHODS = {"join", "update"}
"""Methods of strings, sets and dictionaries that need all values."""

BOUNDED = {
    "conversations/bodies.py": {"_undecorated"},  # as deep as an annotation of a handler
}
"""Functions that call themselves, and yet no deeper for any input."""


def _functions(file: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return (it for it in ast.walk(tree) if isinstance(it, ast.FunctionDef | ast.AsyncFunctionDef))


def _called(function: ast.AST) -> Iterator[str]:
    for call in (it for it in ast.walk(function) if isinstance(it, ast.Call)):
        if isinstance(call.func, ast.Name):
            yield call.func.id
        elif isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name):
            yield f"{call.func.value.id}.{call.func.attr}"


def _recursive(file: str) -> set[str]:
    """Return the functions, and the methods as ``self.name``, that call themselves, perhaps through others of their module."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    methods = {it for cls in ast.walk(tree) if isinstance(cls, ast.ClassDef) for it in cls.body}
    calls: dict[str, set[str]] = {}
    for function in (it for it in ast.walk(tree) if isinstance(it, ast.FunctionDef | ast.AsyncFunctionDef)):
        name = f"self.{function.name}" if function in methods else function.name
        calls.setdefault(name, set()).update(_called(function))
    found = set()
    for name in calls:
        reached, left = set[str](), [name]
        while left:
            new = calls.get(left.pop(), set()) - reached
            reached |= new
            left += new
        if name in reached:
            found.add(name)
    return found


@pytest.mark.parametrize("file", MODULES)
def test_a_compiled_function_does_not_call_itself(file: str) -> None:
    """Python ends a recursion with an error. Compiled code has no such limit: a deeply nested record would end the process."""
    assert _recursive(file) == BOUNDED.get(file, set())


def test_the_search_for_recursion_finds_one() -> None:
    assert _recursive("conversations/protocol/strict.py") == {"_walk", "_blocks"}


def _passed_on(source: str) -> list[int]:
    """Return the lines of the generator expressions that are not consumed where they are."""
    nodes = list(ast.walk(ast.parse(source)))
    consumed = {id(child) for node in nodes for child in _consumed(node)}
    return sorted(it.lineno for it in nodes if isinstance(it, ast.GeneratorExp) and id(it) not in consumed)


def _consumed(node: ast.AST) -> list[ast.expr]:
    """Return the expressions whose values a node consumes."""
    if isinstance(node, ast.Starred):
        return [node.value]
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
        return [node.value]
    if isinstance(node, ast.Call):
        of_builtin = isinstance(node.func, ast.Name) and node.func.id in LOOPS | TAKES_ALL
        if of_builtin or (isinstance(node.func, ast.Attribute) and node.func.attr in METHODS):
            return node.args[:1]
    return []


@pytest.mark.parametrize("file", MODULES)
def test_a_generator_expression_is_not_passed_on(file: str) -> None:
    """Compiled, it is a list: all rows of a message of 64 MB at once. Write a generator function, or a list of few small things."""
    assert _passed_on((ROOT / file).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("a = any(x for x in y)\nb = *(x for x in y), 1\nc, d = (x for x in y)\ne = ''.join(x for x in y)", []),
        ("a = (x for x in y)", [1]),
        ("\ndef f():\n    return (x for x in y)", [3]),
        ("a = islice((x for x in y), 3)\nb = join(x for x in y)", [1, 2]),
        ("a = any(x for x in y) and f(x for x in y)", [1]),
        ("a = any(f(x for x in z) for z in y)", [1]),
        ("a = next(f, (x for x in y))\nself.any(x for x in y)", [1, 2]),
        ("def f():\n    yield from (x for x in y)", [2]),
    ],
)
def test_the_search_for_generator_expressions_finds_them(source: str, lines: list[int]) -> None:
    assert _passed_on(source) == lines


@pytest.mark.parametrize("file", MODULES)
def test_a_function_has_one_name_for_one_type_of_exception(file: str) -> None:
    """Mypyc gives the name of an exception one type in a whole function, the first one."""
    for function in _functions(file):
        types: dict[str, set[str]] = {}
        for handler in (it for it in ast.walk(function) if isinstance(it, ast.ExceptHandler) and it.name and it.type):
            types.setdefault(str(handler.name), set()).add(ast.unparse(handler.type or handler))
        assert all(len(it) == 1 for it in types.values()), (function.name, types)


def test_every_module_of_the_worker_is_listed_or_left_out_for_a_reason() -> None:
    there = {
        file.relative_to(ROOT).as_posix()
        for file in (ROOT / "conversations" / "worker").glob("*.py")
        if file.name != "__init__.py"
    }
    listed = {it for it in {*MODULES, *LEFT_OUT} if it.startswith("conversations/worker/")}
    assert listed == there
    assert set(MODULES) & LEFT_OUT == set()
    assert all((ROOT / file).is_file() for file in MODULES)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of this tree in which one module is to be compiled, and is compiled."""
    copy = tmp_path_factory.mktemp("compiled") / "tree"
    for name in ("conversations", "spark_jobs", "ops", "wheels"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"):
        shutil.copy(ROOT / name, copy / name)
    (copy / "wheels" / "modules.txt").write_text("conversations/protocol/varint.py\n")
    done = _run(copy, "wheels/build.py")
    assert done.returncode == 0, done.stdout + done.stderr
    return copy


def _run(tree: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=tree, env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(tree), **environment},
        capture_output=True, text=True, check=False, timeout=100 * SLOWER,
    )  # fmt: skip


def _form(tree: Path, **environment: str) -> str:
    program = "from conversations.form import told\nfrom conversations.protocol.varint import read_long\nprint(told(), read_long(b'\\x04', 0))"
    done = _run(tree, "-c", program, **environment)
    assert done.returncode == 0, done.stderr
    text, _, value = done.stdout.strip().partition(" (2, ")
    assert value == "1)"
    return text


@pytest.mark.slow
@can_compile
def test_a_checkout_runs_what_was_compiled_of_these_very_sources(small: Path) -> None:
    assert _form(small).startswith("compiled by mypyc")
    assert _form(small, **{PURE: "1"}) == f"Python, as {PURE} is set"
    assert "The compiled form runs" in _run(small, "wheels/build.py").stdout
    changed = small / "conversations" / "errors.py"  # not compiled itself, but compiled code knows its names
    before = changed.read_text(encoding="utf-8")
    try:
        changed.write_text(before + "\n# changed\n")
        assert _form(small).startswith("Python (")
    finally:
        changed.write_text(before)
    assert _form(small).startswith("compiled by mypyc")


@pytest.mark.slow
@can_compile
def test_what_is_compiled_in_another_way_is_compiled_anew(small: Path) -> None:
    classes = small / "wheels" / "acyclic.txt"
    before = classes.read_text(encoding="utf-8")
    try:
        classes.write_text(before + "# changed\n")
        assert "Compiled in" in _run(small, "wheels/build.py").stdout
        assert "The compiled form runs" in _run(small, "wheels/build.py").stdout.splitlines()[0]
    finally:
        classes.write_text(before)


@pytest.mark.slow
@can_compile
def test_a_wheel_says_for_which_python_it_is_and_has_both_forms(small: Path, tmp_path: Path) -> None:
    for compiled, tag in (("1", "cp3"), ("", "py3-none-any")):
        out, installed = tmp_path / f"out{compiled}", tmp_path / f"installed{compiled}"
        done = _run(
            small,
            "-m",
            "hatchling",
            "build",
            "--target",
            "wheel",
            "--directory",
            str(out),
            CONVERSATIONS_COMPILED=compiled,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        (wheel,) = out.iterdir()
        assert tag in wheel.name
        shutil.unpack_archive(wheel, installed, "zip")
        assert _form(installed).startswith("compiled by mypyc" if compiled else "Python (")
        assert _form(installed, **{PURE: "1"}) == f"Python, as {PURE} is set"


def test_without_a_compiler_the_reason_is_told_and_nothing_is_left(tmp_path: Path) -> None:
    done = _run(ROOT, "wheels/build.py", "--into", str(tmp_path / "made"), CC="no-such-compiler")
    assert done.returncode == 1
    assert "no C compiler (no-such-compiler): install one" in done.stderr
    assert not (tmp_path / "made").exists()


def test_the_digest_is_of_names_and_bytes(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("1")
    one = digest(tmp_path)
    (tmp_path / "a.py").rename(tmp_path / "b.py")
    assert digest(tmp_path) != one
    (tmp_path / "b.py").rename(tmp_path / "a.py")
    assert digest(tmp_path) == one
    (tmp_path / "a.py").write_text("2")
    assert digest(tmp_path) != one
    assert isinstance(is_compiled(), bool)
