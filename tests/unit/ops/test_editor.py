"""The editor of a person, and what is said when there is none."""

from pathlib import Path

import pytest
import typer

from conversations.protocol.command import Action, Failed
from conversations.protocol.parked import Decision, Parked
from conversations_ops.cli.dead_letters import _check_body, _effect, _new_body
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
        _check_body(letter(), good)
    for bad in (b"", b"{", b"\xff", b"[" * 100_000):
        with pytest.raises(typer.BadParameter, match="the new body is not JSON"):
            _check_body(letter(), bad)
        with pytest.raises(typer.BadParameter):
            _check_body(letter(content_type="application/json;version=2"), bad)
        _check_body(letter(content_type="application/octet-stream"), bad)


@pytest.mark.parametrize(
    ("action", "behind", "told"),
    [
        (Action.SKIP, 0, "skip Order #3 of d; nothing waits behind it"),
        (Action.SKIP, 1, "skip Order #3 of d and release 1 record behind it"),
        (Action.END, 0, "end d with error 500; dead letters: Order #3 of d"),
        (Action.END, 2, "end d with error 500; dead letters: Order #3 of d and 2 records behind it"),
        (Action.RETRY, 0, "retry Order #3 of d, nothing waits behind it"),
        (Action.EDIT, 2, "retry Order #3 of d with a body of 1 byte, 2 records behind it"),
    ],
)
def test_the_effect_of_a_decision_is_a_sentence(action: Action, behind: int, told: str) -> None:
    assert _effect(letter(behind), Decision(action, "me", "why", b"x", 500)) == told
