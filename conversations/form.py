"""Chooses the form of the modules on the hot path: compiled by mypyc, or Python (docs/decisions/0064-compiled-by-mypyc.md).

Both forms have one source. A compiled wheel has the compiled modules beside their sources. A checkout has them in ``build/compiled``,
in a directory named by the digest of all sources. So a changed source is never run in a form that was compiled before the change.
``CONVERSATIONS_PURE=1`` takes the Python form, wherever compiled modules are.
"""

from __future__ import annotations

import hashlib
import os
import sys
import sysconfig
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from importlib.util import find_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

PACKAGE = Path(__file__).resolve().parent
PURE = "CONVERSATIONS_PURE"
SHARED = "conversations__mypyc"
"""Name of the module that has the code of all compiled modules. The other compiled modules only name it."""
BUILT = Path("build") / "compiled"
_PROBE = "conversations.protocol.varint"


def digest(directory: Path = PACKAGE, patterns: Sequence[str] = ("*.py",)) -> str:
    """Return the digest of the sources in a directory, and of the interface of this Python: 20 hexadecimal digits."""
    found = hashlib.sha256(str(sysconfig.get_config_var("EXT_SUFFIX")).encode())
    for file in sorted(it for pattern in patterns for it in directory.rglob(pattern)):
        found.update(b"\0" + file.relative_to(directory).as_posix().encode() + b"\0" + file.read_bytes())
    return found.hexdigest()[:20]


def is_compiled() -> bool:
    """Return True if the modules on the hot path are compiled in this process."""
    spec = find_spec(_PROBE)
    return spec is not None and str(spec.origin).endswith(tuple(EXTENSION_SUFFIXES))


def name() -> str:
    """Return the name of the form that runs in this process."""
    return "compiled" if is_compiled() else "python"


def told() -> str:
    """Return a sentence about the form that runs, and how to get the other one."""
    if is_compiled():
        return f"compiled by mypyc ({PURE}=1 runs the Python form)"
    if os.environ.get(PURE):
        return f"Python, as {PURE} is set"
    return "Python (the compiled form is faster: make compile, or a compiled wheel)"


def choose() -> None:
    """Let this process import one form, before the first module of the hot path is imported."""
    if os.environ.get(PURE):
        sys.meta_path.insert(0, _Python())
        return
    built = PACKAGE.parent / BUILT
    if not built.is_dir():
        return
    files = _modules(built / digest())
    if files:
        sys.meta_path.insert(0, _Compiled(files))


def _modules(directory: Path) -> dict[str, Path]:
    """Return the file of each compiled module in a directory."""
    suffix = str(sysconfig.get_config_var("EXT_SUFFIX"))
    return {
        file.relative_to(directory).as_posix().removesuffix(suffix).replace("/", "."): file
        for file in directory.rglob(f"*{suffix}")
    }


class _Compiled:
    """Finds compiled modules outside of their package."""

    def __init__(self, files: dict[str, Path]) -> None:
        self._files = files

    def find_spec(
        self, name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        file = self._files.get(name)
        return None if file is None else spec_from_file_location(name, file)


class _Python:
    """Finds the source of a module of this package, also where a compiled form is beside it."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is None or not name.startswith("conversations."):
            return None
        return FileFinder(path[0], (SourceFileLoader, SOURCE_SUFFIXES)).find_spec(name)
