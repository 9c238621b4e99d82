"""The two forms of the product: compiled and Python."""

from __future__ import annotations

import shutil
import sysconfig
from pathlib import Path

import pytest

from conversations.form import is_compiled

NEEDS_PYTHON = "looks into functions as Python objects: run it with CONVERSATIONS_PURE=1 (make test-pure)"
python_form = pytest.mark.skipif(is_compiled(), reason=NEEDS_PYTHON)


def needs_python_form(item: pytest.Item) -> bool:
    """Return True if a test is marked ``python_form``, so that a run of the compiled form skips it."""
    return any(mark.kwargs.get("reason") == NEEDS_PYTHON for mark in item.iter_markers("skipif"))


can_compile = pytest.mark.skipif(
    shutil.which("cc") is None or not (Path(sysconfig.get_paths()["include"]) / "Python.h").is_file(),
    reason="needs a C compiler and the headers of Python",
)
