"""Damage: one wrong bit in a record."""

from __future__ import annotations

from random import Random

from conversations.ports import Out


def flipped(out: Out, random: Random) -> Out:
    """Return a record with one wrong bit, which is in its key, in its value, or in the name or the value of a header."""
    parts = parts_of(out)
    at = random.randrange(8 * sum(map(len, parts)))
    return flip(out, at // 8, 1 << at % 8)


def parts_of(out: Out) -> list[bytes]:
    """Return the bytes of a record: its key, its value, then the name and the value of each header."""
    headers = [part for name, content in out.headers or () for part in (_encoded(name), content)]
    return [out.key or b"", out.value or b"", *headers]


def flip(out: Out, at: int, bits: int) -> Out:
    """Return a record with some wrong bits in one byte. ``at`` is the number of the byte among all ``parts_of`` the record."""
    parts = parts_of(out)
    for number, part in enumerate(parts):
        if at < len(part):
            parts[number] = part[:at] + bytes([part[at] ^ bits]) + part[at + 1 :]
            break
        at -= len(part)
    else:
        raise IndexError("a record has no such byte")
    key, value, *rest = parts
    # A name that is not UTF-8 gets a lone surrogate, as ``MemoryRecord`` expects it.
    headers = [
        (name.decode("utf-8", "surrogateescape"), content) for name, content in zip(rest[::2], rest[1::2], strict=True)
    ]
    return out._replace(key=key, value=value, headers=headers)


def _encoded(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")
