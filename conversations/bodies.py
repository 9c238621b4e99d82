"""Codecs for the bodies of messages. Each message type has its own codec."""

from __future__ import annotations

import io
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import fastavro
from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from conversations.avro_values import difference
from conversations.errors import DeclarationError, InvalidBody, Verdict
from conversations.protocol import strict
from conversations.protocol.codes import BODY_NOT_EMPTY
from conversations.protocol.contract import NEWEST, MessageType
from conversations.protocol.envelope import message_run
from conversations.typed_json import TypedJson

JSON = "application/json"
"""Content type of version 1 of a body that is JSON."""


def content_type(version: int) -> str:
    """Return the content type of a body that is JSON, of this version."""
    return JSON if version == 1 else f"{JSON};version={version}"


def version_of(found: str) -> int:
    """Return the version in a content type; 1 if it has none.

    Raises:
        InvalidBody: the version is no number from 1 to ``NEWEST``.
    """
    for parameter in found.split(";")[1:]:
        name, _, number = parameter.partition("=")
        if name.strip().lower() == "version":
            return _version(number.strip().strip('"'), found)
    return 1


def _version(number: str, found: str) -> int:
    fits = number.isascii() and number.isdigit() and len(number) <= len(str(NEWEST))
    if not fits or not 1 <= int(number) <= NEWEST:
        raise InvalidBody(f"the content type {found[:100]!r} has no version from 1 to {NEWEST}")
    return int(number)


class BodyCodec(ABC):
    """Encodes and decodes the bodies of one message type."""

    def __init__(self, name: str, content_type: str) -> None:
        self.name = name
        """Name of the message type."""
        self.content_type = content_type
        self.run = message_run(name, content_type)
        """The encoded fields of an envelope from the message type to the content type; see ``protocol.envelope_run``."""

    @abstractmethod
    def encode(self, body: Any) -> bytes:
        """Encode a body.

        Raises:
            InvalidBody: the body does not fit the message type. The error names the field.
        """

    @abstractmethod
    def decode(self, data: bytes) -> Any:
        """Decode a body.

        Raises:
            InvalidBody: the body does not fit the message type. The error names the field.
        """


class _BytesBody(BodyCodec):
    def __init__(self, name: str) -> None:
        super().__init__(name, "application/octet-stream")

    def encode(self, body: Any) -> bytes:
        if type(body) is not bytes:
            raise InvalidBody(f"{self.name}: the body must be bytes, not {type(body).__name__}")
        return body

    def decode(self, data: bytes) -> bytes:
        return data


class _NoBody(BodyCodec):
    def __init__(self, name: str) -> None:
        super().__init__(name, "")

    def encode(self, body: Any) -> bytes:
        if body is not None:
            raise InvalidBody(f"{self.name}: the message type has no body; send None (8430)", code=BODY_NOT_EMPTY)
        return b""

    def decode(self, data: bytes) -> None:
        if data:
            raise InvalidBody(
                f"{self.name}: the message type has no body, {len(data)} bytes arrived", code=BODY_NOT_EMPTY
            )


class UnknownBody(_NoBody):
    """The codec of a message type that this release does not know. No body fits it."""

    def decode(self, data: bytes) -> None:
        """Refuse every body.

        Raises:
            InvalidBody: always.
        """
        raise InvalidBody(
            f"{self.name}: this release does not know the message type, of which {len(data)} bytes arrived"
        )


class _TypedBody(BodyCodec):
    def __init__(self, name: str, body: type, version: int) -> None:
        super().__init__(name, content_type(version))
        self._body = body
        adapter: TypeAdapter[Any] = TypeAdapter(body)
        self._json = TypedJson(body, adapter, warnings=False)

    def encode(self, body: Any) -> bytes:
        if not isinstance(body, self._body):
            raise InvalidBody(f"{self.name}: the body must be a {self._body.__name__}, not {type(body).__name__}")
        try:
            return self._json.write(body)
        except (Exception, Verdict) as error:  # serializers and validators of the application may raise anything
            raise InvalidBody(f"{self.name}: {describe(error)}") from error

    def decode(self, data: bytes) -> Any:
        try:
            return self._json.read(data)
        except (Exception, Verdict) as error:  # a validator of the application may raise anything
            raise InvalidBody(f"{self.name}: {describe(error)}") from error


class _AvroBody(BodyCodec):
    def __init__(self, name: str, schema: Mapping[str, Any]) -> None:
        super().__init__(name, "avro/binary")
        try:
            parsed: Any = fastavro.parse_schema(dict(schema))
            self._schema, self._names = parsed, parsed.get("__named_schemas", {})
        except Exception as error:
            raise DeclarationError(f"message type {name!r}: not an Avro schema: {error}") from error

    def encode(self, body: Any) -> bytes:
        out = io.BytesIO()
        try:
            fastavro.schemaless_writer(out, self._schema, body, strict=True)
            data = out.getvalue()
            strict.check(self._schema, self._names, data, 0)  # never send a body that the peer cannot decode
            out.seek(0)
            why = difference(body, fastavro.schemaless_reader(out, self._schema, None))
        except (Exception, Verdict) as error:  # methods of the application's objects may raise anything
            raise InvalidBody(f"{self.name}: {error}") from error
        if why:
            raise InvalidBody(f"{self.name}: {why}")
        return data

    def decode(self, data: bytes) -> Any:
        source = io.BytesIO(data)
        try:
            # fastavro's C code does not check lengths and depths. A few bytes could make it take all memory or overrun
            # the stack. So ``strict`` checks the bytes first.
            strict.check(self._schema, self._names, data, 0)
            return fastavro.schemaless_reader(source, self._schema, None)
        except Exception as error:  # any exception means that the bytes do not fit the schema
            raise InvalidBody(f"{self.name}: {type(error).__name__} {error}") from error


def may_fit_elsewhere(codec: BodyCodec, data: bytes) -> bool:
    """Return True if a body that does not fit its type may fit the type in another release; False if no release could send the body."""
    if not codec.content_type.startswith(JSON):
        return True
    try:
        from_json(data)
    except ValueError:
        return False
    return True


def said(error: BaseException) -> str:
    """Return the text of an exception. If ``str`` of the exception fails, return a text that names the class of the exception."""
    try:
        return str(error)
    except BaseException:  # noqa: BLE001 - ``__str__`` of an application's exception may raise anything, also SystemExit
        return f"<{type(error).__name__}, whose text cannot be made>"


def describe(error: BaseException) -> str:
    """Return the faults of a body in one line, at most five: the path of each wrong field, and the reason. The fields' values are left out.

    An exception that is not a ``ValidationError`` has no paths. The result is its text.
    """
    if not isinstance(error, ValidationError):
        return said(error)
    parts = []
    for problem in error.errors(include_url=False, include_input=False, include_context=False)[:5]:
        path = ".".join(str(part) for part in problem["loc"]) or "body"
        parts.append(f"{path}: {problem['msg']}")
    return "; ".join(parts)


SCHEMA_CHARACTERS = 20_000
"""Longest schema of a body that is written to the catalog, in characters."""
ALL_CHARACTERS = 500_000
"""Longest schemas of all bodies of a service together, so that the entry of the catalog fits into a record."""
_DECORATION = {"title", "description", "examples"}


def shapes_of(types: Iterable[MessageType]) -> dict[str, dict[str, Any]]:
    """Return the version and the schema of each body by the name of its type, for the catalog. Schemas that are too long are left out."""
    shapes, left = {}, ALL_CHARACTERS
    for declared in types:
        shape = _shape(declared)
        left -= len(json.dumps(shape))
        shapes[declared.name] = shape if left > 0 else {"version": declared.version}
    return shapes


def _shape(declared: MessageType) -> dict[str, Any]:
    body, shape = declared.body, {"version": declared.version}
    if isinstance(body, Mapping):
        return shape | {"schema": dict(body)}
    if not isinstance(body, type) or body is bytes:
        return shape
    schema = schema_of(TypeAdapter(body))
    return shape if schema is None else shape | {"schema": schema}


def schema_of(adapter: TypeAdapter[Any]) -> dict[str, Any] | None:
    """Return the JSON schema of a class, without decoration, for the catalog. None if the class has none, or if the schema is too long."""
    try:
        schema: dict[str, Any] = _undecorated(adapter.json_schema())
    except Exception:  # noqa: BLE001 - a class may be valid and have no JSON schema; Pydantic raises several kinds of exceptions
        return None
    return schema if len(json.dumps(schema)) <= SCHEMA_CHARACTERS else None


def _undecorated(schema: Any, *, names: bool = False) -> Any:
    """Return a JSON schema without titles and descriptions, which change nothing. ``names``: the keys of ``schema`` are names of fields."""
    if isinstance(schema, list):
        return [_undecorated(it) for it in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _undecorated(value, names=key in {"properties", "$defs"} and not names)
        for key, value in schema.items()
        if names or key not in _DECORATION
    }


@lru_cache(maxsize=4096)
def codec_of(declared: MessageType) -> BodyCodec:
    """Return the codec of a message type.

    Raises:
        DeclarationError: the declared body is not valid. It must be a class that Pydantic knows, an Avro schema, "bytes" or None.
    """
    body = declared.body
    if body == "bytes" or body is bytes:
        return _BytesBody(declared.name)
    if body is None:
        return _NoBody(declared.name)
    if isinstance(body, Mapping):
        return _AvroBody(declared.name, body)
    try:
        return _TypedBody(declared.name, body, declared.version)
    except Exception as error:  # Pydantic raises several kinds of exceptions for a class without a schema
        raise DeclarationError(
            f"message type {declared.name!r}: {body!r} is not a body Pydantic knows: {error}"
        ) from error
