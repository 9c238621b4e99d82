"""A redrive plan: the letters that matched at one moment, and the pace."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, NamedTuple, get_origin, get_type_hints

from conversations.errors import DeclarationError
from conversations.protocol.parked import Parked
from conversations_ops.console.times import moment
from conversations_ops.operate.redrive.selection import Selector

VERSION = 1
NO_PLAN = "this is no redrive plan"
_NAME = re.compile(r"rd-[0-9a-f]{1,16}")


def is_name(text: str) -> bool:
    """Return True if a text is the name of a redrive, for example "rd-1f3a9c20"."""
    return _NAME.fullmatch(text) is not None


class PlannedLetter(NamedTuple):
    """One failed message as it was when the plan was made. If the message changes before the redrive reaches it, it is not given back."""

    letter: str
    service: str
    ticket: int
    failure: str
    behind: int


class Care(NamedTuple):
    """The pace of a plan."""

    canary: int = 3
    """Number of letters to try first, one by one. If one of these letters fails, the redrive ends."""
    rate: float = 20.0
    """Letters per second after the canary letters."""
    max_returns: int = 3
    """Letters that were given back this many times or more are left out of the plan."""


class Plan(NamedTuple):
    """The letters of a redrive, and its pace."""

    redrive: str
    """Name of the redrive, e.g. "rd-1f3a9c20"."""
    namespace: str
    made_at: str
    made_by: str
    selector: Selector
    care: Care
    letters: tuple[PlannedLetter, ...]
    """The letters, the longest parked first."""
    left_out: int = 0
    """Number of letters that are left out, because they were given back too often."""

    @property
    def behind(self) -> int:
        """Number of records behind the letters."""
        return sum(it.behind for it in self.letters)


def freeze(waiting: Iterable[Parked], selector: Selector, care: Care) -> tuple[tuple[PlannedLetter, ...], int]:
    """Choose held letters. Return the chosen letters, and the number of letters that were given back too often."""
    held = sorted((it for it in waiting if it.held and selector.matches(it)), key=lambda it: (it.since, it.letter))
    chosen = [it for it in held if it.returns < care.max_returns]
    letters = tuple(PlannedLetter(it.letter, it.service, it.ticket, it.failure, it.behind) for it in chosen)
    return letters, len(held) - len(chosen)


def plan_of(
    waiting: Iterable[Parked], selector: Selector, care: Care, namespace: str, *, by: str, now: int, random: bytes
) -> Plan:
    """Make a plan. ``now`` is in microseconds since 1970; 4 random bytes give the name."""
    letters, left_out = freeze(waiting, selector, care)
    return Plan(f"rd-{random.hex()}", namespace, moment(now), by, selector, care, letters, left_out)


def to_json(plan: Plan) -> str:
    """Write a plan as JSON."""
    return json.dumps(plain(plan), indent=2) + "\n"


def plain(plan: Plan) -> dict[str, Any]:
    """Return a plan as values of JSON."""
    return {
        "version": VERSION, **plan._asdict(), "selector": plan.selector._asdict(), "care": plan.care._asdict(),
        "letters": [it._asdict() for it in plan.letters],
    }  # fmt: skip


def _check(plan: Plan) -> None:
    """Raise an error for values that are not valid, because an operator may have edited the file."""
    care = plan.care
    parts: tuple[Plan | Selector | Care | PlannedLetter, ...] = (plan, plan.selector, care, *plan.letters)
    for part in parts:
        _check_types(part)
    if not _NAME.fullmatch(plan.redrive):
        raise ValueError(f"redrive is not a valid name: {plan.redrive!r}")
    if not 0 < care.rate < float("inf") or care.canary < 0 or care.max_returns < 1:
        raise ValueError(f"care has a value out of range: {care}")


def _check_types(part: Plan | Selector | Care | PlannedLetter) -> None:
    """Raise an error for a field of the wrong type, because a redrive with this field could fail half-way."""
    for name, declared in get_type_hints(type(part)).items():
        value, fits = getattr(part, name), get_origin(declared) or declared
        # In JSON, the rate may be the integer 20. The value ``true`` is refused, although bool is a subclass of int in Python.
        if type(value) is not fits and not (fits is float and type(value) is int):
            raise ValueError(f"{name} has the wrong type: {value!r:.80}")


def from_json(text: str) -> Plan:
    """Read a plan.

    Raises:
        DeclarationError: the text is not a plan, or another version of this program wrote it.
    """
    try:
        return plan_from(json.loads(text))
    except json.JSONDecodeError as error:
        raise DeclarationError(f"{NO_PLAN}: it is not JSON: {error}") from error
    except RecursionError:
        raise DeclarationError(f"{NO_PLAN}: it is nested too deeply") from None


def plan_from(fields: Any) -> Plan:
    """Return a plan of the values of ``plain``. The values are changed.

    Raises:
        DeclarationError: the values are not a plan, or another version of this program wrote them.
    """
    try:
        if isinstance(fields, dict) and fields.get("version", VERSION) != VERSION:
            raise DeclarationError("another version of this program made the plan: make a new plan with this version")
        _check_names("the file", Plan, fields, "version")
        del fields["version"]
        if not isinstance(fields["letters"], list):
            raise TypeError("letters is no list")
        for name, part in (("selector", Selector), ("care", Care)):
            _check_names(name, part, fields[name])
        for number, letter in enumerate(fields["letters"], 1):
            _check_names(f"letter {number}", PlannedLetter, letter)
        letters = tuple(PlannedLetter(**it) for it in fields.pop("letters"))
        plan = Plan(
            selector=Selector(**fields.pop("selector")), care=Care(**fields.pop("care")), letters=letters, **fields
        )
        _check(plan)
        return plan
    except (ValueError, TypeError) as error:
        raise DeclarationError(f"{NO_PLAN}: {error!s:.500}") from error


def _check_names(what: str, kind: type[Plan | Selector | Care | PlannedLetter], found: object, *more: str) -> None:
    """Raise an error if a part of a plan is no JSON object, lacks a field, or has a field that this version does not know.

    ``more`` are fields that the part has in the file only.
    """
    if not isinstance(found, dict):
        raise TypeError(f"{what} is no JSON object")
    required = [*more, *(name for name in kind._fields if name not in kind._field_defaults)]
    if missing := [name for name in required if name not in found]:
        raise ValueError(f"{what} lacks the field {', '.join(map(repr, missing))}")
    if unknown := [name for name in found if name not in (*more, *kind._fields)]:
        raise ValueError(f"{what} has the unknown field {', '.join(map(repr, unknown))}")
