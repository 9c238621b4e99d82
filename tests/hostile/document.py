"""Writes ``docs/attacks.md`` from the table of attacks: ``python -m tests.hostile.document``."""

from pathlib import Path

from tests.hostile.attacks import ATTACKS, Attack

PAGE = Path(__file__).resolve().parents[2] / "docs" / "attacks.md"
HEAD = """# What was tried from outside

This page lists attacks. The attacker may write to a queue, to the commands of a service or to a shared topic, or may use the machine of a
worker. For each attack there is a test or a decision. The test shows that the attack fails. The
[decision](decisions/0022-what-comes-from-outside.md) explains why the attack is allowed. `make hostile` sends the records of a hostile peer
while honest dialogs run. `python -m tests.hostile.document` writes this page.

| attack | the test that shows that the attack fails, or the decision |
|---|---|
"""


def page() -> str:
    """Return the text of the page."""
    return HEAD + "".join(f"| {attack.what} | {_answer(attack)} |\n" for attack in ATTACKS)


def _answer(attack: Attack) -> str:
    return f"`{attack.test}`" if attack.test else f"[{attack.decision[:4]}](decisions/{attack.decision})"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
