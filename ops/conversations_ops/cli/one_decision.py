"""Says what a decision about a failed message does, and what became of the message."""

from __future__ import annotations

import time

from conversations.config import Kafka
from conversations.protocol.command import Action
from conversations.protocol.parked import Decision, Parked
from conversations_ops.cli import left_letters
from conversations_ops.cli.one_side import sides_of
from conversations_ops.console.times import clock_of
from conversations_ops.operate.failed import told
from conversations_ops.operate.redrive.outcomes import Outcome
from conversations_ops.printable import counted

OUTCOMES = {
    Outcome.HANDLED: "it was handled",
    Outcome.BACK: "it failed again; conversations dead-letters show {letter}",
    Outcome.ENDED: "its dialog ended before it was tried",
    Outcome.CHANGED: "somebody made another decision before it was tried",
    None: "the owner has the decision, but no outcome is known after {wait:g} s. Its handler may be slow or may have asked for a later "
    "attempt, or the queue is off",
}
"""What became of a message that was given back."""


def behind(kafka: Kafka, it: Parked) -> str:
    """Say what is seen of the records that waited behind a message that was handled. They may have their turn later."""
    if not it.behind:
        return ""
    waited = f"; {counted(it.behind, 'record')} waited behind it"
    sides = sides_of(kafka, bytes.fromhex(it.conversation.replace("-", "")), it.service)
    heads = [
        head for side in sides if side.initiator == it.initiator for head in side.heads if head.letter != it.letter
    ]
    if heads:
        now = clock_of(time.time_ns() // 1_000)
        return f"{waited}, and now {told(heads[0], now)}; conversations dead-letters show {heads[0].letter}"
    return f"{waited}, and none of them has failed so far; conversations dialogs show {it.conversation}"


def effect(it: Parked, decision: Decision, *, done: bool = False) -> str:
    """Say what a decision does; with ``done``, what it has done."""
    waiting = f"{counted(it.behind, 'record')} behind it"
    rest = f"{waiting} {'waits' if it.behind == 1 else 'wait'}" if it.behind else "nothing waits behind it"
    what = f"{it.what}{'' if it.number < 0 else f' #{it.number}'} of {it.conversation}"
    body = f" with a body of {counted(len(decision.body), 'byte')}" if decision.action == Action.EDIT else ""
    match decision.action:
        case Action.SKIP:
            released = f" and {'released' if done else 'release'} {waiting}" if it.behind else f"; {rest}"
            return f"{'skipped' if done else 'skip'} {what}{released}"
        case Action.END:
            lost = " and ".join(([what] if it.number >= 0 else []) + ([waiting] if it.behind else []))
            letters = left_letters.become(lost, it.behind + (it.number >= 0), initiator=it.initiator, done=done)
            return f"{'ended' if done else 'end'} {it.conversation} with error {decision.code}{letters}"
        case _:
            return (
                f"gave {what} back to its handler{body}" if done else f"give {what} back to its handler{body}; {rest}"
            )
