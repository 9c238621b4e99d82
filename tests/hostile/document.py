"""Writes ``docs/attacks.md`` from the table of attacks: ``python -m tests.hostile.document``."""

from pathlib import Path

from tests.hostile.attacks import ATTACKS, Attack

PAGE = Path(__file__).resolve().parents[2] / "docs" / "attacks.md"
HEAD = """# What was tried from outside

What somebody may try who writes a queue, the commands of a service, a shared topic or the machine that a worker runs on; and the test that
shows that it fails, or the [decision](decisions/0022-what-comes-from-outside.md) that says why it is left. All of it at once, beside
honest work, is `make hostile`. The table is written by `python -m tests.hostile.document`.

| what | the test that stands against it, or the decision |
|---|---|
"""


def page() -> str:
    """The text of the page."""
    return HEAD + "".join(f"| {attack.what} | {_answer(attack)} |\n" for attack in ATTACKS)


def _answer(attack: Attack) -> str:
    return f"`{attack.test}`" if attack.test else f"[{attack.decision[:4]}](decisions/{attack.decision})"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
