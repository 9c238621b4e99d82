"""Shows what a terminal asked of another service, and what came of it."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any, NamedTuple, NoReturn

import typer

from conversations.bodies import JSON
from conversations.protocol.contract import Contract
from conversations_ops.cli.output import show, show_error
from conversations_ops.console.exit_codes import Exit, code_of
from conversations_ops.operate.requests import Answer, Said, shown
from conversations_ops.printable import counted, lines, one_line


class Asked(NamedTuple):
    """What was asked, for people and for JSON."""

    dialog: str
    service: str
    target: str
    contract: str
    said: Said

    def what(self) -> str:
        """Say what is sent, from whom to whom."""
        size = counted(self.said.size, "byte")
        end = ", and end this side" if self.said.end else ""
        return f"{self.said.declared.name} with {size} from {self.service} to {self.target} under {self.contract}, dialog {self.dialog}{end}"

    def plain(self) -> dict[str, Any]:
        """Return the same for JSON."""
        return {
            "dialog": self.dialog, "service": self.service, "target": self.target, "contract": self.contract,
            "type": self.said.declared.name, "bytes": self.said.size, "key": self.said.key, "end": self.said.end,
        }  # fmt: skip


def goes_on(dialog_id: str) -> str:
    """Say what becomes of a dialog for whose reply nobody waits any more."""
    return f"Kafka has accepted the request, and dialog {dialog_id} goes on: `conversations dialogs show {dialog_id}`"


def fail(asked: Asked, text: str, error: Exception, as_json: bool) -> NoReturn:
    """Show why there is no reply to a request that Kafka has accepted, and exit."""
    _show_failure(asked, text, type(error).__name__, as_json)
    raise typer.Exit(code_of(error)) from error


def _show_failure(asked: Asked, text: str, kind: str, as_json: bool, hint: str = "", **more: Any) -> None:
    """Show why there is no reply. People get the hint, too, and programs the other values."""
    if as_json:
        data = {**asked.plain(), "accepted": True, "done": False, "reply": None, "error": text, "kind": kind, **more}
        show(data, "", as_json=True)
    else:
        show_error(f"{text}{hint}", kind, as_json=False)


def show_answer(asked: Asked, contract: Contract, answer: Answer, ended: bool, as_json: bool) -> None:
    """Show a reply. If there is none, show why, and exit with code 1."""
    reply, error = answer.reply, answer.error
    if reply is None:
        code = None if error is None else error.code
        hint = f". `conversations dialogs show {asked.dialog}`"
        _show_failure(asked, f"no reply: {answer.why}", "NoReply", as_json, hint, code=code)
        raise typer.Exit(Exit.HUMAN)
    body = shown(reply, contract)
    plain = {"type": reply.type, **_plain_body(body, reply.content_type)}
    data = {**asked.plain(), "accepted": True, "done": True, "reply": plain, "ended": ended}
    text = body.decode("utf-8", "backslashreplace") if isinstance(body, bytes) else str(body)
    show(data, f"{one_line(reply.type)}\n{lines(text)}".rstrip(), as_json=as_json)


def _plain_body(body: Any, content_type: str) -> dict[str, Any]:
    if not isinstance(body, bytes):
        return {"body": body}
    if content_type.startswith(JSON):
        try:
            return {"body": json.loads(body)}
        except (ValueError, RecursionError):
            pass
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body": None, "body_base64": b64encode(body).decode()}
