"""Asks the owner of one side of a dialog to end it, with or without an error, to close it without telling the peer, or to carry on with a new dialog."""

from __future__ import annotations

import os
import time
from typing import TypeAlias

from conversations.config import Kafka
from conversations.errors import DialogEnded
from conversations.kafka.appending import append
from conversations.protocol.admission import check_error
from conversations.protocol.code_table import class_of_error
from conversations.protocol.codes import END_REFUSED, ErrorClass
from conversations.protocol.command import TRIGGERS, Cleanup, Command, End, EndWithError, Report, Resend
from conversations.protocol.events import ConversationId, DialogEnding, encode_tool_event
from conversations.protocol.identifiers import uuid_text
from conversations.protocol.states import State, refuse
from conversations.protocol.topics import events_topic
from conversations_ops.operate.commands import ask
from conversations_ops.operate.dialogs import Side
from conversations_ops.operate.open_letters import Request

Ending: TypeAlias = End | EndWithError | Cleanup | Resend
"""What an operator may ask of a side."""
NAMES: dict[type[Ending], str] = {End: "end", EndWithError: "end with error", Cleanup: "cleanup", Resend: "resend"}
"""Names of these requests in events."""


def check(it: Side, ending: Ending) -> None:
    """Check that the state of a side allows a request. The owner checks it again.

    Raises:
        LocalError: the state does not allow the request, or the error has no positive code or no description.
    """
    if isinstance(ending, EndWithError):
        check_error(ending.code, ending.description)
    if isinstance(ending, Resend):
        _check_resend(it)
        return
    refuse(it.state, TRIGGERS[type(ending)])


def _check_resend(it: Side) -> None:
    if not it.initiator:
        why = "this side began as the target, and only an initiator sends again"
    elif it.state is not State.ERROR:
        why = "the dialog is not broken on this side"
    elif class_of_error(it.code) is not ErrorClass.RECOVERABLE:
        why = f"after error {it.code} nothing is sent again (see: conversations codes {it.code})"
    elif it.acknowledged >= it.sent:
        why = f"{it.peer} has acknowledged everything"
    else:
        return
    raise DialogEnded(f"resend is not possible on this dialog: {why} ({END_REFUSED.number})", code=END_REFUSED)


def finish(kafka: Kafka, it: Side, ending: Ending, request: Request) -> str:
    """Ask the owner of a side to end it, and return the id of the command when the owner has committed it.

    An event with the operator and the reason is written first. The letters that the command causes name the operator and this command.

    Raises:
        Refused: the owner refused the command, for example because the dialog has ended meanwhile.
        LogError: Kafka did not accept the event or the command, or the owner did not answer in time.
    """
    command_id, now = os.urandom(16), time.time_ns() // 1_000
    number = uuid_text(command_id)
    code = ending.code if isinstance(ending, EndWithError) else 0
    event = DialogEnding(
        it.service, now, ConversationId(it.name), it.initiator, NAMES[type(ending)], code, request.by, request.reason, number
    )  # fmt: skip
    append(kafka, events_topic(kafka.namespace), [(it.service.encode(), encode_tool_event(event))])
    command = Command(command_id, it.conversation, it.initiator, it.key, "", request.by, now, (ending, Report()))
    ask(kafka, it.service, [command], request.wait)
    return number
