"""Finds durations of more than ten seconds in the code. Each of them must be a setting, or have a reason in ``exceptions``."""

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("conversations", "ops/conversations_ops", "spark_jobs")
HOME = "conversations/config.py"
UNITS = "conversations/durations.py"
SHORT = 10.0
"""Longest duration, in seconds, that need not be a setting."""

_UNITS = {"weeks": 604_800.0, "days": 86_400.0, "hours": 3_600.0, "minutes": 60.0, "seconds": 1.0, "milliseconds": 1e-3}
_TELLING = {3_600, 86_400, 60_000, 3_600_000, 86_400_000, 60_000_000, 3_600_000_000, 86_400_000_000}
"""Numbers that are almost certainly an hour, a day or a minute in some unit."""
_NAMES = re.compile(
    r"timeout|patience|within|after|every|_life|lifetime|grace|stale|seconds?$|minutes?$|hours?$|days?$|wait|silent|stuck"
    r"|standstill|settling|healthy|alone|appear|age$|period|interval|horizon|expir|look_back|known$|ahead$|remember|kept$",
    re.IGNORECASE,
)
_SAID = re.compile(
    r"\b(micro|milli)?seconds?\b(?! \w+ (?:hold|have) )|\bminutes\b|\bhours\b|\bdays\b|\blog time\b", re.IGNORECASE
)
_TEXT = re.compile(r"(?:INTERVAL )?(\d+) (second|minute|hour|day|week)s?", re.IGNORECASE)


class Found(NamedTuple):
    """A duration in the code."""

    path: str
    name: str
    """Name of the variable, argument, key or call that the duration is given to."""
    line: int


def durations() -> Iterator[Found]:
    """Yield every duration of more than ten seconds outside the modules for settings and units."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if name not in {HOME, UNITS}:
                yield from durations_in(path.read_text(encoding="utf-8"), name)


def durations_in(code: str, path: str) -> Iterator[Found]:
    """Yield the durations of more than ten seconds in the code of one module, each place once."""
    seen = set()
    for name, line in _Scan(ast.parse(code)).found:
        if (name, line) not in seen:
            seen.add((name, line))
            yield Found(path, name, line)


class _Scan(ast.NodeVisitor):
    def __init__(self, tree: ast.Module) -> None:
        self.found: list[tuple[str, int]] = []
        self._inside: list[str] = []
        self._said: dict[ast.AST, str] = {}
        for node in ast.walk(tree):
            body = getattr(node, "body", None)
            if isinstance(body, list):
                for one, following in pairwise(body):
                    if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
                        self._said[one] = str(following.value.value).split(";")[0]
        self.visit(tree)

    def _note(self, name: str, node: ast.AST) -> None:
        self.found.append((self._inside[-1] if self._inside else name, getattr(node, "lineno", 0)))

    # -- numbers that get a name ---------------------------------------------------------------------------------------

    def visit_Assign(self, node: ast.Assign) -> None:
        self._assigned(node, ",".join(ast.unparse(target) for target in node.targets), node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._assigned(node, ast.unparse(node.target), node.value)

    def _assigned(self, node: ast.AST, name: str, value: ast.expr | None) -> None:
        if value is None:
            return
        self._inside.append(name)
        said = _SAID.search(self._said.get(node, ""))
        of_itself = isinstance(value, ast.Call) and ast.unparse(value.func).endswith("timedelta")
        if said or (_NAMES.search(name) and not name.endswith(("_BYTES", "_bytes"))):
            unit = 1e-6 if said and said.group(1) == "micro" else 1e-3 if said and said.group(1) == "milli" else 1.0
            if not of_itself and any(amount * unit > SHORT for amount in _numbers(value)):
                self._note(name, node)
        self.generic_visit(node)
        self._inside.pop()

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg and _NAMES.search(node.arg) and any(amount > SHORT for amount in _numbers(node.value)):
            self._note(node.arg, node.value)
        self.generic_visit(node)

    def visit_arguments(self, node: ast.arguments) -> None:
        positional = [*node.posonlyargs, *node.args]
        given = [*zip(positional[len(positional) - len(node.defaults) :], node.defaults, strict=True)]
        given += [(arg, default) for arg, default in zip(node.kwonlyargs, node.kw_defaults, strict=True) if default]
        for arg, default in given:
            if _NAMES.search(arg.arg) and any(amount > SHORT for amount in _numbers(default)):
                self._note(arg.arg, default)
        self.generic_visit(node)

    # -- numbers that are a time whatever their name is ----------------------------------------------------------------

    def visit_Dict(self, node: ast.Dict) -> None:
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and str(key.value).endswith((".ms", "_ms")):
                text = (
                    [float(str(value.value))] if isinstance(value, ast.Constant) and str(value.value).isdigit() else []
                )
                if any(amount > SHORT * 1_000 for amount in [*_numbers(value), *text]):
                    self._note(str(key.value), value)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        called = ast.unparse(node.func).rpartition(".")[2]
        if called == "timedelta":
            given = [(it.arg or "", it.value) for it in node.keywords]
            given += zip(("days", "seconds"), node.args, strict=False)
            if sum(_UNITS.get(unit, 0) * amount for unit, value in given for amount in _numbers(value)) > SHORT:
                self._note("timedelta", node)
            return
        if called in {"sleep", "wait", "join", "result", "poll"} and any(
            amount > SHORT for it in node.args for amount in _numbers(it)
        ):
            self._note(called, node)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, int) and node.value in _TELLING:
            self._note(str(node.value), node)
        elif isinstance(node.value, str) and (said := _TEXT.fullmatch(node.value)) is not None:
            amount, unit = float(said.group(1)), _UNITS[f"{said.group(2).lower()}s"]
            if amount * unit > SHORT:
                self._note(node.value, node)


def _numbers(value: ast.expr) -> list[float]:
    """Return the values of an expression that is made of literals; an empty list for any other expression."""
    if isinstance(value, ast.Constant) and isinstance(value.value, int | float) and not isinstance(value.value, bool):
        return [float(value.value)]
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult):
        return [left * right for left in _numbers(value.left) for right in _numbers(value.right)]
    if isinstance(value, ast.Tuple):
        return [number for it in value.elts for number in _numbers(it)]
    return []
