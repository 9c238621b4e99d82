"""Objects of a class as JSON, from which the same object is read again. Bodies and the state of groups are written in this way.

Pydantic lets code build or change an object without validation, so what is written is read again, if the object's values do not prove it valid
(``plain_models``). Two faults leave no error there, and are looked for: a field that is written by a name that is not read (``field_names``), and a float
that JSON does not have, which Pydantic writes as null.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pydantic import TypeAdapter, ValidationError

from conversations.field_names import choice_of
from conversations.lost_floats import has_lost_float, lost_float, may_have_floats
from conversations.plain_models import plain_model
from conversations.same_objects import is_same

_DIGITS, _DEPTH = 4_300, 200
"""A number with this many digits, and brackets within each other of this number, are not read."""


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
        self._has_floats = self._is_free or may_have_floats(adapter.core_schema)
        """True if a float may be in an object."""
        self.read: Callable[[bytes], Any] = adapter.validator.validate_json
        """Reads JSON. It raises what Pydantic and the validators of the class raise."""

    def write(self, value: Any) -> bytes:
        """Return an object as JSON.

        Raises:
            ValueError: it would not be read as the same object.
            Exception: whatever Pydantic and the validators and serializers of the class raise.
        """
        data = self._way(value)
        if self._is_free:
            self._check_free(value, data)
            return data
        if self._plain is not None and self._plain.fits(value):
            return data
        if not self._lost:
            self._check_floats(value, self.read(data), data)
            return data
        return self._tried(value)

    def _check_free(self, value: Any, data: bytes) -> None:
        """Check a dict of anything. It is read only if not all of it may be read."""
        has_null = b"null" in data and has_lost_float(value)
        if has_null or len(data) >= _DIGITS or data.count(b"{") + data.count(b"[") >= _DEPTH:
            found = self.read(data)
            if has_null:
                self._check_floats(value, found, data)

    def _tried(self, value: Any) -> bytes:
        """Write an object in the first way in which all of it comes back."""
        unread: ValidationError | None = None
        is_read = False
        for way in (self._way, *self._other_ways):
            data = way(value)
            try:
                found = self.read(data)
            except ValidationError as error:
                unread = unread or error
                continue
            is_read = True
            if is_same(value, found) or way(found) == data:
                self._check_floats(value, found, data)
                return data
        if unread is not None and not is_read:
            raise unread
        raise ValueError(self._lost)

    def _check_floats(self, value: Any, found: Any, data: bytes) -> None:
        if self._has_floats and b"null" in data and has_lost_float(value) and (where := lost_float(value, found)):
            raise ValueError(f"{where}: JSON has no infinity and no NaN; it would arrive as None")
