"""Decoders decode or refuse any bytes correctly, and a worker handles any stream of records.

``FUZZ_INPUTS`` is the number of inputs (200,000 by default). Another ``FUZZ_SEED`` draws other inputs.
"""

import os
import tracemalloc
from collections import defaultdict
from datetime import timedelta
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conversations.ports import Record
from conversations.protocol.command import decode_command
from conversations.protocol.envelope import Kind, decode
from conversations.protocol.registry import HEAD_SIZE
from conversations.protocol.topics import COMMANDS, QUEUE
from conversations.testing import Simulation
from tests.bad_input.fuzzing import TARGETS, Target
from tests.bad_input.mutations import damaged
from tests.bad_input.support.forging import Forged, Known, stranger
from tests.bad_input.support.logs import Memory
from tests.bad_input.support.outcomes import begin, order
from tests.bad_input.support.services import PARTITIONS, shop, web
from tests.bad_input.test_wire import receipts

INPUTS = int(os.environ.get("FUZZ_INPUTS", "200000"))
SEED = int(os.environ.get("FUZZ_SEED", "1"))
STREAMS = max(4, INPUTS // 50_000)
"""Number of streams, of ``STREAM`` records each, that go through a whole worker."""
STREAM = 300

every_target = pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)


@every_target
@pytest.mark.timeout(max(120, INPUTS // 1_000))
def test_damaged_bytes_are_refused_or_mean_what_they_say(target: Target) -> None:
    """A decoder raises only its refusal, allocates no memory for a forged length, and always returns. Some inputs are accepted."""
    random = Random(f"{SEED} {target.name}")
    target.run(random, 200)  # the caches are filled now
    tracemalloc.start()
    try:
        target.run(random, 500)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 5_000_000
    target.run(random, max(0, INPUTS // len(TARGETS) - 700))
    assert 0 < target.accepted < target.tried


@every_target
@settings(deadline=None, max_examples=100)
@given(noise=st.binary(max_size=200))
def test_noise_is_refused_or_means_what_it_says(target: Target, noise: bytes) -> None:
    """Check noise alone, and noise after a valid schema fingerprint, so that the decoder reads the noise."""
    target.check(noise)
    target.check(target.seeds[0][:HEAD_SIZE] + noise)


# -- a whole worker --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(STREAMS))
def test_a_worker_takes_any_stream_of_records_between_healthy_ones(number: int) -> None:
    """Healthy dialogs complete, every record is accounted for by its offset, and the services come to rest."""
    random = Random(f"{SEED} stream {number}")
    with Simulation(shop(), web(), partitions=PARTITIONS, raise_failures=False) as sim:
        place = Memory(sim)
        healthy = [stranger(place.now(), Random(f"{number} healthy {n}")) for n in range(3)]
        others = [stranger(place.now(), Random(f"{number} other {n}")) for n in range(8)]
        place.throw("web", COMMANDS, [begin(one) for one in healthy + others])
        sim.run()
        place.throw("web", COMMANDS, [order(one, n) for one in others[:4] for n in (1, 2, 3)])
        sim.run()
        own = {one.conversation.bytes for one in others}
        queue = [
            r for r in place.read(place.topic("shop", QUEUE)) if decode(r.value() or b"").prefix.conversation_id in own
        ]
        commands = [
            r
            for r in place.read(place.topic("web", COMMANDS))
            if decode_command(r.value() or b"").conversation_id in own
        ]
        for step in range(1, 11):
            place.throw("shop", QUEUE, [_damaged_record(random, queue) for _ in range(STREAM // 10)])
            place.throw("web", COMMANDS, [_damaged_command(random, commands) for _ in range(STREAM // 30)])
            place.throw("web", COMMANDS, [order(one, step) for one in healthy])
            sim.run()
            if random.random() < 0.2:
                sim.crash("shop")
        sim.advance(timedelta(minutes=30))
        check_accounts(place, healthy)
        sent = len(place.sent("web")), len(place.sent("shop"))
        sim.advance(timedelta(minutes=30))
        assert (len(place.sent("web")), len(place.sent("shop"))) == sent


def _damaged_record(random: Random, seeds: list[Record]) -> Forged:
    """Return a record with damage in its value, its headers or its key."""
    seed = random.choice(seeds)
    value: bytes | None = seed.value() or b""
    headers = list(seed.headers() or [])
    key = seed.key()
    where = random.random()
    if where < 0.75:
        value = damaged(random, [seed.value() or b""], HEAD_SIZE)
    elif where < 0.85:
        headers = [("dialog", random.randbytes(19)), ("crc", damaged(random, [bytes(4)]))][: random.randrange(3)]
    elif where < 0.95:
        key = damaged(random, [key or b""])
    else:
        value, key = (None, key) if random.random() < 0.5 else (value, None)
    return Forged(key, value, headers)


def _damaged_command(random: Random, seeds: list[Record]) -> Forged:
    seed = random.choice(seeds)
    value = damaged(random, [seed.value() or b""], HEAD_SIZE)
    return Forged(seed.key() if random.random() < 0.95 else None, value, None)


def check_accounts(place: Memory, healthy: list[Known]) -> None:
    """Check that every record has exactly one dead letter or can be decoded, and that every decoded message is accounted for.

    A message was handled, or it is kept here, or its sender says that it keeps the message itself.
    """
    for one in healthy:
        assert receipts(place, one) == list(range(11))
    kept = place.letters("shop")
    assert all(len(found) == 1 for found in kept.values())
    handled = {
        (entry.conversation, entry.number) for entry in place.sim.broker.ledger.handled if not entry.to_initiator
    }
    outcomes: dict[tuple[bytes, int], int] = defaultdict(int)
    messages: dict[tuple[bytes, int], bool] = {}
    for record in place.read(place.topic("shop", QUEUE)):
        if (letter := kept.get((QUEUE, record.offset()), [None])[0]) is not None:
            assert (letter.value, letter.key) == (record.value(), record.key())
        if letter is not None and letter.reason == "set-aside":
            continue
        envelope = decode(record.value() or b"")
        if envelope.kind is Kind.MESSAGE:
            name = envelope.prefix.conversation_id, envelope.seq
            outcomes[name] += letter is not None
            messages[name] = messages.get(name, True) and envelope.prefix.resends
    for name, is_left_to_sender in messages.items():
        assert outcomes[name] or name in handled or is_left_to_sender, f"message {name} is not accounted for"
    refused = place.letters("web")
    for record in place.read(place.topic("web", COMMANDS)):
        if (COMMANDS, record.offset()) not in refused:
            assert decode_command(record.value() or b"").operations
