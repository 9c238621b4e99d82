"""Bad records of a queue. Each row has the record, its outcome, the place where its bytes are kept, and the code that the sender gets."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from conversations.protocol.command import Tick
from conversations.protocol.envelope import (
    Extras,
    FenceOutcome,
    Kind,
    Origin,
    Seal,
    encode,
    encode_long,
)
from tests.bad_input.support.forging import DAY, HOUR, Forged, Known, forged_length

FAR = (1 << 63) - 1
BOMB = 50_000_000
LEDGER = "Ledger"
SET_ASIDE = "set-aside"


@dataclass(frozen=True)
class Wire:
    """One bad record of the shop's queue."""

    what: str
    forge: Callable[[Known], Forged]
    reason: str = SET_ASIDE
    """Reason of the dead letter that has its bytes; "" if the record is accepted, so that no letter is needed."""
    code: int = 0
    """Code of the ERROR that the peer gets; 0 if it gets no ERROR."""
    established: bool = False
    """True if the record is sent to an established dialog, False if its conversation is unknown."""
    goes_on: bool = True
    """True if the record does not change the dialog that it is sent to."""
    event: str = "SET_ASIDE"
    """Name of the event that is published; "" if there is no event."""


def _of(what: str, forge: Callable[[Known], Forged], **fields: Any) -> Wire:
    return Wire(what, forge, **fields)


def _both(what: str, forge: Callable[[Known], Forged]) -> list[Wire]:
    """Return two rows: the record is set aside for an unknown conversation, and for an established dialog."""
    return [Wire(what, forge), Wire(f"{what}, in a dialog under way", forge, established=True)]


def _breach(what: str, forge: Callable[[Known], Forged], code: int) -> list[Wire]:
    rest: dict[str, Any] = {"reason": "breach", "code": code, "goes_on": False, "event": ""}
    return [Wire(what, forge, **rest), Wire(f"{what}, in a dialog under way", forge, established=True, **rest)]


def _value(known: Known) -> bytes:
    return encode(known.message())


NOT_AVRO = [
    *_both("no bytes at all", lambda k: k.raw(b"")),
    *_both("a null value", lambda k: k.raw(None)),
    *_both("bytes that are not an envelope", lambda k: k.raw(b"\x00\x01 what? \xff" * 9)),
    *_both("a wrong marker", lambda k: k.raw(b"\xc3\x02" + _value(k)[2:])),
    *_both("an unknown schema fingerprint", lambda k: k.raw(b"\xc3\x01" + b"\x07" * 8 + _value(k)[10:])),
    _of("a command record on the queue", lambda k: k.raw(k.command(Tick()).value)),
    *_both("a record cut short", lambda k: k.raw(_value(k)[:-9])),
    *_both("extra bytes after the record", lambda k: k.raw(_value(k) + b"\0")),
    *_both("a text with a forged length", lambda k: k.raw(forged_length(_value(k), 27))),
    *_both("a body with a forged length", lambda k: k.raw(forged_length(_value(k), len(_value(k)) - 10))),
    *_both("a list with a forged count", lambda k: k.raw(forged_length(_value(k), len(k.start()) + 4))),
    *_both("a kind that does not exist", lambda k: k.raw(_swapped(_value(k), len(k.start()), b"\x0e"))),
]


def _swapped(value: bytes, at: int, byte: bytes) -> bytes:
    return value[:at] + byte + value[at + 1 :]


ROUTED_WRONG = [
    *_both("a null key", lambda k: k.record(k.message(), key=None)),
    *_both("an empty key", lambda k: k.record(k.message(), key=b"")),
    *_both("a key other than the endpoint's key", lambda k: k.record(k.message(), key=b"tick-1")),
    _of("a key that is not text", lambda k: k.record(k.message(), key=_keyed(b"\xff\xfe"))),
    *_both("a key of a megabyte", lambda k: k.record(k.message(), key=_keyed(b"k" * 1_000_000))),
    _of("a record in the wrong partition", lambda k: k.record(k.message(), partition=1)),
    *_both("an envelope for another service", lambda k: k.record(k.prefixed(to_service="web"))),
    _of("a sender whose name is not a valid service name", lambda k: k.record(k.prefixed(from_service="a\0b"))),
    _of("a contract name of a megabyte", lambda k: k.record(k.prefixed(contract="c" * 1_000_000))),
    _of("a reply key of a megabyte", lambda k: k.record(k.prefixed(reply_key="r" * 1_000_000))),
    _of("an empty reply key", lambda k: k.record(k.prefixed(reply_key=""))),
    _of(
        "a contract other than the dialog's contract",
        lambda k: k.record(k.prefixed(contract="Gossip")),
        established=True,
    ),
    _of(
        "a sender other than the dialog's peer", lambda k: k.record(k.prefixed(from_service="thief")), established=True
    ),
    _of(
        "a reply key other than the dialog's reply key",
        lambda k: k.record(k.prefixed(reply_key="mine")),
        established=True,
    ),
]


def _keyed(start: bytes) -> bytes:
    from conversations.protocol.topics import partition_of
    from tests.bad_input.support.services import PARTITIONS

    return next(k for i in range(1_000) if partition_of(k := start + b"%d" % i, PARTITIONS) == 0)


def _fenced(accepted: int) -> Extras:
    """Return the answer to a FENCE."""
    return Extras(fence=FenceOutcome(accepted, 0, "CLOSED", False))


NUMBERS = [
    *_both("a message with a negative number", lambda k: k.record(k.message(seq=-5))),
    *_both("a message without a number", lambda k: k.record(k.message(seq=-1))),
    *_both("an end without a number", lambda k: k.record(k.said(Kind.END))),
    *_both("an acknowledgement with a number", lambda k: k.record(k.said(Kind.ACK, seq=3))),
    *_both("a message with a list of skipped numbers", lambda k: k.record(k.message(skipped=(-1, 0, FAR)))),
    *_both("fragment 2 of 2, of which the last is 1", lambda k: k.record(k.message(fragment=2, fragments=2))),
    *_both("a fragment of a message of 8,193 fragments", lambda k: k.record(k.message(fragment=0, fragments=8_193))),
    *_both("an END in fragments", lambda k: k.record(k.said(Kind.END, seq=k.next, fragment=0, fragments=2))),
    *_both("a negative count of fragments", lambda k: k.record(k.message(fragment=-3, fragments=-1))),
    *(
        Wire(
            f"a message with a seal, and no keys for its sender{where}",
            lambda k: k.record(k.message(extras=Extras(seal=Seal("key", b"n", b"t")))),
            "",
            established=established,
            event="MESSAGE_NOT_AUTHENTIC",
        )
        for where, established in [("", False), (", in a dialog under way", True)]
    ),
    *_both("an error with code 0", lambda k: k.record(k.said(Kind.ERROR, description="nothing"))),
    *_both("an error with number -7", lambda k: k.record(k.said(Kind.ERROR, seq=-7, code=7, description="x"))),
    *_both(
        "a message that names a first dialog, but no generation",
        lambda k: k.record(k.message(extras=Extras(origin=Origin(b"\7" * 16, 0, 9)))),
    ),
    *_both(
        "a message that had a smaller number on its first dialog",
        lambda k: k.record(k.message(seq=5, extras=Extras(origin=Origin(b"\7" * 16, 1, 4)))),
    ),
    *_both("a message with the answer to a FENCE", lambda k: k.record(k.message(extras=_fenced(0)))),
    *_both("a FENCE without a code", lambda k: k.record(k.said(Kind.FENCE))),
    *_both("a FENCE with a number", lambda k: k.record(k.said(Kind.FENCE, seq=0, code=-8489))),
    *_both("a FENCE with an answer", lambda k: k.record(k.said(Kind.FENCE, code=-8489, extras=_fenced(0)))),
    *_both("a FENCED of an initiator", lambda k: k.record(k.said(Kind.FENCED, extras=_fenced(0)))),
    _of(
        "a first message that may begin its dialog for more than a day",
        lambda k: k.record(k.prefixed(accept_until=k.now + 2 * DAY)),
    ),
    _of("a first message that may begin its dialog for ever", lambda k: k.record(k.prefixed(accept_until=FAR))),
]
# The worker trusts the sender's name in a record. So a number far ahead counts as the peer's own number, and the dialog breaks.
NUMBERS += [
    Wire(
        f"a message numbered {name}{where}",
        forge,
        "held-at-end",
        -8462,
        established=established,
        goes_on=False,
        event="",
    )
    for name, forge in [
        ("2^63-1", lambda k: k.record(k.message(seq=FAR))),
        ("a million ahead of the next number", lambda k: k.record(k.message(seq=k.next + 1_000_000))),
    ]
    for where, established in [("", False), (", in a dialog under way", True)]
]

BELIEVED = [
    Wire(
        f"a message that acknowledges {name}", forge, "", event="", goes_on=False
    )
    for name, forge in [
        ("a number that was never sent", lambda k: k.record(k.message(ack=FAR))),
        ("a number far below zero", lambda k: k.record(k.message(ack=-FAR - 1))),
    ]
] + [
    Wire("a message with the largest possible sending time", lambda k: k.record(k.message(sent_at=FAR)), "", event="", goes_on=False),
    Wire("a message with a sending time far below zero", lambda k: k.record(k.message(sent_at=-FAR)), "", event="", goes_on=False),
    Wire("a dialog with the largest possible expiry time", lambda k: k.record(k.prefixed(expires_at=FAR)), "", event="", goes_on=False),
    Wire(
        "an error numbered 2^63-1", lambda k: k.record(k.said(Kind.ERROR, seq=FAR, code=5, description="far")), "",
        established=True, goes_on=False, event="",
    ),
    Wire(
        "an error with a description of a megabyte",
        lambda k: k.record(k.said(Kind.ERROR, code=-8462, description="x" * 1_000_000)), "",
        established=True, goes_on=False, event="",
    ),
    Wire(
        "an acknowledgement of a number that was never sent", lambda k: k.record(k.said(Kind.ACK, ack=FAR)), "",
        established=True, event="",
    ),
    Wire(
        "a RESEND for messages that are not kept", lambda k: k.record(k.said(Kind.RESEND, ack=0)), "", -8462,
        established=True, goes_on=False, event="",
    ),
]  # fmt: skip

UNKNOWN = [
    Wire(
        "a contract that is not accepted", lambda k: k.record(k.prefixed(contract="Gossip")), "refused", -8408, event=""
    ),
    Wire(
        "a first message that arrives too late to begin its dialog", lambda k: k.record(k.prefixed(accept_until=k.now - HOUR)), "refused", -8462,
        event="",
    ),
    Wire(
        "a first message whose dialog's lifetime is over", lambda k: k.record(k.prefixed(expires_at=k.now - HOUR)), "refused", -8489,
        event="",
    ),
    Wire(
        "a message of the target in a conversation that never began", lambda k: k.record(k.prefixed(from_initiator=False)), "refused",
        -8462, event="",
    ),
    Wire(
        "a message of a sender that the catalog does not name", lambda k: k.record(k.prefixed(from_service="nobody")),
    ),
    Wire(
        "an error of a sender that the catalog does not name",
        lambda k: k.record(
            k.said(Kind.ERROR, seq=1, code=5, description="early", prefix=replace(k.prefix, from_service="nobody"))
        ),
    ),
    Wire("an acknowledgement in an unknown conversation", lambda k: k.record(k.said(Kind.ACK))),
    Wire("a RESEND in an unknown conversation", lambda k: k.record(k.said(Kind.RESEND))),
    Wire(
        "an error of the target in a conversation that never began",
        lambda k: k.record(_answer(k, k.said(Kind.ERROR, code=-8462, description="gone"))),
    ),
    Wire(
        "an error before the first message", lambda k: k.record(k.said(Kind.ERROR, seq=1, code=5, description="early")), "",
        event="",
    ),
]  # fmt: skip


def _answer(known: Known, envelope: Any) -> Any:
    from dataclasses import replace

    return replace(envelope, prefix=replace(known.prefix, from_initiator=False))


def _deep(levels: int) -> bytes:
    """Return Avro ledgers nested this deep: each has an empty title, no blanks, and the next ledger."""
    return b"\0\0\2" * levels + b"\0\0\0"


BREACHES = [
    *_breach("a fragment without those before it", lambda k: k.record(k.message(fragment=1, fragments=3)), -8462),
    *_breach("an unknown message type", lambda k: k.record(k.message(message_type="Nonsense")), -8498),
    *_breach("a message type name of 600 KB", lambda k: k.record(k.message(message_type="T" * 600_000)), -8498),
    *_breach(
        "a message type that only the target may send", lambda k: k.record(k.message(message_type="Receipt")), -8457
    ),
    *_breach("a body that is not JSON", lambda k: k.record(k.message(b"{'n': 7}")), -9615),
    *_breach("a body that is not UTF-8", lambda k: k.record(k.message(b'{"n": 7, "note": "\xff"}')), -9615),
    *_breach("a body with a field of the wrong type", lambda k: k.record(k.message(b'{"n": "seven"}')), -9615),
    *_breach("an empty body", lambda k: k.record(k.message(b"")), -9615),
    *_breach("a body nested 300,000 deep", lambda k: k.record(k.message(b"[" * 300_000)), -9615),
    *_breach("a number of 500,000 digits", lambda k: k.record(k.message(b'{"n": ' + b"9" * 500_000 + b"}")), -9615),
    *_breach(
        "a body for which the class's validator raises a KeyError",
        lambda k: k.record(k.message(b'{"n": 7, "note": "a bug"}')),
        -9615,
    ),
    *_breach(
        "a body for a message type without a body", lambda k: k.record(k.message(b"?", "Ping", content_type="")), -8430
    ),
    *_breach("an Avro body cut short", lambda k: k.record(k.message(b"\x20abc", LEDGER)), -9615),
    *_breach("an Avro body with extra bytes after it", lambda k: k.record(k.message(b"\0\0\0\0", LEDGER)), -9615),
    *_breach("an Avro text with a forged length", lambda k: k.record(k.message(encode_long(FAR), LEDGER)), -9615),
    *_breach(
        "an Avro array of 2^40 items of zero bytes each",
        lambda k: k.record(k.message(b"\0" + encode_long(1 << 40) + b"\0\0", LEDGER)),
        -9615,
    ),
    *_breach(
        "an Avro array of 100,000 items of zero bytes each",
        lambda k: k.record(k.message(b"\0" + encode_long(100_000) + b"\0" * 200_000, LEDGER)),
        -9615,
    ),
    *_breach("an Avro record nested 250,000 deep", lambda k: k.record(k.message(_deep(250_000), LEDGER)), -9615),
]


def _skipping(known: Known, numbers: bytes) -> Forged:
    """Return an ACK with these bytes as its list of skipped numbers."""
    value = encode(known.said(Kind.ACK, skipped=(7,)))
    one = encode_long(1) + encode_long(7) + b"\0"
    at = value.index(one, len(known.start()))
    return known.raw(value[:at] + numbers + value[at + len(one) :])


MANY = 1_490_000
"""Number of items of one byte each that fit into a record."""
COUNTS = [
    *_both("an acknowledgement with 101 skipped numbers", lambda k: k.record(k.said(Kind.ACK, skipped=(0,) * 101))),
    *_both(
        "an acknowledgement with 1.49 million skipped numbers",
        lambda k: _skipping(k, encode_long(MANY) + bytes(MANY) + b"\0"),
    ),
    *_both(
        "an acknowledgement with 740,000 lists of one skipped number each",
        lambda k: _skipping(k, b"\2\0" * (MANY // 2) + b"\0"),
    ),
]

SIZES = [
    *_both(
        "a body of 50 MB", lambda k: k.record(k.message(b"x" * BOMB, "Blob", content_type="application/octet-stream"))
    ),
    *_both("50 MB of zeros, 50 KB when compressed", lambda k: k.raw(bytes(BOMB))),
]

ROWS: list[Wire] = [*NOT_AVRO, *ROUTED_WRONG, *NUMBERS, *BELIEVED, *UNKNOWN, *BREACHES, *COUNTS, *SIZES]
