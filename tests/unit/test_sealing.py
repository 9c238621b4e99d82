"""Seals of single envelopes."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from conversations import DeclarationError
from conversations.errors import InDoubt
from conversations.protocol.envelope import (
    Envelope,
    Extras,
    FenceOutcome,
    Kind,
    Origin,
    Prefix,
    Seal,
    UndecodableRecord,
    decode,
    encode,
    encode_prefix,
    tail_start,
)
from conversations.protocol.registry import DEFAULT
from conversations.protocol.seals import NotAuthentic, associated, associated_in, cipher_key
from conversations.seal_keys import Key, Keys, KeyTable
from conversations.sealing import Sealer, Seals, plain_value

PREFIX = Prefix(bytes(range(16)), True, "Talk", "here", "there", "key", True, 1 << 50, -1)
KEY = b"key"
NEW, OLD = Key("new", bytes(range(32))), Key("o", bytes(range(32, 64)))
MESSAGE = Envelope(
    PREFIX, Kind.MESSAGE, 5, 3, sent_at=1 << 50, message_type="Word", content_type="application/json", body=b"hello"
)
ALL = [
    MESSAGE,
    replace(MESSAGE, body=b""),
    replace(MESSAGE, body=bytes(70_000), seq=10_000),
    replace(MESSAGE, extras=Extras(origin=Origin(bytes(16), 1, 7))),
    Envelope(PREFIX, Kind.END, 6, 4, 6),
    Envelope(PREFIX, Kind.ERROR, -1, 4, 5, code=-8489, description="over"),
    Envelope(PREFIX, Kind.ACK, -1, 4, skipped=(1, 2)),
    Envelope(PREFIX, Kind.RESEND, -1, 4),
    Envelope(PREFIX, Kind.FENCE, -1, 4, 8, code=-8489),
    Envelope(PREFIX, Kind.FENCED, -1, 4, 8, extras=Extras(fence=FenceOutcome(3, 8, "ERROR", False))),
]  # fmt: skip


def sealer(*keys: Key) -> Sealer:
    found = Seals(KeyTable({"there": Keys(keys or (NEW, OLD))})).of("there")
    assert found is not None
    return found


def opened(by: Sealer, value: bytes, key: bytes = KEY) -> bytes:
    """Open in both ways, which must agree; return the bytes."""
    start = tail_start(value)
    usual = by.open_usual(key, decode(value).prefix, value, start)
    plain, found = by.open(key, decode(value))
    assert encode(plain) == found
    if usual is not None:
        assert usual == (plain, found)
    return found


@pytest.mark.parametrize("envelope", ALL, ids=lambda it: it.kind.name)
def test_each_kind_of_envelope_is_sealed_and_opened(envelope: Envelope) -> None:
    by, plain = sealer(), encode(envelope)
    value = by.seal(KEY, plain)
    found = decode(value)
    assert found.extras is not None
    assert found.extras.seal is not None
    assert encode(found) == value, "the bytes are those of fastavro"
    assert value.startswith(encode_prefix(PREFIX))
    assert len(found.body) == len(envelope.body)
    assert found.body != envelope.body or not envelope.body
    assert opened(by, value) == plain
    assert plain_value(value) == plain
    assert plain_value(plain) == plain
    assert associated(KEY, found, "new") == associated_in(KEY, value, DEFAULT)


def test_each_seal_has_a_nonce_of_its_own() -> None:
    by, plain = sealer(), encode(MESSAGE)
    values = {by.seal(KEY, plain) for _ in range(50)}
    seals = [extras.seal for it in values if (extras := decode(it).extras) is not None]
    assert len({it.nonce for it in seals if it is not None}) == 50


def test_all_keys_open_and_the_first_one_seals() -> None:
    """The three steps of a replacement: at each of them, both sides open what the other one seals."""
    steps = [(OLD,), (OLD, NEW), (NEW, OLD), (NEW,)]
    plain = encode(MESSAGE)
    for here, there in [
        *zip(steps, steps, strict=True),
        *pairwise(steps),
        *pairwise(steps[::-1]),
    ]:
        value = sealer(*here).seal(KEY, plain)
        assert opened(sealer(*there), value) == plain
    with pytest.raises(NotAuthentic, match="not known"):
        opened(sealer(NEW), sealer(OLD).seal(KEY, plain))


def changed() -> Iterator[tuple[str, Envelope]]:
    """Return the sealed message with one field changed, for each field."""
    value = decode(sealer().seal(KEY, encode(MESSAGE)))
    assert value.extras is not None
    seal = value.extras.seal
    assert seal is not None
    prefixes: dict[str, Any] = {
        "conversation_id": bytes(16), "from_initiator": False, "contract": "Tale", "from_service": "hers", "to_service": "theirs",
        "reply_key": "kez", "resends": False, "accept_until": 5, "expires_at": 5,
    }  # fmt: skip
    for name, other in prefixes.items():
        yield name, replace(value, prefix=replace(value.prefix, **{name: other}))
    fields: dict[str, Any] = {
        "kind": Kind.ACK, "seq": 6, "ack": 4, "transmitted": 2, "skipped": (1,), "sent_at": 5, "message_type": "Sword", "code": 1,
        "description": "d", "fragment": 1, "fragments": 2, "content_type": "text/plain", "body": b"HELLO",
    }  # fmt: skip
    for name, it in fields.items():
        yield name, replace(value, **{name: it})
    yield "origin", replace(value, extras=Extras(origin=Origin(bytes(16), 1, 7), seal=seal))
    yield "fence", replace(value, extras=Extras(fence=FenceOutcome(3, 8, "ERROR", False), seal=seal))
    yield "key_id", replace(value, extras=Extras(seal=replace(seal, key_id="o")))
    yield "nonce", replace(value, extras=Extras(seal=replace(seal, nonce=bytes(12))))
    yield "tag", replace(value, extras=Extras(seal=replace(seal, tag=bytes(16))))


@pytest.mark.parametrize(("name", "envelope"), list(changed()), ids=lambda it: it if isinstance(it, str) else "")
def test_every_field_is_authenticated(name: str, envelope: Envelope) -> None:
    by, value = sealer(), encode(envelope)
    with pytest.raises(NotAuthentic, match="not as it was sealed"):
        by.open(KEY, decode(value))
    try:
        found = by.open_usual(KEY, envelope.prefix, value, tail_start(value))
    except NotAuthentic:
        return
    assert found is None, "an unusual envelope is opened in the other way"


def test_so_is_the_key_of_the_record() -> None:
    by = sealer()
    value = by.seal(KEY, encode(MESSAGE))
    for key in (b"kez", b"", b"keyC"):
        with pytest.raises(NotAuthentic, match="another place"):
            by.open(key, decode(value))
        with pytest.raises(NotAuthentic, match="another place"):
            by.open_usual(key, PREFIX, value, tail_start(value))


def test_a_key_of_the_cipher_belongs_to_one_dialog_and_one_direction() -> None:
    other, back = replace(PREFIX, conversation_id=bytes(16)), replace(PREFIX, from_initiator=False)
    keys = {cipher_key(secret, it) for secret in (bytes(32), NEW.secret) for it in (PREFIX, other, back)}
    assert len(keys) == 6
    assert all(len(it) == 32 for it in keys)


@pytest.mark.parametrize(
    ("seal", "why"),
    [
        (None, "not sealed"),
        (Seal("stolen", bytes(12), bytes(16)), "not known"),
        (Seal("new", b"", bytes(16)), "not whole"),
        (Seal("new", bytes(12), bytes(15)), "not whole"),
        (Seal("new", bytes(13), bytes(16)), "not whole"),
    ],
)
def test_a_seal_that_is_none_is_refused(seal: Seal | None, why: str) -> None:
    envelope = replace(MESSAGE, extras=None if seal is None else Extras(seal=seal))
    with pytest.raises(NotAuthentic, match=why):
        sealer().open(KEY, envelope)
    value = encode(envelope)
    assert sealer().open_usual(KEY, PREFIX, value, tail_start(value)) is None


def test_a_body_that_looks_like_a_seal_is_none() -> None:
    by = sealer()
    value = by.seal(KEY, encode(MESSAGE))
    looks = encode(replace(MESSAGE, body=value[-60:-1]))
    assert by.open_usual(KEY, PREFIX, looks, tail_start(looks)) is None
    assert opened(by, by.seal(KEY, looks)) == looks


def test_whatever_is_cut_off_opens_nothing() -> None:
    by = sealer()
    value = by.seal(KEY, encode(MESSAGE))
    for size in range(tail_start(value), len(value)):
        with pytest.raises((NotAuthentic, UndecodableRecord)):
            opened(by, value[:size])


def test_a_provider_that_fails_leaves_the_record_for_later_and_tells_no_secret() -> None:
    class Vault:
        def keys_for(self, peer: str) -> Keys | None:
            raise OSError("secret " + peer)

    with pytest.raises(InDoubt, match="keys for there cannot be had: OSError") as error:
        Seals(Vault()).of("there")
    assert "secret" not in str(error.value)
    assert Seals(Vault()).of("no service!") is None, "only names of services are asked for"


def test_without_its_library_the_error_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['cryptography'] = None\n"
        "from conversations.errors import DeclarationError\n"
        "from conversations.seal_keys import KeyTable\n"
        "from conversations.sealing import Seals\n"
        "try: Seals(KeyTable({}))\n"
        "except DeclarationError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert "pip install 'kafka-dialogs[seal]'" in done.stdout


def test_a_place_without_keys_ends_the_start() -> None:
    with pytest.raises(DeclarationError, match="no environment variable NO_SUCH_KEYS"):
        Seals("environment:NO_SUCH_KEYS")
