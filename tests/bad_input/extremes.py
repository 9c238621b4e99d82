"""Well-formed records and commands with extreme fields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any, get_args

from conversations.protocol.command import (
    Action,
    Begin,
    Cleanup,
    Command,
    End,
    EndWithError,
    Failed,
    Operation,
    Piece,
    Report,
    Resend,
    Resolve,
    Reuse,
    Send,
    SetTimer,
    Settle,
    Source,
    Switch,
    Tick,
    encode_command,
    to_partition,
)
from conversations.protocol.envelope import Envelope, Kind, Prefix
from conversations.protocol.topics import COMMANDS, QUEUE, partition_of
from tests.bad_input.support.forging import DAY, HOUR, Forged, Known, draw, stranger
from tests.bad_input.support.services import PARTITIONS

JSON, BYTES = "application/json", "application/octet-stream"
LONGEST, INT = (1 << 63) - 1, (1 << 31) - 1
EDGES = sorted({
    sign * (1 << power) + more for power in (0, 1, 7, 15, 31, 32, 53, 62, 63) for sign in (1, -1) for more in (-1, 0, 1)
    if -LONGEST - 1 <= sign * (1 << power) + more <= LONGEST
})  # fmt: skip
SPANS = (0, 1, -1, 1_000, 1_000_000, 60_000_000, HOUR, DAY, 90 * DAY, 36_500 * DAY)
NAMES = (
    "", "shop", "web", "nobody", "x" * 128, "x" * 129, ".", "..", "a.b", "a/../b", "line\nfeed", "nul\0", "\x1b[2J", "\u202e", "é" * 300,
    "Trade", "Gossip", "Order", "Receipt", "Blob", "Ping", "Ledger", "tick-0", "k" * 1_000, "k" * 1_001, "u" * 20_000,
)  # fmt: skip
BODIES = (
    b"", b"{}", b"[", b'{"n": 1}', b'{"n": 3}', b'{"n": 4}', b'{"n": 7}', b'{"n": -9223372036854775809}', b'{"n": 1e400}', b"\0" * 3_000,
    b"9" * 5_000, b"\xff\xfe", b'{"n": 2, "note": "a bug"}', b'{"n": 2, "note": "\\ud800"}', b"\2t\0\2\2u\0\0",
)  # fmt: skip
UNREADABLE = [("\udcff\udcfe", b"x")]
"""Headers with a name that is not UTF-8, in the form that the log in memory uses."""


class Extremes:
    """Draws records for two services and the dialogs between them; the same seed draws the same records."""

    def __init__(self, random: Random, now: Callable[[], int]) -> None:
        self.random, self._now = random, now
        self.dialogs: list[Known] = []
        """Dialogs that a worker knows, or knew before they ended."""
        self.strangers = [stranger(now(), random, random.randrange(PARTITIONS)) for _ in range(4)]
        self._makers: dict[type, Callable[[], Operation]] = {
            Begin: lambda: Begin(self.name("shop"), self.name("Trade"), self.long(), self.name("")),
            Send: lambda: Send(self.name("Order"), self.pick(JSON, BYTES, self.name("")), self.body()),
            End: End,
            EndWithError: lambda: EndWithError(self.int(), self.name("why")),
            Cleanup: Cleanup,
            SetTimer: lambda: SetTimer(self.long(), self.pick("", "soon", "later", "x" * 65)),
            Tick: Tick,
            Resolve: lambda: Resolve(
                self.pick(*Failed).value, self.pick(-1, 0, 1, 2, self.long()), self.pick(0, self.long()),
                self.pick(*Action).value, self.body(), self.int(), self.name("why"), self.name("because"),
            ),
            Switch: lambda: Switch(self.random.random() < 0.8, self.name("because")),
            Settle: lambda: Settle(
                tuple(Source(self.pick("QUEUE", "COMMANDS"), self.pick(0, 1, self.long())) for _ in range(self.pick(0, 1, 1, 3))),
                self.name("done"), self.name("because"),
            ),
            Report: Report,
            Resend: Resend,
            Piece: lambda: Piece(self.pick(0, 1, self.int()), self.pick(1, 2, self.int()), self.body()),
            Reuse: lambda: Reuse(self.name("shop"), self.name("Trade"), self.long(), self.pick(0, 1, self.long()), self.name("")),
        }  # fmt: skip
        assert self._makers.keys() == set(get_args(Operation)), "an operation has no maker here"

    # -- fields --------------------------------------------------------------------------------------------------------

    def pick(self, *of: Any) -> Any:
        """Draw one of these values."""
        return self.random.choice(of)

    def long(self) -> int:
        """Draw a number of 64 bits: an extreme number, a time near the present, or any number."""
        drawn = self.random.random()
        if drawn < 0.5:
            return EDGES[self.random.randrange(len(EDGES))]
        if drawn < 0.8:
            near = self._now() + self.random.choice((1, -1)) * self.random.choice(SPANS)
            return max(-LONGEST - 1, min(near, LONGEST))
        return self.random.randrange(-LONGEST - 1, LONGEST + 1)

    def int(self) -> int:
        """Draw a number of 32 bits."""
        return max(-INT - 1, min(self.long(), INT))

    def name(self, usual: str) -> str:
        """Draw the usual text, or one of ``NAMES``."""
        return usual if self.random.random() < 0.6 else self.random.choice(NAMES)

    def body(self) -> bytes:
        """Draw a body of one of the message types, or an invalid body."""
        return self.random.choice(BODIES)

    def known(self) -> Known:
        """Draw a dialog. Usually a worker knows the dialog; sometimes no worker does."""
        if self.dialogs and self.random.random() < 0.8:
            return self.random.choice(self.dialogs)
        return self.random.choice(self.strangers)

    # -- records ---------------------------------------------------------------------------------------------------------

    def record(self) -> tuple[str, str, Forged]:
        """Draw a record; return its service, the kind of its topic, and the record."""
        if self.random.random() < 0.5:
            return self._queue_record()
        service = self.pick("web", "web", "shop")
        if self.random.random() < 0.3:
            return service, COMMANDS, self._disturbed(self._to_partition())
        return service, COMMANDS, self._disturbed(self._command())

    def _queue_record(self) -> tuple[str, str, Forged]:
        known, to_shop = self.known(), self.random.random() < 0.7
        prefix = known.prefix if to_shop else _answering(known.prefix)
        for field in self.random.sample(list(_PREFIX), self.pick(0, 0, 0, 1, 1, 2)):
            prefix = replace(prefix, **{field: _PREFIX[field](self, getattr(prefix, field))})
        number = (
            self.pick(known.next, known.next, known.next + 1, known.next + 2, self.long())
            if to_shop
            else self.pick(0, 1, self.long())
        )
        kind = self.pick(Kind.MESSAGE, *Kind)
        envelope = Envelope(
            prefix, kind, self.pick(number, number, -1), self.pick(-1, -1, 0, 1, self.long()), self.pick(-1, -1, self.long()),
            self.pick((), (), (self.long(),), tuple(self.random.choices(EDGES, k=120))), self.pick(known.now, self.long()),
            self.name("Order" if to_shop else "Receipt"), self.pick(0, 0, self.int()), self.name(""), self.pick(0, self.int()),
            self.pick(1, 1, 1, self.int()), self.pick(JSON, JSON, BYTES, self.name("")), self.body(), None,
        )  # fmt: skip
        if to_shop and kind is Kind.MESSAGE and number == known.next and self.random.random() < 0.5:
            known.next += 1
        return "shop" if to_shop else "web", QUEUE, self._disturbed(known.record(envelope))

    def _command(self) -> Forged:
        known = self.known()
        operations = [self.random.choice(list(self._makers.values()))() for _ in range(self.pick(1, 1, 1, 2, 3, 5))]
        fields: dict[str, Any] = {}
        for field in self.random.sample(list(_COMMAND), self.pick(0, 0, 1, 2)):
            fields[field] = _COMMAND[field](self)
        made = known.command(*operations, **fields)
        return made if self.random.random() < 0.8 else replace(made, partition=self.random.randrange(PARTITIONS))

    def _to_partition(self) -> Forged:
        where = self.random.randrange(PARTITIONS), PARTITIONS
        operation: Any = self.random.choice([*self._makers.values(), self._makers[Settle], self._makers[Switch]])()
        command: Command = to_partition(where, operation, self.name("operator"), self.random.randbytes(16), self._now())
        return Forged(command.key.encode(), encode_command(command), None, where[0])

    def _disturbed(self, record: Forged) -> Forged:
        """Return the record, mostly unchanged; sometimes with another key, with other headers, or in another partition."""
        drawn = self.random.random()
        if drawn < 0.04:
            return replace(record, key=self.pick(None, b"", b"\xff", b"k" * 1_001, self.name("").encode()))
        if drawn < 0.08:
            return replace(record, headers=self.pick(
                None, [], [("dialog", b"")], UNREADABLE, UNREADABLE + (record.headers or []), (record.headers or []) + UNREADABLE,
                [("", b"")], [("x" * 5_000, b"y" * 20_000)], [("many", b"y")] * 500,
            ))  # fmt: skip
        if drawn < 0.1:
            return replace(record, partition=self.random.randrange(PARTITIONS))
        return record

    def healthy(self) -> Known:
        """Return a new dialog that only its client uses, in a partition that also gets the extreme records."""
        conversation = draw(self._now(), self.random)
        key = str(conversation)
        prefix = Prefix(
            conversation.bytes, True, "Trade", "web", "shop", key, False, self._now() + HOUR, self._now() + DAY
        )
        assert partition_of(key.encode(), PARTITIONS) == 0
        return Known(prefix, self._now())


def _answering(prefix: Prefix) -> Prefix:
    """Return the prefix of the shop's records in a dialog."""
    return replace(prefix, from_initiator=False, from_service="shop", to_service="web")


_PREFIX: dict[str, Callable[[Extremes, Any], Any]] = {
    "from_initiator": lambda _, was: not was,
    "contract": lambda it, was: it.name(was),
    "from_service": lambda it, was: it.name(was),
    "to_service": lambda it, was: it.name(was),
    "reply_key": lambda it, was: it.name(was),
    "resends": lambda _, was: not was,
    "accept_until": lambda it, _: it.long(),
    "expires_at": lambda it, _: it.long(),
}
_COMMAND: dict[str, Callable[[Extremes], Any]] = {
    "from_initiator": lambda it: False,
    "key": lambda it: it.name("key"),
    "idempotency_key": lambda it: it.name("once"),
    "issued_by": lambda it: it.name("web"),
    "issued_at": lambda it: it.long(),
    "conversation_id": lambda it: it.pick(bytes(16), b"\xff" * 16, it.random.randbytes(16)),
}
