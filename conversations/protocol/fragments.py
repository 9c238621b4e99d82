"""Fragments: a body that is larger than one envelope may carry is cut into several MESSAGEs of its dialog, and is joined again.

Each fragment has a number of its own, and says which fragment of how many it is. So order, acknowledgements, repetitions, and questions for what
is missing are the same for a fragment as for any message. The number of the message is the number of its last fragment
(design decision 0060).

    number    7      8      9      10
    fragment  0/3    1/3    2/3    0/1
              '---- one message ----'
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from conversations.protocol.envelope import Envelope


def cut(body: bytes, size: int) -> Iterator[bytes]:
    """Cut a body into parts of ``size`` bytes; the last part may be smaller."""
    for at in range(0, len(body), size):
        yield body[at : at + size]


def last_number(envelope: Envelope) -> int:
    """Return the number of the last fragment of an envelope's message; its own number if the message is not cut."""
    return envelope.seq + envelope.fragments - 1 - envelope.fragment


def is_last(envelope: Envelope) -> bool:
    """Return True if no fragment of the message comes after this envelope."""
    return envelope.fragment == envelope.fragments - 1


def joined(last: Envelope, parts: Iterable[bytes]) -> Envelope:
    """Return the whole message: its ``last`` fragment, with the bodies of the fragments before it in ``parts``."""
    return replace(last, body=b"".join((*parts, last.body)), fragment=0, fragments=1)


class Begun(NamedTuple):
    """A message of which some fragments have arrived, in order."""

    last: int
    """Number of its last fragment."""
    fragments: int
    arrived: int
    """Number of its fragments that are kept. The last fragment is never kept here."""
    message_type: str
    content_type: str
    bytes: int
    """Bytes of the bodies that are kept."""

    @property
    def numbers(self) -> range:
        """The numbers of the fragments that are kept."""
        first = self.last - self.fragments + 1
        return range(first, first + self.arrived)

    def misfit(self, envelope: Envelope) -> str:
        """Return why an envelope with the next number cannot be the next fragment; "" if it can."""
        expected = (self.last, self.fragments, self.arrived, self.message_type, self.content_type)
        if (
            last_number(envelope),
            envelope.fragments,
            envelope.fragment,
            envelope.message_type,
            envelope.content_type,
        ) == expected:
            return ""
        return f"A message of {self.fragments} fragments is not whole: fragment {self.arrived} is missing."

    def grown(self, envelope: Envelope) -> Begun:
        """Return the message with one more fragment."""
        return self._replace(arrived=self.arrived + 1, bytes=self.bytes + len(envelope.body))


def begun_with(envelope: Envelope) -> Begun:
    """Return the message of a first fragment, before the fragment is kept."""
    return Begun(last_number(envelope), envelope.fragments, 0, envelope.message_type, envelope.content_type, 0)
