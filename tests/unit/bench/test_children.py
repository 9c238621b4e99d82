import sys
from pathlib import Path

import pytest

from bench import children
from bench.children import Child, RunFailed, result_of, work

# What sleeps is the program that is stuck: nothing waits until it wakes, and one that escapes ends by itself.
ANSWERING = """
import os, sys, time
from bench.children import answer
answer({"add": lambda one, two: {"sum": one + two}, "fail": lambda: {}["x"], "die": lambda: os._exit(3),
        "sleep": lambda: time.sleep(60)})
"""


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Child:
    (tmp_path / "answering_for_test.py").write_text(ANSWERING)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{children.ROOT}")
    return Child("answering_for_test", "")


def test_a_child_answers_questions_in_their_order(child: Child) -> None:
    with child:
        child.await_start()
        assert child.ask("add", one=1, two=2) == {"sum": 3}
        assert child.ask("add", one=3, two=4) == {"sum": 7}


def test_a_question_that_fails_is_a_failed_run_that_says_why(child: Child) -> None:
    with child:
        child.await_start()
        with pytest.raises(RunFailed, match="KeyError: 'x'"):
            child.ask("fail")


def test_a_child_that_dies_is_a_failed_run(child: Child) -> None:
    with child:
        child.await_start()
        with pytest.raises(RunFailed, match="ended with 3"):
            child.ask("die")


def test_a_child_that_does_not_answer_is_a_failed_run_and_is_killed(child: Child) -> None:
    with child:
        child.await_start()
        with pytest.raises(RunFailed, match="did not answer within 0 s"):
            child.ask("sleep", limit=0.1)


def test_a_process_that_fails_says_its_last_words() -> None:
    with pytest.raises(RunFailed, match=r"ended with 1:\n(.|\n)*oh no"):
        work([sys.executable, "-c", "raise SystemExit('oh no')"], 30)


def test_a_process_that_is_stuck_is_ended() -> None:
    with pytest.raises(RunFailed, match="not finished"):
        work([sys.executable, "-c", "import time; time.sleep(60)"], 0.1)


def test_a_process_that_reports_nothing_is_a_failed_run() -> None:
    with pytest.raises(RunFailed, match="reported nothing"):
        result_of("hello\n")
    assert result_of('hello\nbench-result {"a": 1}\n') == {"a": 1}
