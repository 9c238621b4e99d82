"""The constructors that the compiled form gets: as ``dataclasses`` would make them, and on the lines of the sources."""

from __future__ import annotations

import inspect
import sys
from dataclasses import is_dataclass
from runpy import run_path
from types import ModuleType
from typing import Any

import pytest

from tests.architecture.test_compiled import MODULES, ROOT

Module: Any = run_path(str(ROOT / "wheels" / "constructors.py"))["Module"]

AS_PYTHON = {"Taking", "_Kind"}
"""Dataclasses that keep the ``__init__`` of ``dataclasses``, as all frozen ones do: a lambda makes a default, or there is no docstring."""

SOURCE = '''
@dataclass(slots=True)
class Plain:
    """Plain."""

    name: str
    """Its name."""
    size: int = 3
    made: list[str] = field(default_factory=list)
    named: ClassVar[int] = 1


@dataclass
class Further(Plain):
    """Further."""

    last: bool = field(default=False, kw_only=True)


@dataclass(frozen=True)
class Frozen:
    """Frozen."""

    name: str


@dataclass
class Own:
    """Own."""

    name: str

    def __init__(self) -> None:
        self.name = ""
'''


def written() -> list[str]:
    given, found = SOURCE.splitlines(), Module(SOURCE).with_constructors().splitlines()
    assert len(found) == len(given), "the lines of a traceback are right"
    return [line for line, before in zip(found, given, strict=True) if line != before]


def test_a_plain_dataclass_gets_an_init_and_others_keep_theirs() -> None:
    assert written() == [
        (
            "    def __init__(self, name: str, size: int = 3, made: list[str] | None = None) -> None: "
            "self.name = name; self.size = size; self.made = list() if made is None else made"
        ),
        (
            "    def __init__(self, name: str, size: int = 3, made: list[str] | None = None, *, last: bool = False) -> None: "
            "self.name = name; self.size = size; self.made = list() if made is None else made; self.last = last"
        ),
    ]


def _dataclasses(name: str, source: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Run the source of a module under another name, and return its dataclasses."""
    module = ModuleType(f"{name} of a test")
    module.__dict__["__package__"] = name.rpartition("/")[0].replace("/", ".")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # ``dataclasses`` looks there
    exec(compile(source, name, "exec"), module.__dict__)
    return {
        name: it
        for name, it in vars(module).items()
        if isinstance(it, type) and is_dataclass(it) and it.__module__ == module.__name__
    }


@pytest.mark.parametrize("name", [it for it in MODULES if "dataclass" in (ROOT / it).read_text(encoding="utf-8")])
def test_each_init_has_the_parameters_that_dataclasses_gives_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = (ROOT / name).read_text(encoding="utf-8")
    made = _dataclasses(name, Module(source).with_constructors(), monkeypatch)
    for called, expected in _dataclasses(name, source, monkeypatch).items():
        theirs, ours = (_parameters(it) for it in (expected, made[called]))
        is_made = made[called].__init__.__code__.co_filename == name
        assert (called, ours) == (called, theirs)
        assert (called, is_made) == (
            called,
            bool(theirs) and not (expected.__dataclass_params__.frozen or called in AS_PYTHON),
        )


def _parameters(made: type) -> list[tuple[str, object, object]]:
    """Return the name, the kind and the default of each parameter. A factory of ``dataclasses`` counts as None."""
    found = inspect.signature(made).parameters.values()
    return [(it.name, it.kind, None if "factory" in repr(it.default) else it.default) for it in found]
