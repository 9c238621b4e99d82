"""Damages bytes at random, from a seed. Some damages are values that decoders often handle wrongly."""

from collections.abc import Callable, Sequence
from random import Random

INTERESTING = (
    b"\0", b"\1", b"\2", b"\3", b"\x7e", b"\x7f", b"\x80", b"\xff", b"\x80\0", b"\xff\x01", b"\x80" * 9 + b"\1",
    b"\xff" * 9 + b"\1", b"\xfe\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x10", b"\xc3\x01", b"\xed\xa0\x80",
)  # fmt: skip
"""Numbers at the edges of 7, 32 and 64 bits, a marker, and a lone surrogate."""

Mutation = Callable[[Random, bytearray, Sequence[bytes]], None]


def _flip(random: Random, data: bytearray, others: Sequence[bytes]) -> None:
    data[random.randrange(len(data))] ^= 1 << random.randrange(8)


def _set(random: Random, data: bytearray, others: Sequence[bytes]) -> None:
    data[random.randrange(len(data))] = random.randrange(256)


def _put(random: Random, data: bytearray, others: Sequence[bytes]) -> None:
    at = random.randrange(len(data))
    data[at : at + random.randrange(3)] = random.choice(INTERESTING)


def _cut(random: Random, data: bytearray, others: Sequence[bytes]) -> None:
    del data[random.randrange(len(data)) :]


def _drop(random: Random, data: bytearray, others: Sequence[bytes]) -> None:
    at = random.randrange(len(data))
    del data[at : at + 1 + random.randrange(8)]


def _double(random: Random, data: bytearray, others: Sequence[bytes]) -> None:
    at = random.randrange(len(data))
    data[at:at] = data[at : at + 1 + random.randrange(16)]


def _splice(random: Random, data: bytearray, others: Sequence[bytes]) -> None:
    other = random.choice(others)
    at, size = random.randrange(len(data)), random.randrange(1, 24)
    start = random.randrange(len(other))
    data[at : at + size] = other[start : start + size]


MUTATIONS: tuple[Mutation, ...] = (_flip, _set, _put, _put, _cut, _drop, _double, _splice)


def damaged(random: Random, seeds: Sequence[bytes], keep: int = 0) -> bytes:
    """Return one of ``seeds`` with one to three damages, usually behind its first ``keep`` bytes. Rarely, return plain noise."""
    if random.random() < 0.01:
        return random.randbytes(random.randrange(64))
    seed = random.choice(seeds)
    start = keep if random.random() < 0.9 else 0
    data = bytearray(seed[start:])
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        if data:
            random.choice(MUTATIONS)(random, data, seeds)
    return seed[:start] + bytes(data)
