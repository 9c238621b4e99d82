"""Measures the microseconds to encode and decode one record, and the microseconds that an endpoint needs for one message.

``python -m bench.micro_codec [--json]`` runs it alone; it is also a part of ``make bench``.
"""

import io
import json
import sys
import timeit
from collections.abc import Callable
from typing import Any

import fastavro

from conversations.protocol.endpoint import Endpoint
from conversations.protocol.envelope import (
    Envelope,
    Kind,
    Prefix,
    decode,
    decode_tail,
    encode,
    encode_ack,
    encode_end,
    encode_long,
    encode_message,
    encode_prefix,
    message_run,
)
from conversations.protocol.envelope_avro import CURRENT, decode_avro, from_fields
from conversations.protocol.registry import HEAD_SIZE

NOW = 1_763_000_000_000_000
PREFIX = Prefix(
    bytes(range(16)), True, "//example.com/Orders", "Shop", "Warehouse", "customer-17", True, NOW, NOW + 86_400_000_000
)
ENVELOPE = Envelope(
    PREFIX, Kind.MESSAGE, 100, 99, sent_at=NOW, message_type="//example.com/Orders/Submit",
    content_type="application/json", body=b"x" * 100,
)  # fmt: skip


def unchecked(value: bytes) -> Envelope:
    """Decode with fastavro alone, without the walk over the bytes that makes decoding strict."""
    body = io.BytesIO(value)
    body.seek(HEAD_SIZE)
    fields: Any = fastavro.schemaless_reader(body, CURRENT.parsed, None)
    return from_fields(fields)


def best(call: Callable[[], object]) -> float:
    """Return the microseconds per call in the best of seven runs."""
    return min(timeit.repeat(call, number=20_000, repeat=7)) / 20_000 * 1e6


def dialog_step() -> Callable[[], object]:
    """Return a call in which an endpoint, without a worker, takes the next message, numbers a reply and makes an acknowledgement."""
    endpoint = Endpoint(
        PREFIX.conversation_id, False, contract=PREFIX.contract, service="Warehouse", peer="Shop", key="customer-17",
        peer_key="customer-17", expires_at=PREFIX.expires_at,
    )  # fmt: skip
    envelope = Envelope(PREFIX, Kind.MESSAGE, 0, -1, sent_at=NOW)

    def step() -> None:
        endpoint.receive(envelope, NOW, 1_000)
        endpoint.send()
        endpoint.acknowledge()
        envelope.seq += 1

    return step


def calls() -> dict[str, Callable[[], object]]:
    """Return the measured calls, by name."""
    prefix, sent_at = encode_prefix(PREFIX), encode_long(NOW)
    run = message_run(ENVELOPE.message_type, ENVELOPE.content_type)
    value, start, body = encode(ENVELOPE), len(prefix), ENVELOPE.body
    end = encode_end(prefix, 101, 99, sent_at)
    assert value == encode_message(prefix, 100, 99, sent_at, run, body)
    return {
        "encode (fastavro)": lambda: encode(ENVELOPE),
        "encode_message": lambda: encode_message(prefix, 100, 99, sent_at, run, body),
        "encode_end": lambda: encode_end(prefix, 101, 99, sent_at),
        "encode_ack": lambda: encode_ack(prefix, 99, sent_at),
        "fastavro, unchecked": lambda: unchecked(value),
        "decode_avro (fastavro, strict)": lambda: decode_avro(value),
        "decode (prefix not known)": lambda: decode(value),
        "decode_tail": lambda: decode_tail(PREFIX, value, start),
        "decode_tail of an END": lambda: decode_tail(PREFIX, end, start),
        "endpoint: receive + send": dialog_step(),
    }


def main() -> None:
    measured = {name: round(best(call), 3) for name, call in calls().items()}
    if "--json" in sys.argv:
        print(json.dumps(measured))
        return
    prefix = len(encode_prefix(PREFIX))
    print(
        f"record of {len(encode(ENVELOPE))} bytes: prefix {prefix}, body {len(ENVELOPE.body)}; us per call, best of 7"
    )
    for name, microseconds in measured.items():
        print(f"{microseconds:8.2f}  {name}")


if __name__ == "__main__":
    main()
