import json
from pathlib import Path

import pytest

from bench import part, report, results
from bench.part import Part, Sheet
from bench.plan import QUICK, Plan
from bench.workload import Workload

FOUND = {
    "measured_at": "2026-01-02T03:04:05+00:00",
    "machine": {"cores": 2, "python": "3.11", "kafka": "4.3.1, embedded"},
    "versions": {"confluent-kafka": "2"},
    "failures": [],
}
PART = Part("some", "Something", 1, lambda _: {}, lambda _: [Sheet(("a", "b"), [("x", "1")], ["A note."])])


def test_figures_replace_what_is_between_the_marks_and_nothing_else() -> None:
    begin, end = report.marks("some")
    page = f"before\n{begin}\nold\n{end}\nafter\n"
    once = report.filled(page, "some", "new")
    assert once == f"before\n{begin}\n\nnew\n\n{end}\nafter\n"
    assert report.filled(once, "some", "new") == once


@pytest.mark.parametrize("page", ["nothing", report.marks("some")[0], "{1}{0}".format(*report.marks("some"))])
def test_a_page_without_marks_is_refused(page: str) -> None:
    with pytest.raises(ValueError, match="no place for some"):
        report.filled(page, "some", "new")


def test_every_part_has_its_place_on_the_page() -> None:
    page = report.PAGE.read_text(encoding="utf-8")
    for name in part.HOMES:
        report.filled(page, name, "")


def test_every_part_is_called_what_it_is_kept_under() -> None:
    names = part.known()
    assert names == [part.load(name).name for name in names]
    assert {"throughput", "latency", "waiting", "blocked", "batch", "dialogs"} <= set(names)


def test_markdown_is_a_table_its_notes_and_the_conditions() -> None:
    text = report.markdown(PART, FOUND, picture=False)
    assert text.startswith("| a | b |\n| --- | ---: |\n| x | 1 |\n\nA note.\n\n2 cores")


def test_figures_of_a_disturbed_machine_say_so() -> None:
    assert report.DISTURBED in report.markdown(PART, {**FOUND, "disturbed": True}, picture=False)


def test_keeping_a_part_leaves_the_others_alone(tmp_path: Path) -> None:
    results.keep(tmp_path, "one", {"a": 1})
    results.keep(tmp_path, "two", {"samples": [{"took_ms": [1.23456, 2.0]}], "none": {}, "empty": []})
    path = results.keep(tmp_path, "one", {"a": 2})
    assert results.read(tmp_path) == {
        "one": {"a": 2},
        "two": {"samples": [{"took_ms": [1.23456, 2.0]}], "none": {}, "empty": []},
    }
    assert json.loads(path.read_text(encoding="utf-8"))["parts"]["one"] == {"a": 2}


def test_only_the_standard_sizes_are_published() -> None:
    assert Plan(rounds=1).standard
    assert not Plan(messages=1_000).standard
    assert not Plan(only=("raw",)).standard
    assert not Plan(shrink=QUICK).standard


def test_a_small_plan_keeps_at_least_one_of_everything() -> None:
    small = Plan(shrink=1_000_000).scaled(Workload())
    assert (small.messages, small.dialogs) == (1, 1)
