import json
from pathlib import Path

import pytest

from tests.chaos.checker.files import Unreadable, read_notes, read_plan
from tests.chaos.checker.records import HandlerRun
from tests.chaos.checker.verdict import SHOWN, Kind, Verdict

DIALOG = "019b76da-a800-7821-b3ab-48767734d7c1"
PLAN = {
    "namespace": "chaos",
    "services": {"initiator": "one", "target": "other"},
    "dialogs": {DIALOG: 3},
    "ends": [DIALOG],
    "faults": {"duplicates": {"count": 1, "where": [["chaos.one.queue", 2, 17]]}},
}


def wrote(directory: Path, plan: object) -> Path:
    (directory / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    return directory


def test_a_plan_says_what_was_meant_and_where_records_were_injected(tmp_path: Path) -> None:
    plan = read_plan(wrote(tmp_path, PLAN))
    assert (plan.namespace, plan.initiator, plan.target) == ("chaos", "one", "other")
    assert (dict(plan.dialogs), set(plan.ends)) == ({DIALOG: 3}, {DIALOG})
    assert plan.injected == {("chaos.one.queue", 2, 17): "duplicates"}
    assert plan.fates == {}


def test_a_plan_says_which_entries_fail_and_what_is_decided_about_them(tmp_path: Path) -> None:
    plain = {"n": 1, "fails": 5, "attempts": 4, "then": "hold", "decision": "edit", "text": "x", "code": 7}
    (fate,) = read_plan(wrote(tmp_path, {**PLAN, "fates": {DIALOG: plain}})).fates.values()
    assert fate == (1, 5, 4, "hold", "edit", "x", 7)
    assert (fate.given_up, fate.edited, fate.skipped, fate.ends) == (True, True, False, False)


@pytest.mark.parametrize(
    "plan",
    [
        [],
        {},
        {**PLAN, "dialogs": 5},
        {**PLAN, "faults": {"corrupt": {"where": [["x", 1]]}}},
        {**PLAN, "fates": {DIALOG: {"n": 1, "fails": 5, "attempts": 4, "then": "hold"}}},
    ],
)
def test_what_is_no_plan_is_refused(tmp_path: Path, plan: object) -> None:
    with pytest.raises(Unreadable, match=r"plan\.json"):
        read_plan(wrote(tmp_path, plan))


def test_a_directory_without_a_plan_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match=r"plan\.json"):
        read_plan(tmp_path)


def test_notes_are_read_by_process_and_a_line_that_was_cut_off_at_the_end_does_not_count(tmp_path: Path) -> None:
    plan = read_plan(wrote(tmp_path, PLAN))
    lines = [json.dumps({"service": "one", "conversation": DIALOG, "initiator": True, "n": n}) for n in (0, 1)]
    (tmp_path / "one-12.jsonl").write_text(f"{lines[0]}\n{lines[1]}\n", encoding="utf-8")
    (tmp_path / "other-13.jsonl").write_text(f"{lines[0]}\n{lines[1][:20]}", encoding="utf-8")
    verdict = Verdict()
    notes = read_notes(tmp_path, plan, verdict)
    assert notes == {
        "one-12.jsonl": [HandlerRun(DIALOG, True, 0), HandlerRun(DIALOG, True, 1)],
        "other-13.jsonl": [HandlerRun(DIALOG, True, 0)],
    }
    assert verdict.clean


def test_a_note_that_cannot_be_read_is_a_violation(tmp_path: Path) -> None:
    plan = read_plan(wrote(tmp_path, PLAN))
    (tmp_path / "one-12.jsonl").write_text('{"conversation": "nobody"}\n[]\n', encoding="utf-8")
    verdict = Verdict()
    read_notes(tmp_path, plan, verdict)
    assert [violation.kind for violation in verdict.violations] == [Kind.NOTE_BROKEN] * 2


def test_a_verdict_is_one_line_of_figures_and_a_line_for_each_of_the_first_violations() -> None:
    verdict = Verdict(figures={"messages": 200_000, "dialogs": 2_000, "set aside": 412})
    (line,) = verdict.lines()
    assert line == (
        "messages 200,000 · dialogs 2,000 · lost 0 · twice 0 · out of order 0 · state disagrees 0 · unaccounted 0 · "
        "set aside 412"
    )
    for number in range(SHOWN + 3):
        verdict.add(Kind.MESSAGE_LOST, DIALOG, f"entry {number}")
    lines = verdict.lines()
    assert "lost 53 " in lines[0]
    assert lines[1] == f"message lost: {DIALOG}: entry 0"
    assert lines[-1] == "and 3 more"
    assert len(lines) == SHOWN + 2
    assert len(verdict.plain()["violations"]) == SHOWN + 3
