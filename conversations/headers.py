"""The headers of a record. They are read only one time, because a second call of ``headers()`` may crash the process."""

from __future__ import annotations

from operator import methodcaller

from conversations.ports import Headers, Record

_asked = methodcaller("headers")
"""A function that calls ``record.headers()`` from C code.

confluent-kafka may set an exception and return a value at the same time. Python 3.11 optimizes a frequent direct call, and then
overlooks this exception.
"""


def read_headers(record: Record) -> Headers | None:
    """Return a record's headers: ``[]`` if it has none, None if a name is not UTF-8. Call this function only once for each record.

    If the name of a header is not UTF-8, confluent-kafka raises an exception, but keeps an incomplete list of headers. The next call of
    ``headers()`` returns this list. Code that reads the list ends the process with a segmentation fault.
    """
    try:
        headers: Headers | None = _asked(record)
    except (ValueError, SystemError):
        return None
    return headers or []
