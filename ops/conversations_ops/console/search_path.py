"""The search path for modules that are named on a command line."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path


def search_here() -> str:
    """Add the current directory to the search path for modules, and return the directory.

    The directory comes after Python's own modules and before installed packages. So no file in it can replace a module of Python.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        own = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), sysconfig.get_config_var("DESTSHARED")}
        behind = [number for number, place in enumerate(sys.path) if place in own]
        sys.path.insert(max(behind, default=-1) + 1, here)
    return here
