"""Bad commands. Each row has the command, its outcome, and the code with which it is refused."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from conversations.protocol.command import (
    Begin,
    Cleanup,
    End,
    EndWithError,
    Operation,
    Resend,
    Send,
    SetTimer,
)
from conversations.protocol.envelope import encode, encode_long
from tests.bad_input.support.forging import DAY, HOUR, Forged, Known
from tests.bad_input.wire import BOMB, FAR, MANY, SET_ASIDE

JSON = "application/json"
ORDER = Send("Order", JSON, b'{"n": 1}')
BEGIN = Begin("shop", "Trade")
REFUSED = "command-refused"
_ONE_END = b"\2\4\0"
"""Encoded operations of a command with a single End: a block of one item, the number of its type, and the end of the blocks."""


@dataclass(frozen=True)
class Order:
    """One bad command of a client of ``web``."""

    what: str
    forge: Callable[[Known], Forged]
    reason: str = REFUSED
    code: int = 0
    established: bool = False
    event: str = ""


def _refused(what: str, code: int, *operations: Operation, established: bool = False, **fields: Any) -> Order:
    return Order(what, lambda k: k.command(*operations, **_made(k, fields)), REFUSED, code, established)


def _made(known: Known, fields: dict[str, Any]) -> dict[str, Any]:
    return {name: make(known) if callable(make) else make for name, make in fields.items()}


def _aside(what: str, forge: Callable[[Known], Forged]) -> Order:
    return Order(what, forge, SET_ASIDE, event="SET_ASIDE")


def _ending(known: Known, operations: bytes) -> Forged:
    """Return a command with these bytes as its operations."""
    forged = known.command(End())
    assert forged.value is not None
    assert forged.value.endswith(_ONE_END)
    return replace(forged, value=forged.value[: -len(_ONE_END)] + operations)


def _foreign(known: Known) -> Forged:
    """Return a record whose key is not the key in its command."""
    return replace(known.command(BEGIN, ORDER), key=b"tick-1")


UNREADABLE = [
    _aside("no bytes at all", lambda k: Forged(k.key, b"", None)),
    _aside("a null value", lambda k: Forged(k.key, None, None)),
    _aside("bytes that are not a command", lambda k: Forged(k.key, b"{}", None)),
    _aside("a null key", lambda k: replace(k.command(BEGIN, ORDER), key=None)),
    _aside("an empty key", lambda k: replace(k.command(BEGIN, ORDER, key=""), partition=0)),
    _aside("a record key other than the key in the command", _foreign),
    _aside("a command cut short", lambda k: replace(k.command(BEGIN, ORDER), value=k.command(BEGIN, ORDER).value[:-4])),  # type: ignore[index]  # it has a value
    _aside("an envelope", lambda k: Forged(k.key, encode(k.message()), None)),
    _aside("a forged count of operations", lambda k: _ending(k, encode_long(1 << 40) + b"\4\0")),
    _aside("a forged size of the block with the operations", lambda k: _ending(k, b"\1" + encode_long(FAR) + b"\4\0")),
    _aside("an unknown operation", lambda k: _ending(k, b"\2\x7e\0")),
    _aside("an operation with the type number -1", lambda k: _ending(k, b"\2\1\0")),
    _aside("no operation", lambda k: _ending(k, b"\0")),
    _aside("10,001 timers", lambda k: _ending(k, encode_long(10_001) + b"\x0a\0" * 10_001 + b"\0")),
    _aside("1.49 million ends", lambda k: _ending(k, encode_long(MANY) + b"\4" * MANY + b"\0")),
    _aside("740,000 timers", lambda k: _ending(k, encode_long(MANY // 2) + b"\x0a\0" * (MANY // 2) + b"\0")),
    _aside("700,000 lists of one end each", lambda k: _ending(k, b"\2\4" * 700_000 + b"\0")),
    _aside("a command of 50 MB", lambda k: k.command(BEGIN, Send("Blob", "application/octet-stream", b"x" * BOMB))),
]

MEANT_WRONG = [
    _refused("a contract that the service does not initiate", 8425, Begin("shop", "Nonsense"), ORDER),
    _refused("a command of another service", 8425, Begin("web", "Hiring"), ORDER, issued_by="shop"),
    _refused("a command of another namespace", 8426, ORDER, issued_by="other.web"),
    _refused("an unknown conversation", 8426, ORDER),
    _refused("a target's endpoint that does not exist", 8426, ORDER, from_initiator=False),
    _refused("a begin for the target's endpoint", 50001, BEGIN, ORDER, from_initiator=False),
    _refused("a second begin", 50001, BEGIN, BEGIN),
    _refused("a begin that is not first", 50001, ORDER, BEGIN, established=True),
    _refused("a begin of an existing dialog, with other content", 50003, BEGIN, established=True),
    _refused("a name that is not a valid service name", 8412, Begin("no/such\0service", "Trade"), ORDER),
    _refused("a target key of a megabyte", 8414, Begin("shop", "Trade", 0, "k" * 1_000_000), ORDER),
    _refused("a negative lifetime", 8411, Begin("shop", "Trade", -5), ORDER),
    _refused("a message type that the contract does not have", 8431, Send("Nonsense", JSON, b"{}"), established=True),
    _refused("a message type that only the other side may send", 8432, Send("Receipt", JSON, b"{}"), established=True),
    _refused("a wrong content type", 9615, Send("Order", "x" * 500_000, b"{}"), established=True),
    _refused("a message after the end", 8429, End(), ORDER, established=True),
    _refused("a second end", 8427, End(), End(), established=True),
    _refused("a resend of a dialog that is not broken", 8427, Resend(), established=True),
    _refused("a timer with the largest possible time", 8410, SetTimer(FAR), established=True),
    _refused("a timer whose name has 65 characters", 0, SetTimer(1, "x" * 65), established=True),
    _refused("a timer whose name has a dot", 0, SetTimer(1, "a.b"), established=True),
    _refused("more than 16 timers with names", 0, *(SetTimer(1, f"t{n}") for n in range(17)), established=True),
    _refused("an error with code 0", 8419, EndWithError(0, "why"), established=True),
    _refused("an error with a negative code", 8419, EndWithError(-(1 << 31), "why"), established=True),
    _refused("an error without a description", 8422, EndWithError(5, ""), established=True),
    _refused("a command more than a day old", 50004, ORDER, established=True, issued_at=lambda k: k.now - DAY - HOUR),
    _refused("a command dated more than a day ahead", 50004, ORDER, established=True, issued_at=lambda k: k.now + DAY + HOUR),
    _refused("a command with the largest possible time", 50004, ORDER, established=True, issued_at=FAR),
    _refused("a command with a time far below zero", 50004, ORDER, established=True, issued_at=-FAR),
]  # fmt: skip

CARRIED_OUT = [
    Order("a timer cancelled with a number far below zero", lambda k: k.command(SetTimer(-FAR)), "", established=True),
    Order("the largest possible lifetime", lambda k: k.command(Begin("shop", "Trade", FAR), ORDER), ""),
    Order("a description of a megabyte", lambda k: k.command(EndWithError(5, "x" * 1_000_000)), "", established=True),
    Order("a cleanup of a dialog", lambda k: k.command(Cleanup()), "", established=True),
    Order(
        "a dialog with a service that the catalog does not name",
        lambda k: k.command(Begin("nowhere", "Trade"), ORDER),
        "",
    ),
]

ROWS: list[Order] = [*UNREADABLE, *MEANT_WRONG, *CARRIED_OUT]
