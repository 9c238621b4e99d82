"""Shows one dialog, as text and as JSON: both sides, their numbers, the records that wait, and what ends them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from conversations.protocol import rows
from conversations.protocol.code_table import of_error
from conversations.protocol.codes import LIFETIME
from conversations.protocol.parked import Parked
from conversations.protocol.states import State
from conversations_ops.cli import one_letter
from conversations_ops.console.times import ahead, clock_of, moment
from conversations_ops.operate import failed
from conversations_ops.operate.dialogs import STATES, Pile, Side
from conversations_ops.printable import counted, one_line, side_word
from conversations_ops.read_model.letters import Kept

LETTERS = 5
"""Maximum number of open letters that the text names."""


def word(it: Side) -> str:
    """Return which side it is."""
    return side_word(initiator=it.initiator)


def error(it: Side) -> str:
    """Say with which error the dialog broke; empty if it is not broken."""
    if not it.code:
        return ""
    known = of_error(it.code)
    text = it.description or ("" if known is None else known.text)
    return f"{it.code} {text}".rstrip()


def described(sides: Sequence[Side], letters: Mapping[str, Sequence[Kept]], routes: Mapping[str, str]) -> str:
    """Describe a dialog in lines of text.

    ``letters`` has the open letters of the dialog, by service. ``routes`` has the other cluster of each service that lives on one.
    """
    first = sides[0]
    began = "" if first.began is None else f", begun {moment(first.began)}"
    lines = [f"dialog        {first.name}{began}"]
    for it in sides:
        lines += ["", *map(one_line, _lines(it))]
    if len(sides) == 1:
        lines += ["", one_line(f"other side    {_absent(first.peer, routes)}")]
    open_letters = [it for found in letters.values() for it in found]
    if open_letters:
        names = ", ".join(it.letter for it in open_letters[:LETTERS])
        more = f", and {len(open_letters) - LETTERS} more" if len(open_letters) > LETTERS else ""
        lines += ["", one_line(f"open letters  {names}{more}: conversations dead-letters show")]
    return "\n".join(lines)


def _absent(peer: str, routes: Mapping[str, str]) -> str:
    if not peer:
        return "it is not known"
    if peer in routes:
        return f"{peer} lives on cluster {routes[peer]}: --cluster {routes[peer]} shows it"
    return f"{peer!r} is not in this namespace, or has forgotten it"


def _lines(it: Side) -> list[str]:
    lines = [
        f"{word(it):<13} {it.service}, partition {it.partition}",
        f"state         {STATES[it.state]}",
    ]
    if it.contract:
        lines.append(f"contract      {it.contract}, with {it.peer}")
    lines.append(f"group         {it.key}, {_origin(it)}")
    lines.append(f"sent          {counted(it.sent, 'envelope')}{_acknowledged(it)}")
    handled = "" if it.handled is None else f", {it.handled:,} handled"
    missing = f", missing: {', '.join(map(str, it.missing))}" if it.missing else ""
    lines.append(f"received      {counted(it.accepted, 'envelope')} accepted{handled}{missing}")
    lines += [f"{name:<13} {_pile(pile)}" for name, pile in piles(it) if pile.records]
    for head in it.heads:
        lines.append(f"waits for     {failed.told(head, clock_of(time.time_ns() // 1_000))}")
        lines.append(
            f"              next attempt: {one_letter.when(head)}; conversations dead-letters show {head.letter}"
        )
    if it.before:
        lines.append(f"waits for     the end of dialog {it.before}, which is before it in its pool")
    for name, at in sorted(it.timers.items()):
        lines.append(f"timer         {name and f'{name}, '}{ahead(at, time.time())}")
    if it.closed is None:
        lines.append(f"lifetime      {_lifetime(it)}")
    else:
        told = "the peer knows" if it.closed.told else "the peer was not told, and learns it when it sends more"
        lines.append(f"closed        {told}; forgotten at {moment(it.closed.forget_at)}")
    if it.code:
        lines.append(f"error         {error(it)}")
    if it.discarded or it.dead_lettered:
        lines.append(f"given up      {counted(it.dead_lettered, 'dead letter')}, {it.discarded:,} discarded")
    return lines


def _origin(it: Side) -> str:
    if it.origin == rows.SHARED:
        return "named by initiators"
    return f"chosen by {it.origin or it.service}"


def _acknowledged(it: Side) -> str:
    if it.closed is not None:
        return ""
    return f", {it.acknowledged:,} acknowledged, next number {it.sent}"


def piles(it: Side) -> list[tuple[str, Pile]]:
    """Return the records that wait at a side, by the word for their kind."""
    waits = it.waits
    return [
        ("held", waits.held),
        ("waiting", waits.waiting),
        ("parked", waits.parked),
        ("delayed", waits.delayed),
        ("unacknowledged", waits.unacknowledged),
    ]


def _pile(pile: Pile) -> str:
    more = ", ..." if pile.records > len(pile.first) else ""
    return f"{counted(pile.records, 'record')}, {counted(pile.bytes, 'byte')}: {', '.join(pile.first)}{more}"


def _lifetime(it: Side) -> str:
    if it.lifetime_ends is None:
        return "the dialog is broken already" if it.state is State.ERROR else "unlimited"
    count = it.waits.parked.messages
    letters = (
        f"the {counted(count, 'parked message')} {'becomes a dead letter' if count == 1 else 'become dead letters'}, and "
        if count
        else ""
    )
    broken = "this side is over" if it.state in _OVER_AT_ONCE else f"the dialog is broken with {LIFETIME.number}"
    return f"ends {ahead(it.lifetime_ends, time.time())}: then {letters}{broken}"


_OVER_AT_ONCE = (State.STARTED_INBOUND, State.DISCONNECTED_OUTBOUND)
"""States that the end of the lifetime closes without an error."""


def plain(it: Side) -> dict[str, Any]:
    """Return the fields of a side for JSON."""
    return {
        "conversation": it.name, "service": it.service, "partition": it.partition, "side": word(it), "state": STATES[it.state],
        "contract": it.contract, "peer": it.peer, "group": it.key, "group_origin": it.origin,
        "began": _moment(it.began), "sent": it.sent, "acknowledged": None if it.closed else it.acknowledged,
        "accepted": it.accepted, "handled": it.handled, "missing": list(it.missing),
        **{name: {"records": pile.records, "messages": pile.messages, "bytes": pile.bytes, "first": pile.first} for name, pile in piles(it)},
        "timer": _moment(it.timers.get("")), "timers": {name: moment(at) for name, at in sorted(it.timers.items())}, "deadline": _moment(it.lifetime_ends), "code": it.code, "error": error(it),
        "discarded": it.discarded, "dead_lettered": it.dead_lettered,
        "closed": None if it.closed is None else {"told": it.closed.told, "forget_at": moment(it.closed.forget_at)},
        "waits_for": [_head(head) for head in it.heads], "dialog_before": it.before or None,
    }  # fmt: skip


def _head(head: Parked) -> dict[str, Any]:
    fields = one_letter.plain(head)
    names = (
        "letter",
        "handler",
        "number",
        "what",
        "timer",
        "attempts",
        "since",
        "due",
        "deadline",
        "behind",
        "failure",
        "held",
        "queue_off",
    )
    return {name: fields[name] for name in names}


def _moment(at: int | None) -> str | None:
    return None if at is None else moment(at)
