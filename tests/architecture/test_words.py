"""Retired words do not come back: one word for each thing, as docs/glossary.md has it."""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CODE = ("conversations", "ops", "spark_jobs")
NAMES = {
    "braking": "brake",
    "collecting": "departure",
    "collector": "garbage",
    "faulty_log": "connection",
    "giving_up": "failures",
    "kafka_log": "connection",
    "memory_log": "connection",
    "open_log": "connect",
    "receiving": "inbound",
    "resolving": "decisions",
    "speaking": "outbound",
    "switching": "switch",
}
"""Retired as a whole name or as a part of one (``last_switching``), and the word that stands for it."""
NAMES_OF_TESTS = {"house": "the service, by what is special about it", "victim": "the process, by what becomes of it"}
"""Retired in the tests' own code: names that say nothing of the thing."""
PHRASES = {"--over": "--detached"}
"""Retired in help, errors and pages, and the words that stand for them."""
ALLOWED = {("speaking", "spark_jobs/speak.py"), ("collector", "ops/conversations_ops/metrics/exposition.py")}
"""A retired name, and the folder or file that may keep it."""


def modules() -> list[Path]:
    return sorted(path for root in CODE for path in (ROOT / root).rglob("*.py"))


def pages() -> list[Path]:
    """Return the pages that say what is true now: decisions and the changelog are history."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def identifiers(tree: ast.AST) -> Iterator[str]:
    """Names that a module gives or uses: of modules, classes, functions, arguments, attributes and variables."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, (ast.arg, ast.keyword)):
            yield node.arg or ""
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.alias):
            yield from node.name.split(".")


def texts(tree: ast.AST) -> Iterator[str]:
    return (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))


def spelled(name: str) -> str:
    """Return a name in lower case with ``_`` between its words and around them: ``GivingUp`` is ``_giving_up_``."""
    return f"_{re.sub(r'(?<=[a-z0-9])(?=[A-Z])', '_', name).lower().strip('_')}_"


def retired_names(names: Iterable[str], retired: Iterable[str] = NAMES) -> set[str]:
    found = {spelled(name) for name in names}
    return {word for word in retired if any(f"_{word}_" in name for name in found)}


def retired_phrases(text: str) -> set[str]:
    return {phrase for phrase in PHRASES if re.search(rf"(?<![\w-]){re.escape(phrase)}(?![\w-])", text)}


def is_allowed(word: str, where: str) -> bool:
    return any(word == name and where.startswith(place) for name, place in ALLOWED)


def test_no_name_in_the_code_is_a_retired_word() -> None:
    found = set()
    for path in modules():
        where = path.relative_to(ROOT).as_posix()
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found |= {(where, word) for word in retired_names([path.stem, *identifiers(tree)])}
    assert {(where, word) for where, word in found if not is_allowed(word, where)} == set()


def test_helpers_of_tests_have_names_that_say_what_they_are() -> None:
    paths = (ROOT / "tests").rglob("*.py")
    names = {path: [path.stem, *identifiers(ast.parse(path.read_text(encoding="utf-8")))] for path in paths}
    assert {path: found for path in names if (found := retired_names(names[path], NAMES_OF_TESTS))} == {}


def test_no_text_of_the_product_says_a_retired_phrase() -> None:
    said = {path: "\n".join(texts(ast.parse(path.read_text(encoding="utf-8")))) for path in modules()}
    said |= {path: path.read_text(encoding="utf-8") for path in pages()}
    found = {(path.relative_to(ROOT).as_posix(), phrase) for path in said for phrase in retired_phrases(said[path])}
    assert found == set()


def test_a_retired_word_is_found_in_every_spelling() -> None:
    names = ["GivingUp", "_giving_up", "giving_up_late", "speaking", "outspeaking"]
    assert [sorted(retired_names([name])) for name in names] == [["giving_up"]] * 3 + [["speaking"], []]
    assert retired_phrases("conversations dead-letters list --over") == {"--over"}
    assert retired_phrases("--overwrite, --left-over") == set()
