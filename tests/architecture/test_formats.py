"""What travels has one home in ``conversations.protocol``: its names are spelled nowhere else."""

from __future__ import annotations

import re
from pathlib import Path

from conversations.protocol.events import EVENTS
from conversations.protocol.rules import COMMANDS, OWNERS, Rule

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("conversations", "ops/conversations_ops", "spark_jobs")


def spelled(what: str, home: str) -> list[str]:
    """Return the files of the product, other than its home, that match a pattern."""
    files = (file for folder in PRODUCT for file in sorted((ROOT / folder).rglob("*.py")))
    return [
        str(file.relative_to(ROOT))
        for file in files
        if file.relative_to(ROOT).as_posix() != home and re.search(what, file.read_text(encoding="utf-8"))
    ]


def test_events_are_named_by_their_classes_alone() -> None:
    names = "|".join(EVENTS)
    assert spelled(f"[\"']({names})[\"']", "") == ["conversations/protocol/events.py"]
    assert not spelled(f"[\"']({names})[\"']", "conversations/protocol/events.py")


def test_rules_of_admission_are_named_by_their_ids_alone() -> None:
    home = "conversations/protocol/rules.py"
    texts = "|".join(re.escape(re.split(r"\d| '", rule)[0]) for rule in Rule)
    assert not spelled(f"[\"'](?:{texts})", home)


def test_owners_and_spark_jobs_judge_by_every_rule_that_is_theirs() -> None:
    """A rule that only one of them knows would have the audit call a record taken that no owner took."""
    intake = (ROOT / "conversations/worker/intake.py").read_text()
    strangers = (ROOT / "conversations/worker/strangers.py").read_text()
    assert rules_in(intake, strangers) == set(Rule)
    spark = (ROOT / "spark_jobs/reading/envelopes.py").read_text()
    assert rules_in(spark) == set(Rule) - OWNERS - COMMANDS


def rules_in(*sources: str) -> set[Rule]:
    """Return the rules that code names."""
    return {Rule[name] for source in sources for name in re.findall(r"\bRule\.([A-Z_]+)", source)}
