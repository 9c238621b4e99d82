"""Objects of a class as JSON, from which the same object is read again. Bodies and the state of groups are written in this way.

Pydantic lets code build or change an object without validation, so what is written is read again, if the object's values do not prove it valid
(``plain_models``). Two faults leave no error there, and are looked for: a field that is written by a name that is not read (``field_names``), and a float
that JSON does not have, which Pydantic writes as null.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pydantic import TypeAdapter

from conversations.field_names import choice_of
from conversations.lost_floats import lost_float
from conversations.plain_models import plain_model


class TypedJson:
    """Writes objects of a class as JSON, and reads them.

    Args:
        kind: the class; None for a dict of anything.
        adapter: Pydantic's adapter of the class.
        warnings: what Pydantic does about a value of a wrong type: False, or "error" to raise an exception.
    """

    def __init__(self, kind: Any, adapter: TypeAdapter[Any], warnings: Any) -> None:
        to_json: Callable[..., bytes] = adapter.serializer.to_json
        choice = choice_of(adapter.core_schema)
        ways = [partial(to_json, warnings=warnings, **({} if it is None else {"by_alias": it})) for it in choice.ways]
        self._way: Callable[[Any], bytes] = ways[0]
        self._other_ways: Sequence[Callable[[Any], bytes]] = ways[1:]
        self._lost = choice.lost
        """Why a field may be lost; "" if no field is."""
        self._is_free = not isinstance(kind, type)
        """True for a dict of anything, which is read from any JSON object."""
        self._plain = plain_model(kind, adapter.core_schema) if isinstance(kind, type) else None
        self.read: Callable[[bytes], Any] = adapter.validator.validate_json
        """Reads JSON. It raises what Pydantic and the validators of the class raise."""

    def write(self, value: Any) -> bytes:
        """Return an object as JSON.

        Raises:
            ValueError: it would not be read as the same object.
            Exception: whatever Pydantic and the validators and serializers of the class raise.
        """
        data = self._way(value)
        if self._plain.fits(value) if self._plain is not None else self._is_free and b"null" not in data:
            return data
        if not self._lost:
            self._check_floats(value, self.read(data), data)
            return data
        for way in (self._way, *self._other_ways):
            data = way(value)
            found = self.read(data)
            if found == value or way(found) == data:
                self._check_floats(value, found, data)
                return data
        raise ValueError(self._lost)

    def _check_floats(self, value: Any, found: Any, data: bytes) -> None:
        if b"null" in data and (path := lost_float(value, found, "")) is not None:
            where = path.removeprefix(".") or "the value"
            raise ValueError(f"{where}: JSON has no infinity and no NaN; it would arrive as None")
