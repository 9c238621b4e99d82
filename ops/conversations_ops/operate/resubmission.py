"""Resubmission: sends the dead-lettered messages of a closed dialog again, on a new dialog."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from conversations.config import Kafka
from conversations.errors import DeclarationError
from conversations.kafka.appending import append
from conversations.kafka.follow import Follower
from conversations.protocol.command import Begin, Command, End, Operation, Report, Send
from conversations.protocol.envelope import Prefix
from conversations.protocol.events import CommandDone, ConversationId, Resubmitting, encode_tool_event
from conversations.protocol.identifiers import RANDOM_BITS, uuid7, uuid_text
from conversations.protocol.sequencing import NONE
from conversations.protocol.topics import events_topic
from conversations_ops.console.times import written
from conversations_ops.operate.commands import Refused, answers
from conversations_ops.operate.events import understood
from conversations_ops.operate.open_letters import OpenLetter, Request, close
from conversations_ops.operate.state import PATIENCE
from conversations_ops.settings.given import periods


class Resubmission(NamedTuple):
    """Dead-lettered messages of one dialog that are sent again on a new dialog."""

    letters: tuple[OpenLetter, ...]
    """The letters, in the order of the message numbers."""
    first: Prefix
    """The fields that all envelopes of the old dialog share."""
    target_key: str

    @property
    def service(self) -> str:
        """The service that begins the new dialog."""
        return self.first.from_service

    def commands(self, conversation: bytes, by: str, *, end: bool, now: int) -> list[Command]:
        """Return the commands that begin the new dialog and send each message. If ``end`` is True, the last command ends the dialog.

        The idempotency key of each send contains the number of the message, so that each message is sent once.
        """
        begin = Begin(self.first.to_service, self.first.contract, 0, self.target_key)
        sends = [
            (f"{it.number}", Send(e.message_type, e.content_type, e.body))
            for it in self.letters
            if (e := it.envelope())
        ]
        steps: list[tuple[str, Operation]] = [("begin", begin), *sends, *([("end", End())] if end else [])]
        return [
            Command(
                os.urandom(16), conversation, True, self.first.reply_key, f"resubmit-{name}", by, now, (operation, Report())
            )
            for name, operation in steps
        ]  # fmt: skip


def resubmission(letters: Sequence[OpenLetter]) -> Resubmission:
    """Check that letters can be sent again on a new dialog, and return the resubmission.

    Raises:
        DeclarationError: a letter is not a message, the letters belong to several dialogs, the target of the dialog sent them, or a key is
            not text.
    """
    ordered = sorted(letters, key=lambda it: it.number)
    envelopes = [envelope for it in ordered if (envelope := it.envelope()) is not None]
    if len(envelopes) != len(ordered) or not envelopes:
        raise DeclarationError(
            "only messages of a dialog can be sent again; a letter that cannot be read can only be discarded"
        )
    first = envelopes[0].prefix
    if not first.from_initiator:
        raise DeclarationError(
            f"{ordered[0].letter} was sent by the target of its dialog, and a target cannot begin a dialog: let the initiator begin a new dialog"
        )
    if len({envelope.prefix.conversation_id for envelope in envelopes}) > 1:
        raise DeclarationError("these letters belong to several dialogs: send one dialog at a time")
    try:
        key = ordered[0].key.decode()
    except UnicodeDecodeError:
        raise DeclarationError(
            f"{ordered[0].letter} has a key that is not text: the letter can only be discarded"
        ) from None
    return Resubmission(tuple(ordered), first, key)


def resubmit(kafka: Kafka, made: Resubmission, request: Request, *, end: bool) -> str:
    """Send the messages again on a new dialog, close their letters, and return the id of the dialog.

    If ``end`` is True, the new dialog ends after the last message. If an earlier resubmission of these letters did not finish, this
    call continues that resubmission, even if another person began it. No message is sent twice.

    Raises:
        DeclarationError: the resubmission began more than half of ``Periods.command_life`` ago. It cannot be continued, because
            an owner does not know any more, after ``command_life``, which commands took effect.
        Refused: an owner refused a message. The letters of the sent messages are closed, and the other letters stay open.
        LogError: Kafka did not accept a command, or an owner did not answer in time. Another call continues the resubmission.
    """
    now = time.time_ns() // 1_000
    conversation = _begun(kafka, made, request, now)
    name = uuid_text(conversation)
    commands = made.commands(conversation, request.by, end=end, now=now)
    done = {
        event.command
        for event in answers(kafka, made.service, commands, request.wait)
        if isinstance(event, CommandDone)
    }
    sent = [
        it for it, command in zip(made.letters, commands[1:], strict=False) if uuid_text(command.command_id) in done
    ]
    close(kafka, sent, f"sent again on {name}", request)
    if len(sent) < len(made.letters):
        raise Refused(
            f"{len(sent)} of {len(made.letters)} messages were sent again on {name}, and their letters are closed"
        )
    return name


def _begun(kafka: Kafka, made: Resubmission, request: Request, now: int) -> bytes:
    """Return the id of the new dialog. Write an event with this id before the first message, so that a second run uses the same id."""
    topic, old = events_topic(kafka.namespace), ConversationId(uuid_text(made.first.conversation_id))
    with Follower(kafka, [topic]) as follower:
        found = understood(follower.to_the_end(PATIENCE))
    before = [event for event in found if isinstance(event, Resubmitting) and event.conversation == old]
    open_still = {it.letter for it in made.letters}
    for event in before:
        if not open_still & set(event.letters):
            continue  # the event is about other letters of the old dialog
        longest = periods().command_life // 2
        if now - event.at > longest:
            raise DeclarationError(
                f"a resubmission on dialog {event.dialog} began more than {written(timedelta(microseconds=longest))} ago, so it cannot be "
                "continued: look at that dialog, and discard the letters that are still open"
            )
        return bytes.fromhex(event.dialog.replace("-", ""))
    conversation = uuid7(now, int.from_bytes(os.urandom(16)) >> (128 - RANDOM_BITS)).bytes
    event = Resubmitting(
        made.service, now, old, ConversationId(uuid_text(conversation)), tuple(it.letter for it in made.letters),
        request.by, request.reason,
    )  # fmt: skip
    append(kafka, topic, [(made.service.encode(), encode_tool_event(event))])
    return conversation


def sequence(letters: Sequence[OpenLetter], of: OpenLetter) -> list[OpenLetter]:
    """Return the letters of messages of the same dialog and direction as ``of``."""
    return [
        it for it in letters
        if (it.service, it.conversation, it.from_initiator) == (of.service, of.conversation, of.from_initiator) and it.number != NONE
    ]  # fmt: skip
