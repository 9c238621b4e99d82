"""Bad records of a queue: what is in them, what becomes of them, where their bytes are, who is told with which code."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from conversations.protocol.command import Tick
from conversations.protocol.envelope import HEADER_NAME, Extras, Kind, Seal, encode, encode_long, header_of, tail_start
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
    """Reason of the dead letter that has its bytes; "" when it is understood and there is nothing to keep."""
    code: int = 0
    """What the peer is told, 0 nothing."""
    established: bool = False
    """Thrown at a dialog that is under way; else at a conversation nobody has heard of."""
    goes_on: bool = True
    """The dialog it is thrown at goes on as if nothing had been."""
    event: str = "SET_ASIDE"
    """The event that is published, "" none."""


def _of(what: str, forge: Callable[[Known], Forged], **fields: Any) -> Wire:
    return Wire(what, forge, **fields)


def _both(what: str, forge: Callable[[Known], Forged]) -> list[Wire]:
    """Set aside, whether the conversation is known or not."""
    return [Wire(what, forge), Wire(f"{what}, in a dialog under way", forge, established=True)]


def _breach(what: str, forge: Callable[[Known], Forged], code: int) -> list[Wire]:
    rest: dict[str, Any] = {"reason": "breach", "code": code, "goes_on": False, "event": ""}
    return [Wire(what, forge, **rest), Wire(f"{what}, in a dialog under way", forge, established=True, **rest)]


def _value(known: Known) -> bytes:
    return encode(known.message())


NOT_AVRO = [
    *_both("no bytes at all", lambda k: k.raw(b"")),
    *_both("a null value", lambda k: k.raw(None)),
    *_both("bytes of something else", lambda k: k.raw(b"\x00\x01 what? \xff" * 9)),
    *_both("another marker", lambda k: k.raw(b"\xc3\x02" + _value(k)[2:])),
    *_both("an unknown schema fingerprint", lambda k: k.raw(b"\xc3\x01" + b"\x07" * 8 + _value(k)[10:])),
    _of("a command", lambda k: k.raw(k.command(Tick()).value)),
    *_both("a record cut short", lambda k: k.raw(_value(k)[:-9])),
    *_both("bytes behind the record", lambda k: k.raw(_value(k) + b"\0")),
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
    *_both("a key that is not the endpoint's", lambda k: k.record(k.message(), key=b"tick-1")),
    _of("a key that is not text", lambda k: k.record(k.message(), key=_keyed(b"\xff\xfe"))),
    *_both("a key of a megabyte", lambda k: k.record(k.message(), key=_keyed(b"k" * 1_000_000))),
    _of("a record in the wrong partition", lambda k: k.record(k.message(), partition=1)),
    *_both("an envelope for another service", lambda k: k.record(k.prefixed(to_service="web"))),
    _of("a sender no service can be", lambda k: k.record(k.prefixed(from_service="a\0b"))),
    _of("a contract's name of a megabyte", lambda k: k.record(k.prefixed(contract="c" * 1_000_000))),
    _of("a reply key of a megabyte", lambda k: k.record(k.prefixed(reply_key="r" * 1_000_000))),
    _of("an empty reply key", lambda k: k.record(k.prefixed(reply_key=""))),
    _of("another contract than the dialog's", lambda k: k.record(k.prefixed(contract="Gossip")), established=True),
    _of("another sender than the dialog's", lambda k: k.record(k.prefixed(from_service="thief")), established=True),
    _of("another reply key than the dialog's", lambda k: k.record(k.prefixed(reply_key="mine")), established=True),
]


def _keyed(start: bytes) -> bytes:
    from conversations.protocol.topics import partition_of
    from tests.bad_input.support.services import PARTITIONS

    return next(k for i in range(1_000) if partition_of(k := start + b"%d" % i, PARTITIONS) == 0)


HEADERS = [
    *_both("no header", lambda k: k.record(k.message(), headers=[])),
    *_both("a header without a value", lambda k: k.record(k.message(), headers=[(HEADER_NAME, None)])),
    *_both("a header with another number", lambda k: k.record(k.message(), headers=[(HEADER_NAME, k.header(seq=9))])),
    *_both(
        "a header with another kind", lambda k: k.record(k.message(), headers=[(HEADER_NAME, k.header(kind=Kind.END))])
    ),
    *_both(
        "a header of another conversation",
        lambda k: k.record(k.message(), headers=[(HEADER_NAME, b"\x07" * 16 + k.header()[16:])]),
    ),
    *_both(
        "a wrong header before a right one",
        lambda k: k.record(k.message(), headers=[(HEADER_NAME, b"?"), (HEADER_NAME, k.header())]),
    ),
]

NUMBERS = [
    *_both("a message with a negative number", lambda k: k.record(k.message(seq=-5))),
    *_both("a message without a number", lambda k: k.record(k.message(seq=-1))),
    *_both("an end without a number", lambda k: k.record(k.said(Kind.END))),
    *_both("an acknowledgement with a number", lambda k: k.record(k.said(Kind.ACK, seq=3))),
    *_both("numbers said to be skipped", lambda k: k.record(k.message(skipped=(-1, 0, FAR)))),
    *_both("a fragment", lambda k: k.record(k.message(fragment=0, fragments=2))),
    *_both("a negative count of fragments", lambda k: k.record(k.message(fragment=-3, fragments=-1))),
    *_both("a seal nobody asked for", lambda k: k.record(k.message(extras=Extras(seal=Seal("key", b"n", b"t"))))),
    *_both("an error with code 0", lambda k: k.record(k.said(Kind.ERROR, description="nothing"))),
    *_both("an error with number -7", lambda k: k.record(k.said(Kind.ERROR, seq=-7, code=7, description="x"))),
    *_both("FENCE, which is reserved", lambda k: k.record(k.said(Kind.FENCE))),
    *_both("FENCED, which is reserved", lambda k: k.record(k.said(Kind.FENCED))),
    _of(
        "a first message that may come for more than a day",
        lambda k: k.record(k.prefixed(accept_until=k.now + 2 * DAY)),
    ),
    _of("a first message that may come for ever", lambda k: k.record(k.prefixed(accept_until=FAR))),
]
# A far number is believed to be the sender's: whoever may write to a queue is believed about who they are.
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
        ("a million ahead", lambda k: k.record(k.message(seq=k.next + 1_000_000))),
    ]
    for where, established in [("", False), (", in a dialog under way", True)]
]

BELIEVED = [
    Wire(
        f"a message that acknowledges {name}", forge, "", event="", goes_on=False
    )
    for name, forge in [
        ("what was never sent", lambda k: k.record(k.message(ack=FAR))),
        ("less than nothing", lambda k: k.record(k.message(ack=-FAR - 1))),
    ]
] + [
    Wire("a message sent at the end of time", lambda k: k.record(k.message(sent_at=FAR)), "", event="", goes_on=False),
    Wire("a message sent before time began", lambda k: k.record(k.message(sent_at=-FAR)), "", event="", goes_on=False),
    Wire("a dialog that lives for ever", lambda k: k.record(k.prefixed(expires_at=FAR)), "", event="", goes_on=False),
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
        "an acknowledgement of what was never sent", lambda k: k.record(k.said(Kind.ACK, ack=FAR)), "",
        established=True, event="",
    ),
    Wire(
        "a request for what is not kept", lambda k: k.record(k.said(Kind.RESEND)), "", -8462,
        established=True, goes_on=False, event="",
    ),
]  # fmt: skip

UNKNOWN = [
    Wire(
        "a contract that is not accepted", lambda k: k.record(k.prefixed(contract="Gossip")), "refused", -8408, event=""
    ),
    Wire(
        "a first message that comes too late", lambda k: k.record(k.prefixed(accept_until=k.now - HOUR)), "refused", -8462,
        event="",
    ),
    Wire(
        "a first message whose dialog's lifetime is over", lambda k: k.record(k.prefixed(expires_at=k.now - HOUR)), "refused", -8489,
        event="",
    ),
    Wire(
        "an answer in a conversation that was never begun", lambda k: k.record(k.prefixed(from_initiator=False)), "refused",
        -8462, event="",
    ),
    Wire(
        "a message of a sender the catalog does not know", lambda k: k.record(k.prefixed(from_service="nobody")),
    ),
    Wire(
        "an error of a sender the catalog does not know",
        lambda k: k.record(
            k.said(Kind.ERROR, seq=1, code=5, description="early", prefix=replace(k.prefix, from_service="nobody"))
        ),
    ),
    Wire("an acknowledgement in an unknown conversation", lambda k: k.record(k.said(Kind.ACK))),
    Wire("a request to resend in an unknown conversation", lambda k: k.record(k.said(Kind.RESEND))),
    Wire(
        "an error in a conversation that was never begun",
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
    """A ledger in a ledger in a ledger: title "", no blanks, next."""
    return b"\0\0\2" * levels + b"\0\0\0"


BREACHES = [
    *_breach("an unknown message type", lambda k: k.record(k.message(message_type="Nonsense")), -8498),
    *_breach("a message type's name of 600 KB", lambda k: k.record(k.message(message_type="T" * 600_000)), -8498),
    *_breach("a message type only the target may send", lambda k: k.record(k.message(message_type="Receipt")), -8457),
    *_breach("a body that is not JSON", lambda k: k.record(k.message(b"{'n': 7}")), -9615),
    *_breach("a body that is not UTF-8", lambda k: k.record(k.message(b'{"n": 7, "note": "\xff"}')), -9615),
    *_breach("a body with a wrong field", lambda k: k.record(k.message(b'{"n": "seven"}')), -9615),
    *_breach("an empty body", lambda k: k.record(k.message(b"")), -9615),
    *_breach("a body nested 300,000 deep", lambda k: k.record(k.message(b"[" * 300_000)), -9615),
    *_breach("a number of 500,000 digits", lambda k: k.record(k.message(b'{"n": ' + b"9" * 500_000 + b"}")), -9615),
    *_breach(
        "a body at which its own validator fails", lambda k: k.record(k.message(b'{"n": 7, "note": "a bug"}')), -9615
    ),
    *_breach("a body where there is none", lambda k: k.record(k.message(b"?", "Ping", content_type="")), -9615),
    *_breach("an Avro body cut short", lambda k: k.record(k.message(b"\x20abc", LEDGER)), -9615),
    *_breach("an Avro body with bytes behind it", lambda k: k.record(k.message(b"\0\0\0\0", LEDGER)), -9615),
    *_breach("an Avro text with a forged length", lambda k: k.record(k.message(encode_long(FAR), LEDGER)), -9615),
    *_breach(
        "an Avro array of 2^40 items without bytes",
        lambda k: k.record(k.message(b"\0" + encode_long(1 << 40) + b"\0\0", LEDGER)),
        -9615,
    ),
    *_breach(
        "an Avro array of 100,000 items without bytes",
        lambda k: k.record(k.message(b"\0" + encode_long(100_000) + b"\0" * 200_000, LEDGER)),
        -9615,
    ),
    *_breach("an Avro record nested 250,000 deep", lambda k: k.record(k.message(_deep(250_000), LEDGER)), -9615),
]


def _skipping(known: Known, numbers: bytes) -> Forged:
    """An ACK whose list of skipped numbers is these bytes."""
    value = encode(known.said(Kind.ACK, skipped=(7,)))
    one = encode_long(1) + encode_long(7) + b"\0"
    at = value.index(one, len(known.start()))
    return known.raw(value[:at] + numbers + value[at + len(one) :], headers=[(HEADER_NAME, _header_of(value))])


def _header_of(value: bytes) -> bytes:
    return header_of(value, tail_start(value))


MANY = 1_490_000
"""Items of one byte that fit a record."""
COUNTS = [
    *_both("an acknowledgement of 101 skipped numbers", lambda k: k.record(k.said(Kind.ACK, skipped=(0,) * 101))),
    *_both(
        "an acknowledgement of 1.49 million skipped numbers",
        lambda k: _skipping(k, encode_long(MANY) + bytes(MANY) + b"\0"),
    ),
    *_both(
        "an acknowledgement of 740,000 lists of one skipped number",
        lambda k: _skipping(k, b"\2\0" * (MANY // 2) + b"\0"),
    ),
]

SIZES = [
    *_both(
        "a body of 50 MB", lambda k: k.record(k.message(b"x" * BOMB, "Blob", content_type="application/octet-stream"))
    ),
    *_both("50 MB of zeros, 50 KB when compressed", lambda k: k.raw(bytes(BOMB))),
    _of("a hundred thousand headers", lambda k: k.record(k.message(), headers=[("x", b"y")] * 100_000)),
]

ROWS: list[Wire] = [*NOT_AVRO, *ROUTED_WRONG, *HEADERS, *NUMBERS, *BELIEVED, *UNKNOWN, *BREACHES, *COUNTS, *SIZES]
