"""Records that a handler publishes: what a plain topic may get, and how much one run of a handler may publish.

A **plain topic** is a topic of the cluster that does not belong to the namespace. Other programs create it and read it, so its records have no
envelope: a key, a value and headers, as for any producer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from conversations.errors import BodyTooLarge, LocalError
from conversations.protocol import codes
from conversations.protocol.limits import PUBLICATION_BYTES, PUBLICATIONS, PUBLICATIONS_BYTES
from conversations.protocol.topics import ANY_PARTITION

HEADER_BYTES = 10
"""Number of bytes that are counted for a header in addition to its name and its content."""

Text: TypeAlias = bytes | str
Headers: TypeAlias = Mapping[str, Text] | Iterable[tuple[str, Text]]
Publication: TypeAlias = tuple[str, int, bytes | None, bytes | None, list[tuple[str, bytes]] | None]
"""A record for a plain topic, as a worker appends it: topic, ``ANY_PARTITION``, key, value, headers."""


class Publications:
    """The records that one run of a handler publishes, in order."""

    __slots__ = ("_size", "records")

    def __init__(self) -> None:
        self.records: list[Publication] = []
        self._size = 0

    def add(self, record: Publication) -> None:
        """Add a record.

        Raises:
            LocalError: the handler has published ``PUBLICATIONS`` records already.
            BodyTooLarge: the records have more than ``PUBLICATIONS_BYTES`` bytes in total (8459).
        """
        size = self._size + size_of(record)
        if len(self.records) >= PUBLICATIONS:
            raise LocalError(f"one run of a handler publishes at most {PUBLICATIONS} records")
        if size > PUBLICATIONS_BYTES:
            raise BodyTooLarge(f"one run of a handler publishes at most {PUBLICATIONS_BYTES} bytes, not {size} (8459)")
        self.records.append(record)
        self._size = size


def publication(topic: str, key: Text | None, value: Text | None, headers: Headers | None) -> Publication:
    """Make the record that a handler publishes. Texts become UTF-8.

    Raises:
        LocalError: the topic is no text. The key, the value or a header has a wrong type, or its text cannot be encoded (9615).
        BodyTooLarge: key, value and headers have more than ``PUBLICATION_BYTES`` bytes in total (8459).
    """
    if not isinstance(topic, str):
        raise LocalError(f"a record is published to the name of a topic, not to {topic!r:.80}")
    listed = [] if headers is None else _headers(headers)
    record = (topic, ANY_PARTITION, _bytes("the key", key), _bytes("the value", value), listed or None)
    if (size := size_of(record)) > PUBLICATION_BYTES:
        raise BodyTooLarge(f"the record has {size} bytes; a published record has at most {PUBLICATION_BYTES} (8459)")
    return record


def size_of(record: Publication) -> int:
    """Return the bytes of a record that count for the limits."""
    _, _, key, value, headers = record
    of_headers = sum(len(name.encode()) + len(content) + HEADER_BYTES for name, content in headers or ())
    return len(key or b"") + len(value or b"") + of_headers


def _headers(given: Headers) -> list[tuple[str, bytes]]:
    pairs = given.items() if isinstance(given, Mapping) else given
    found = []
    try:
        for name, content in pairs:
            if not isinstance(name, str) or content is None:
                raise TypeError
            _bytes("the name of a header", name)
            found.append((name, _bytes("a header", content) or b""))
    except (TypeError, ValueError) as error:
        raise _unfit("headers are a mapping, or a list of pairs: a text, and bytes or a text") from error
    return found


def _bytes(what: str, given: Text | None) -> bytes | None:
    if given is None or isinstance(given, bytes):
        return given
    if not isinstance(given, str):
        raise _unfit(f"{what} of a published record is bytes, a text or None, not {given!r:.80}")
    try:
        return given.encode()
    except UnicodeEncodeError as error:
        raise _unfit(f"{what} of a published record cannot be encoded in UTF-8: {given!r:.80}") from error


def _unfit(why: str) -> LocalError:
    return LocalError(f"{why} (9615)", code=codes.INVALID_BODY)
