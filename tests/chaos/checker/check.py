"""The checker's core: a pure function from records to a verdict."""

from __future__ import annotations

from collections.abc import Mapping

from tests.chaos.checker.commands import Begun, Commands
from tests.chaos.checker.copies import Message, check_copy
from tests.chaos.checker.dialogs import Dialog
from tests.chaos.checker.endpoints import Endpoint
from tests.chaos.checker.envelopes import Envelopes
from tests.chaos.checker.letters import Letters
from tests.chaos.checker.notes import check_notes
from tests.chaos.checker.records import Log, Notes, Plan
from tests.chaos.checker.rows import Rows
from tests.chaos.checker.topics import Topics
from tests.chaos.checker.verdict import Kind, Verdict


def check(
    log: Log,
    plan: Plan,
    notes: Notes,
    verdict: Verdict | None = None,
    copies: Mapping[str, list[Message]] | None = None,
) -> Verdict:
    """Decide whether anything was lost, handled twice or out of order, or whether state disagrees with the messages.

    Args:
        log: all committed records of the namespace, read when the services were at rest.
        plan: what was meant to happen.
        notes: what the handlers noted.
        verdict: to be added to; a new one without it.
        copies: what readers made of the queues, by the readers' names.
    """
    verdict = verdict or Verdict()
    topics = Topics(log, plan)
    letters = Letters(topics, verdict)
    commands = Commands(topics, letters, verdict)
    envelopes = Envelopes(topics, letters, commands, verdict)
    rows = Rows(topics, verdict)
    dialogs = {name: Dialog(name, begun, envelopes, letters, rows) for name, begun in commands.begun.items()}
    _check_known(plan, commands.begun, envelopes, rows, verdict)
    for dialog in dialogs.values():
        dialog.check(plan, verdict)
        for initiator in (True, False):
            Endpoint(dialog, initiator).check(verdict)
    letters.check()
    letters.check_open(rows.letters)
    rows.check_partitions(commands)
    runs = check_notes(notes, dialogs, verdict)
    for place, stable in log.stable.items():
        if stable < log.ends[place]:
            verdict.add(Kind.OPEN_TRANSACTION, str(place), f"open since offset {stable}, the end is {log.ends[place]}")
    _count(verdict, commands, envelopes, letters, rows, runs)
    for what, there in (copies or {}).items():
        check_copy(what, there, envelopes, verdict)
    return verdict


def _check_known(plan: Plan, begun: dict[str, Begun], envelopes: Envelopes, rows: Rows, verdict: Verdict) -> None:
    """Every dialog of the plan was begun, and nobody speaks or remembers in another one."""
    for name in sorted(plan.dialogs.keys() - begun.keys()):
        verdict.add(Kind.COMMAND_LOST, name, "no command begins it")
    sides = {*envelopes.wires, *rows.endpoints, *rows.tombstones, *rows.groups}
    for name in sorted({name for name, _ in sides} - begun.keys()):
        verdict.add(Kind.UNPLANNED_DIALOG, name, "there are records or rows of it, and no command begins it")


def _count(verdict: Verdict, commands: Commands, envelopes: Envelopes, letters: Letters, rows: Rows, runs: int) -> None:
    accounts = verdict.account.values()
    handled = sum(len(account.handled) for account in accounts)
    verdict.figures |= {
        "messages": sum(account.sent for account in accounts),
        "dialogs": len(commands.begun),
        "handled": handled,
        "dialogs over": len({name for name, _ in rows.tombstones}),
        "dead letters": letters.count(set_aside=False),
        "set aside": letters.count(set_aside=True),
        "duplicates dropped": envelopes.duplicates,
        "commands repeated": commands.repeated,
        "runs undone": runs - handled,
    }
