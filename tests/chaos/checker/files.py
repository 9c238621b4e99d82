"""Reads what the run left in ``$CHAOS_RECORDS``: its plan, and the notes of the handlers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

from tests.chaos.checker.fates import fate_of
from tests.chaos.checker.records import HandlerRun, Notes, Plan
from tests.chaos.checker.verdict import Kind, Verdict

PLAN = "plan.json"


class Unreadable(Exception):
    """The directory is not that of a chaos run."""


def read_plan(directory: Path) -> Plan:
    """Read ``plan.json``.

    Raises:
        Unreadable: it is missing or is not a plan.
    """
    try:
        return plan_of(json.loads((directory / PLAN).read_text(encoding="utf-8")))
    except OSError as error:
        raise Unreadable(str(error)) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Unreadable(f"{directory / PLAN} is not a plan: {error!r}") from None


def plan_of(plain: dict[str, Any]) -> Plan:
    """Take a plan from JSON.

    Raises:
        KeyError, TypeError, ValueError: it is none.
    """
    services = plain.get("services", {})
    injected = {
        (str(topic), int(partition), int(offset)): str(kind)
        for kind, fault in plain.get("faults", {}).items()
        for topic, partition, offset in fault.get("where", ())
    }
    return Plan(
        namespace=plain["namespace"],
        initiator=services.get("initiator", "chaos-teller"),
        target=services.get("target", "chaos-ledger"),
        dialogs={_name(dialog): int(count) for dialog, count in plain["dialogs"].items()},
        ends=frozenset(map(_name, plain["ends"])),
        injected=injected,
        fates={_name(dialog): fate_of(fate) for dialog, fate in plain.get("fates", {}).items()},
        divided_by=float(plain.get("divided_by", 1)),
    )


def read_notes(directory: Path, plan: Plan, verdict: Verdict) -> Notes:
    """Read the handlers' notes of every process; a last line that a killed process left unfinished does not count."""
    found: dict[str, list[HandlerRun]] = {}
    for service in (plan.initiator, plan.target):
        for path in sorted(directory.glob(f"{service}-*.jsonl")):
            found[path.name] = list(_runs(path, verdict))
    return found


def _runs(path: Path, verdict: Verdict) -> Iterator[HandlerRun]:
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines[:-1], 1):
        try:
            plain = json.loads(line)
            yield HandlerRun(_name(plain["conversation"]), bool(plain["initiator"]), int(plain["n"]))
        except (ValueError, KeyError, TypeError) as error:
            verdict.add(Kind.NOTE_BROKEN, f"{path.name}:{number}", repr(error))


def _name(conversation: str) -> str:
    return conversation if len(conversation) == 36 else str(UUID(conversation))
