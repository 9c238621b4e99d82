"""Compiles the modules on the hot path with mypyc: ``python wheels/build.py`` (docs/decisions/0064-compiled-by-mypyc.md).

    conversations/*.py --mypyc--> one C file for each module --compiler--> one shared module, and a small one for each name

It works on a copy of the package, in a temporary directory. The result goes to ``build/compiled``, where ``conversations.form`` finds it. Its
directory has the digest of all sources as its name, so a changed source is compiled anew. So are all sources if a file of this directory changes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT), str(HERE)]

from acyclic import acyclic, listed, marked  # noqa: E402 - this file is a script, so none is found before
from constructors import Module  # noqa: E402

from conversations.form import BUILT, PURE, digest  # noqa: E402 - as above

OPTIMIZATION = "2"
"""Level of the C compiler. 1 compiles in three quarters of the time; 3 gave nothing."""
FLAGS = ("-fvisibility=hidden",) if os.name == "posix" else ()
"""Let the compiled modules call each other directly, and not through the table with which a library may replace a function of another."""
RECIPE = "recipe"
"""File of a compiled form that has the digest of this directory. If how to compile changes, or what, the form is compiled anew."""
KEPT = 3
"""Number of compiled forms that a checkout keeps, for sources that are changed back."""
SUFFIX = str(sysconfig.get_config_var("EXT_SUFFIX"))
TYPES = """\
[mypy]
explicit_package_bases = true
namespace_packages = true
ignore_missing_imports = true
follow_imports = silent
"""
"""Settings of mypy for the translation. ``make types`` has the strict ones."""


class CannotCompile(Exception):
    """There is no compiled form. The text names the reason, and the remedy if there is one."""


def modules() -> list[str]:
    """Return the files to compile, relative to the root of the project."""
    return listed(HERE / "modules.txt")


def build(into: Path) -> None:
    """Compile the modules into a directory, as they would be beside the package.

    Raises:
        CannotCompile: mypyc or a C compiler is missing, or one of them failed.
    """
    _check_tools()
    with tempfile.TemporaryDirectory(prefix="conversations-compiled-") as directory:
        stage = Path(directory)
        shutil.copytree(ROOT / "conversations", stage / "conversations", ignore=shutil.ignore_patterns("__pycache__"))
        names = acyclic()
        for name in modules():
            source = Module((ROOT / name).read_text(encoding="utf-8")).with_constructors()
            (stage / name).write_text(marked(source, names.get(name, ())), encoding="utf-8")
        (stage / "mypy.ini").write_text(TYPES, encoding="utf-8")
        # mypyc looks for the files, and writes its own, in the working directory. So a process of its own has the copy as its directory.
        command = [sys.executable, __file__, "--here"]
        made = subprocess.run(command, cwd=stage, stdout=subprocess.PIPE, text=True, check=False)
        if made.returncode:
            raise CannotCompile(f"mypyc or the C compiler failed:\n{made.stdout[-4_000:]}")
        shutil.rmtree(into, ignore_errors=True)
        into.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(stage / "made", into)


def _check_tools() -> None:
    """Raise CannotCompile if a tool is missing."""
    try:
        import mypyc.build  # noqa: F401 - only asked for
        import setuptools  # noqa: F401 - only asked for
    except ImportError as error:
        raise CannotCompile(f"{error.name} is missing: pip install 'mypy[mypyc]' setuptools") from error
    named = os.environ.get("CC", "cc").split(" ")[0]
    if shutil.which(named) is None:
        raise CannotCompile(f"no C compiler ({named}): install one (Debian, Ubuntu: apt install build-essential)")
    if not (header := Path(sysconfig.get_paths()["include"]) / "Python.h").is_file():
        raise CannotCompile(
            f"{header} is missing: install the headers of Python (Debian, Ubuntu: apt install python3-dev)"
        )


def _compile_here() -> None:
    """Compile the modules of the working directory, which is a copy, into ``made``. The compiler runs once for each core."""
    from distutils.ccompiler import new_compiler
    from distutils.sysconfig import customize_compiler

    import setuptools  # noqa: F401 - it brings distutils, which Python has lost in 3.12
    from mypyc.build import mypycify

    extensions = mypycify(
        ["--config-file", "mypy.ini", *modules()],
        opt_level=OPTIMIZATION, debug_level="0", multi_file=True, group_name="conversations",
    )  # fmt: skip
    compiler = new_compiler()
    customize_compiler(compiler)
    include = sysconfig.get_paths()["include"]

    def compiled(extension: Any, source: str) -> str:
        directories, further = [*extension.include_dirs, include], [*extension.extra_compile_args, *FLAGS]
        return str(compiler.compile([source], "objects", include_dirs=directories, extra_postargs=further)[0])

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        work = {
            extension.name: [pool.submit(compiled, extension, it) for it in extension.sources]
            for extension in extensions
        }
        _show([it for parts in work.values() for it in parts])
    for extension in extensions:
        file = Path("made", *extension.name.split("."))
        objects = [it.result() for it in work[extension.name]]
        compiler.link_shared_object(objects, f"{file}{SUFFIX}", extra_postargs=extension.extra_link_args)


def _show(parts: Sequence[Any]) -> None:
    """Show how many files are compiled, on a terminal. A failure of the compiler is raised at once."""
    for count, part in enumerate(as_completed(parts), start=1):
        part.result()
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{count} of {len(parts)} files" + ("\n" if count == len(parts) else ""))
            sys.stderr.flush()


def main(given: Sequence[str] | None = None) -> int:
    """Compile, unless the compiled form of these sources is there. Return 1 if it cannot be had."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument(
        "--into", type=Path, help="a directory for the modules (default: where this checkout looks for them)"
    )
    parser.add_argument(
        "--if-possible", action="store_true", help="exit with 0 if nothing can be compiled: then the Python form runs"
    )
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(given)
    if options.here:
        _compile_here()
        return 0
    into = options.into or ROOT / BUILT / digest()
    if options.if_possible and os.environ.get(PURE):
        print(f"The Python form runs, as {PURE} is set.")
        return 0
    if options.into is None and _is_made(into):
        print(f"The compiled form runs ({PURE}=1 runs the Python form).")
        return 0
    print(
        f"Compiling {len(modules())} modules, once for these sources: 1 to 3 minutes ({PURE}=1 skips it) ...",
        flush=True,
    )
    start, recipe = time.monotonic(), _recipe()
    try:
        build(into)
    except CannotCompile as error:
        if options.into is None:
            shutil.rmtree(into, ignore_errors=True)  # it may be there, made in another way
        print(f"Not compiled, so the Python form runs: {error}", file=sys.stderr)
        return 0 if options.if_possible else 1
    if options.into is None:
        (into / RECIPE).write_text(recipe, encoding="ascii")
        _forget_old(into)
    print(f"Compiled in {time.monotonic() - start:.0f} s. The compiled form runs.")
    return 0


def _is_made(into: Path) -> bool:
    """Return True if a directory has the compiled form of these sources, made as they would be compiled now."""
    made = into / RECIPE
    return made.is_file() and made.read_text(encoding="ascii") == _recipe()


def _recipe() -> str:
    """Return the digest of this directory, which says what is compiled, and how."""
    return digest(HERE, ("*.py", "*.txt"))


def _forget_old(new: Path) -> None:
    """Remove the oldest compiled forms beside a new one."""
    forms = sorted((it for it in new.parent.iterdir() if it != new), key=lambda it: it.stat().st_mtime)
    for old in forms[: len(forms) + 1 - KEPT]:
        shutil.rmtree(old, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
