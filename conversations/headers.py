"""Reading the headers of a record: once, because the client's second answer may crash the process."""

from __future__ import annotations

from operator import methodcaller

from conversations.ports import Headers, Record

_asked = methodcaller("headers")
"""Asks through C: Python 3.11 overlooks an exception that a frequent call raises while it also returns a value."""


def read_headers(record: Record) -> Headers | None:
    """Return a record's headers, ``[]`` if it has none, None if they cannot be read; ask once for each record.

    confluent-kafka raises for a name that is not UTF-8, and keeps a list with a hole in it, which it gives out when it
    is asked again: looking at that ends the process with a segmentation fault.
    """
    try:
        headers: Headers | None = _asked(record)
    except (ValueError, SystemError):
        return None
    return headers or []
