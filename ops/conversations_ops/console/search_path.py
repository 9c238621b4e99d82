"""The search path for modules that a command line names."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path


def search_here() -> str:
    """Search the current directory for modules too, and return it: behind Python's own modules, before installed packages.

    A file of the directory takes the place of no module of Python's, whoever put it there.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        own = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), sysconfig.get_config_var("DESTSHARED")}
        behind = [number for number, place in enumerate(sys.path) if place in own]
        sys.path.insert(max(behind, default=-1) + 1, here)
    return here
