"""Sends one message on an existing dialog, as the service of one of its sides."""

from __future__ import annotations

import getpass
import json
import os
import time
from typing import Any, NamedTuple

from conversations.bodies import codec_of
from conversations.config import Kafka, Limits
from conversations.errors import InvalidBody, NotInContract
from conversations.protocol import admission
from conversations.protocol.command import Command, Report, Send
from conversations.protocol.contract import Contract, MessageType
from conversations.protocol.identifiers import uuid_text
from conversations.protocol.states import Trigger, refuse
from conversations.service import Service
from conversations_ops.operate.commands import ask
from conversations_ops.operate.dialogs import Side


class Message(NamedTuple):
    """A message that one side of a dialog is to send."""

    side: Side
    send: Send
    key: str
    """Idempotency key; empty if a repetition takes effect again."""


def message_type(service: Service[Any], it: Side, name: str) -> MessageType:
    """Return the message type that a side may send under the contract of its dialog, while its state allows it.

    Raises:
        DialogEnded: this side has ended, or the dialog is broken.
        NotInContract, WrongDirection: this side may not send a message of this type.
    """
    refuse(it.state, Trigger.SEND)
    return _contract(service, it).outgoing(None, name, it.initiator)


def _contract(service: Service[Any], it: Side) -> Contract:
    declared = service.initiates if it.initiator else service.accepts
    found = declared.get(it.contract)
    if found is None:
        verb = "initiate" if it.initiator else "accept"
        raise NotInContract(f"this release of service {service.name!r} does not {verb} {it.contract!r}")
    return found


def noted(declared: MessageType, data: bytes) -> Send:
    """Return the request to send a body, after a check of the body against its message type.

    ``data`` is JSON for a class or an Avro schema, the bytes of a body of bytes, and empty for a message type without a body.

    Raises:
        InvalidBody: the body does not fit the message type.
        BodyTooLarge: the body is larger than a message may be.
    """
    codec = codec_of(declared)
    encoded = codec.encode(body_of(declared, data))
    limit = Limits().record_body
    if len(encoded) > limit:
        raise admission.body_too_large(len(encoded), limit)
    return Send(declared.name, codec.content_type, encoded)


def body_of(declared: MessageType, data: bytes) -> Any:
    """Return the body of a message type from its JSON or its bytes.

    Raises:
        InvalidBody: it does not fit the message type.
    """
    body = declared.body
    if body is None:
        return data or None
    if isinstance(body, type) and body is not bytes:
        return codec_of(declared).decode(data)
    if body in ("bytes", bytes):
        return data
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InvalidBody(f"{declared.name}: the body is not JSON: {error}") from None


def transmit(kafka: Kafka, message: Message, wait: float) -> str:
    """Ask the owner of a side to send a message, and return the id of the command when the owner has committed it.

    Raises:
        Refused: the owner refused the command, for example because the dialog has ended meanwhile.
        LogError: Kafka did not accept the command, or the owner did not answer in time. The message may still be sent.
    """
    it, command_id, now = message.side, os.urandom(16), time.time_ns() // 1_000
    command = Command(
        command_id, it.conversation, it.initiator, it.key, message.key, getpass.getuser(), now, (message.send, Report())
    )
    ask(kafka, it.service, [command], wait)
    return uuid_text(command_id)
