"""The editor of a person, and what is said when there is none."""

from pathlib import Path

import pytest
import typer

from conversations.protocol.command import Action, Failed
from conversations.protocol.parked import Decision, Parked
from conversations_ops.cli.dead_letters import _check_body, _new_body
from conversations_ops.cli.one_decision import effect
from conversations_ops.console.editor import EditorFailed, edited


def letter(behind: int = 0, content_type: str = "application/json") -> Parked:
    return Parked(
        "orders.queue-0-1", "orders", "d", False, "k", "Orders", "web", Failed.MESSAGE, 3, "Order", b'{"a": 1}', 1, 0, None, behind, 10,
        "KeyError", 1, content_type=content_type,
    )  # fmt: skip


@pytest.fixture(autouse=True)
def no_editor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.delenv("EDITOR", raising=False)


def test_an_editor_with_arguments_changes_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDITOR", "sed -i s/one/two/")
    assert edited('{"text": "one é"}\n', ".json") == '{"text": "two é"}\n'


@pytest.mark.parametrize(
    ("editor", "said"),
    [
        ("nosuch-editor", "cannot be started"),
        ("false", "ended with status 1"),
        ("'", "not a command"),
        ("rm", "cannot be read"),
    ],
)
def test_an_editor_that_does_not_work_names_the_other_way(
    editor: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDITOR", editor)
    with pytest.raises(typer.BadParameter, match=f"{said}.*--body FILE"):
        _new_body(letter(), "")


def test_without_a_terminal_no_editor_is_looked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with Path("/dev/null").open() as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        for path in (str(tmp_path), "/usr/bin:/bin"):
            monkeypatch.setenv("PATH", path)
            with pytest.raises(EditorFailed, match=r"no terminal for an editor|no editor is found"):
                edited("{}", ".json")


def test_only_a_json_body_must_be_json() -> None:
    for good in (b"{}", b'"text"', b"[1]"):
        _check_body(None, letter(), good)
    for bad in (b"", b"{", b"\xff", b"[" * 100_000):
        with pytest.raises(typer.BadParameter, match="the new body is not JSON"):
            _check_body(None, letter(), bad)
        with pytest.raises(typer.BadParameter):
            _check_body(None, letter(content_type="application/json;version=2"), bad)
        _check_body(None, letter(content_type="application/octet-stream"), bad)


AGAIN = "discard {0}, or send {0} again on a new dialog"


@pytest.mark.parametrize(
    ("action", "behind", "will", "done"),
    [
        (Action.SKIP, 0, "skip Order #3 of d; nothing waits behind it", "skipped Order #3 of d; nothing waits behind it"),
        (Action.SKIP, 1, "skip Order #3 of d and release 1 record behind it", "skipped Order #3 of d and released 1 record behind it"),
        (
            Action.END, 0, f"end d with error 500; Order #3 of d becomes an open letter: {AGAIN.format('it')}",
            f"ended d with error 500; Order #3 of d became an open letter: {AGAIN.format('it')}",
        ),
        (
            Action.END, 2, f"end d with error 500; Order #3 of d and 2 records behind it become open letters: {AGAIN.format('them')}",
            f"ended d with error 500; Order #3 of d and 2 records behind it became open letters: {AGAIN.format('them')}",
        ),
        (Action.RETRY, 0, "give Order #3 of d back to its handler; nothing waits behind it", "gave Order #3 of d back to its handler"),
        (
            Action.EDIT, 2, "give Order #3 of d back to its handler with a body of 1 byte; 2 records behind it wait",
            "gave Order #3 of d back to its handler with a body of 1 byte",
        ),
    ],
)  # fmt: skip
def test_a_decision_is_told_before_it_is_made_and_after(action: Action, behind: int, will: str, done: str) -> None:
    decision = Decision(action, "me", "why", b"x", 500)
    assert (effect(letter(behind), decision), effect(letter(behind), decision, done=True)) == (will, done)


def test_a_target_cannot_send_its_letters_again() -> None:
    ended = effect(letter()._replace(initiator=True), Decision(Action.END, "me", "why", b"", 500), done=True)
    assert ended == "ended d with error 500; Order #3 of d became an open letter: discard it"
