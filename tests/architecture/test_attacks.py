"""Every attack that is known has a test that is there, or a decision that is written."""

import ast
from pathlib import Path

import pytest

from tests.hostile.attacks import ATTACKS, Attack
from tests.hostile.document import PAGE, page

ROOT = Path(__file__).resolve().parents[2]
KNOWN = 62


@pytest.mark.parametrize("attack", ATTACKS, ids=[attack.what for attack in ATTACKS])
def test_what_stands_against_an_attack_is_there(attack: Attack) -> None:
    assert bool(attack.test) != bool(attack.decision)
    if attack.decision:
        assert (ROOT / "docs" / "decisions" / attack.decision).is_file()
        return
    file, _, name = attack.test.partition("::")
    found = ast.parse((ROOT / file).read_text()).body
    assert name in {node.name for node in found if isinstance(node, ast.FunctionDef)}


def test_no_known_attack_is_forgotten() -> None:
    said = [attack.what for attack in ATTACKS]
    assert len(set(said)) == len(said) == KNOWN


def test_the_page_is_the_table() -> None:
    """``python -m tests.hostile.document`` writes it anew."""
    assert PAGE.read_text(encoding="utf-8") == page()
