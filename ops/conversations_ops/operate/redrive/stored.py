"""The records of a plan in the operators topic: a head with the pace, and parts with the letters."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from conversations.config import Kafka
from conversations.errors import DeclarationError
from conversations_ops.operate.operators_topic import PART, write
from conversations_ops.operate.redrive.plan import Plan, is_name, plain, plan_from


class Head(NamedTuple):
    """The head of a plan."""

    redrive: str
    revision: str
    """Names the parts that belong to the head. A plan that is written again has another one, so that parts are never mixed."""
    parts: int
    letters: int
    made_at: str
    made_by: str


def head_key(redrive: str) -> str:
    """Return the key of the head of a plan."""
    return f"plan/{redrive}"


def part_key(head: Head, number: int) -> str:
    """Return the key of a part of a plan. ``number`` begins at 0."""
    return f"part/{head.redrive}/{head.revision}/{number}"


def records_of(plan: Plan, revision: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the records of a plan. The head is the last one, so that a plan without all of its parts has no head."""
    fields = plain(plan)
    head = Head(plan.redrive, revision, 0, len(plan.letters), plan.made_at, plan.made_by)
    for part in _parts(fields.pop("letters")):
        yield part_key(head, head.parts), {"letters": part}
        head = head._replace(parts=head.parts + 1)
    yield head_key(plan.redrive), {**fields, "revision": revision, "parts": head.parts, "letters": head.letters}


def _parts(letters: Sequence[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    part: list[Mapping[str, Any]] = []
    size = 0
    for it in letters:
        part.append(it)
        size += len(json.dumps(it))
        if size >= PART:
            yield part
            part, size = [], 0
    if part:
        yield part


def store(kafka: Kafka, plan: Plan) -> None:
    """Write a plan into the operators topic, in place of an earlier plan of the same name.

    Raises:
        LogError: the topic is missing, or Kafka refused a record.
    """
    write(kafka, records_of(plan, os.urandom(4).hex()))


def head_in(fields: Mapping[str, Any]) -> Head | None:
    """Return the head that the fields of a record are; None if they are none, because any program may have written the record."""
    with suppress(KeyError):
        head = Head(*(fields[name] for name in Head._fields))
        texts = head.redrive, head.revision, head.made_at, head.made_by
        if (
            all(isinstance(it, str) for it in texts)
            and is_name(head.redrive)
            and type(head.parts) is type(head.letters) is int
        ):
            return head
    return None


def plan_in(fields: Mapping[str, Any], parts: Sequence[Mapping[str, Any]]) -> Plan:
    """Return the plan of a head and its parts.

    Raises:
        DeclarationError: the records are not a plan, or another version of this program wrote them.
    """
    head, known = head_in(fields), {*Plan._fields, "version"}
    letters = [letter for part in parts for letter in part.get("letters", ())]
    if head is None or len(letters) != head.letters:
        raise DeclarationError("a part of the plan is missing: make a new plan")
    return plan_from({**{name: value for name, value in fields.items() if name in known}, "letters": letters})
