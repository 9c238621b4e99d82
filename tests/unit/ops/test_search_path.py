"""A command's own process finds a target in the current directory, and Python's modules nowhere but in Python."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
sys.path.append(sys.argv[1])
from conversations_ops.console.search_path import search_here
search_here()
import colorsys, orders
print(orders.NAME, hasattr(colorsys, "STOLEN"))
"""


def test_the_current_directory_is_searched_behind_pythons_own_modules(tmp_path: Path) -> None:
    (tmp_path / "colorsys.py").write_text("STOLEN = True")
    (tmp_path / "orders.py").write_text("NAME = 'orders'")
    root = str(Path(__file__).resolve().parents[3])
    command = [sys.executable, "-P", "-c", PROGRAM, root]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "orders False\n", done.stderr
