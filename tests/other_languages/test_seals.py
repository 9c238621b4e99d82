"""A reader in Java, written from docs/protocol.md alone with nothing but the JDK, verifies and opens what is sealed here."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from conversations.protocol.envelope import (
    Envelope,
    Extras,
    FenceOutcome,
    Kind,
    Origin,
    Prefix,
    encode,
)
from conversations.protocol.integrity import checksum
from conversations.seal_keys import Key, Keys, KeyTable
from conversations.sealing import Seals
from conversations_ops.broker.java import find_java
from tests.support.waiting import SLOWER

READER = Path(__file__).parent / "seal" / "SealReader.java"
PREFIX = Prefix(bytes(range(16)), True, "Talk", "here", "there", "a reply key", True, 1 << 50, -1)
SENT_AT = 1_790_000_000_000_000
KEY = "the group's key, ü".encode()
SAID = [
    Envelope(PREFIX, Kind.MESSAGE, 5, 3, sent_at=SENT_AT, message_type="Word", content_type="application/json", body=b'{"text":"hello"}'),
    Envelope(PREFIX, Kind.MESSAGE, 300, 3, sent_at=SENT_AT, message_type="Bytes", body=bytes(range(256)) * 300),
    Envelope(replace(PREFIX, from_initiator=False), Kind.MESSAGE, 5, 3, sent_at=SENT_AT, message_type="Word", body=b"back"),
    Envelope(PREFIX, Kind.MESSAGE, 0, -1, message_type="Word", body=b"again", extras=Extras(origin=Origin(bytes(16), 1, 70))),
    Envelope(PREFIX, Kind.END, 6, 4, 6, sent_at=SENT_AT),
    Envelope(PREFIX, Kind.ERROR, -1, 4, 5, code=-8489, description="The lifetime is over."),
    Envelope(PREFIX, Kind.ACK, -1, 4, skipped=(1, 2, 300)),
    Envelope(PREFIX, Kind.RESEND, -1, 4),
    Envelope(PREFIX, Kind.FENCE, -1, 4, 8, code=-8489),
    Envelope(PREFIX, Kind.FENCED, -1, 4, 8, extras=Extras(fence=FenceOutcome(3, 8, "ERROR", False))),
]  # fmt: skip


@pytest.fixture(scope="module")
def secret() -> bytes:
    return os.urandom(32)


def line(secret: bytes, key: bytes, value: bytes, crc: bytes | None = None) -> str:
    return " ".join(it.hex() for it in (secret, key, crc or checksum(key, value), value))


def read_by_java(lines: list[str]) -> list[str]:
    done = subprocess.run(
        [find_java().path, READER], input="\n".join(lines), capture_output=True, text=True, timeout=90 * SLOWER, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.timeout(240)
def test_java_opens_every_kind_of_envelope_and_refuses_what_was_changed(secret: bytes) -> None:
    sealer = Seals(KeyTable({"there": Keys((Key("2026-11", secret),))})).of("there")
    assert sealer is not None
    sealed = [sealer.seal(KEY, encode(it)) for it in SAID]
    first = sealed[0]
    at = first.index(b"Word")
    wrong = [
        line(secret, KEY, first, b"\1\2\3\4"),
        line(secret, KEY, first[:at] + b"Sord" + first[at + 4 :]),
        line(secret, KEY[:-1] + b"x", first),
        line(bytes(32), KEY, first),
        line(secret, KEY, first[:-2] + bytes([first[-2] ^ 1]) + first[-1:]),
        line(secret, KEY, first[:26] + b"\0" + first[27:]),
    ]
    found = read_by_java([line(secret, KEY, it) for it in sealed] + wrong)
    opened = [it.strip() for it in found[: len(SAID)]]
    assert opened == [f"open 2026-11 {it.seq} {it.body.hex()}".strip() for it in SAID]
    assert found[len(SAID) :] == ["crc", *["tag"] * 5]
