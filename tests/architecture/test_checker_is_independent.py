"""The checker of chaos runs judges the product: it may share none of its code."""

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CHECKER = ROOT / "tests" / "chaos" / "checker"
OTHERS = {"confluent_kafka", "fastavro", "pyarrow"}


def imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(f"{'.' * node.level}{node.module or ''}")
    return found


def allowed(name: str) -> bool:
    own = name == "tests.chaos.checker" or name.startswith("tests.chaos.checker.")
    first = name.partition(".")[0]
    return own or first in OTHERS or first in sys.stdlib_module_names


def test_the_checker_imports_itself_the_client_and_the_libraries_of_file_formats_alone() -> None:
    used = {f"{path.name}: {name}" for path in CHECKER.glob("*.py") for name in imported(path) if not allowed(name)}
    assert used == set()


def test_nothing_of_the_product_is_loaded_with_the_checker() -> None:
    """What a package's ``__init__`` imports is not seen in the checker's own modules."""
    program = "import sys, tests.chaos.checker.__main__; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not {"conversations", "conversations_ops", "spark_jobs"} & set(done.stdout.split())
