"""The codec for the state of conversation groups. Stored state has a version, and state of an older version is upgraded."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, NamedTuple

from pydantic import AliasChoices, AliasPath, BaseModel, RootModel, TypeAdapter, ValidationError

from conversations.bodies import describe, schema_of
from conversations.errors import DeclarationError, NewerState, StateUpgradeError
from conversations.ports import StateReader
from conversations.protocol import rows
from conversations.protocol.times import moment
from conversations.typed_json import TypedJson

Upgrade = Callable[[Any], Any]


class GroupState(NamedTuple):
    """The state of a conversation group, read from outside."""

    value: Any
    """A copy of ``group.state``: an object of the service's state class. A change of it has no effect."""
    as_of: datetime
    """Time of the reading, by the clock of the reader. All effects that were committed before are in the value."""


def read_state(reader: StateReader, codec: StateCodec, group: str, begun_by: str | None) -> GroupState | None:
    """Read the state of a group, with the reader for its service. Return None if the group has no state.

    Args:
        reader: reads the rows of the service.
        codec: the codec of the service.
        group: key of the group.
        begun_by: None for a group that initiators name (``to_group``), or that the service itself began; else the service that began the
            dialogs of the group.

    Raises:
        DeclarationError: the catalog does not name the service.
        StateUpgradeError: the stored state does not load.
        LogError: the state cannot be read.
    """
    origins = [rows.SHARED, ""] if begun_by is None else [begun_by]
    kept, at = reader.read(group, [rows.group_key(origin, group) for origin in origins])
    found = next((it for row in kept if (it := rows.decode_group(row)).state), None)
    return None if found is None else GroupState(codec.decode(found.state, found.version), moment(at))


class StateCodec:
    """Encodes and decodes group state.

    A field of the state that this release does not know stays in the stored state, with its value, for the release that knows it. Several
    releases may work side by side, and a partition moves from one to another. Only the fields of the state's own class stay, not those of
    nested classes. A class that is no ``BaseModel``, or that sets ``extra`` in its ``model_config``, decides itself about unknown fields.

    Args:
        service: name of the service, for error messages.
        state: class of the state; None stands for a dict.
        version: version of the state that ``encode`` writes, from 1.
    """

    def __init__(self, service: str, state: type | None, version: int) -> None:
        self._service = service
        self.version = version
        self._class: Any = dict if state is None else state
        self._upgrades: dict[int, Upgrade] = {}
        if version < 1:
            raise DeclarationError(f"service {service!r}: state_version counts from 1")
        try:
            adapter: TypeAdapter[Any] = TypeAdapter(dict[str, Any] if state is None else state)
        except Exception as error:  # Pydantic raises several kinds of exceptions for a class without a schema
            raise DeclarationError(f"service {service!r}: {state!r} is no class Pydantic can store: {error}") from error
        self._adapter = adapter
        self._known: frozenset[str] | None = None
        """Names of the fields that this release knows; None if the class decides itself about other fields."""
        if isinstance(state, type) and issubclass(state, BaseModel) and _has_fields(state):
            self._known = frozenset(_names(state))
        self._json = TypedJson(state, adapter, warnings="error")
        self._validate = adapter.validator.validate_python

    def upgrade(self, version: int) -> Callable[[Upgrade], Upgrade]:
        """Return a decorator. It registers the function that upgrades state from ``version`` to the next version.

        Raises:
            DeclarationError: ``version`` is not a number.
        """
        if not isinstance(version, int):
            raise DeclarationError("upgrade_state takes the version that it upgrades: @service.upgrade_state(1)")

        def register(function: Upgrade) -> Upgrade:
            self._upgrades[version] = function
            return function

        return register

    def check(self) -> None:
        """Check that every older version has an upgrade, and that the state of a new group can be made without arguments.

        Raises:
            DeclarationError: an upgrade is missing, or a field has no default. The message names the version or the field.
        """
        missing = [str(v) for v in range(1, self.version) if v not in self._upgrades]
        if missing:
            raise DeclarationError(
                f"service {self._service!r} has state version {self.version} but no upgrade from version "
                f"{', '.join(missing)}; register it with @service.upgrade_state({missing[0]})"
            )
        try:
            self.new()
        except Exception as error:  # a class of the application may raise anything
            raise DeclarationError(
                f"service {self._service!r}: a new group begins with {self._class.__name__}(), which fails: {describe(error)}; "
                "give every field a default"
            ) from error

    def new(self) -> Any:
        """Return the state of a new group."""
        return self._class()

    def schema(self) -> dict[str, Any] | None:
        """Return the JSON schema of the state for the catalog; None for a dict, and for a class that has no schema."""
        return None if self._class is dict else schema_of(self._adapter)

    def encode(self, state: Any) -> bytes:
        """Encode state as JSON.

        Raises:
            TypeError, ValueError: the state is not a valid object of its class.
        """
        if not isinstance(state, self._class):
            raise TypeError(f"group.state must be a {self._class.__name__}, not {type(state).__name__}")
        return self._json.write(state)

    def with_unknown(self, data: bytes, stored: bytes) -> bytes:
        """Return encoded state with the fields of the stored state of the same version that this release does not know.

        If there are none, the result is ``data`` itself.
        """
        if self._known is None:
            return data
        now, before = json.loads(data), json.loads(stored)
        kept = {name: value for name, value in before.items() if name not in self._known and name not in now}
        return json.dumps(now | kept, ensure_ascii=False, separators=(",", ":")).encode() if kept else data

    def decode(self, data: bytes, version: int) -> Any:
        """Decode state. State of an older version is upgraded.

        Raises:
            NewerState: the state has a newer version.
            StateUpgradeError: an upgrade failed, or the state does not fit its class.
        """
        if not data:
            return self.new()
        if version > self.version:
            raise self.newer(version)
        try:
            if version == self.version:
                return self._json.read(data)
            plain = json.loads(data)
            for step in range(version, self.version):
                plain = self._upgrades[step](plain)
            return self._validate(plain)
        except (ValidationError, ValueError, KeyError, TypeError) as error:
            raise StateUpgradeError(
                f"service {self._service!r}: stored state of version {version} does not load as version {self.version}: "
                f"{describe(error)}{self._fix(version)}"
            ) from error

    def newer(self, version: int) -> NewerState:
        """Return the error for stored state of a version that this release does not know."""
        return NewerState(
            f"service {self._service!r}: stored state has version {version}, but this code has version {self.version}; "
            "a release with that version can handle the message"
        )

    def _fix(self, version: int) -> str:
        """Return the advice for a class that has changed and no longer fits the stored state; "" if the fault is in an upgrade."""
        if version < self.version:
            return ""
        return (
            f"; if the class has changed, make the service with state_version={version + 1} "
            f"and turn old state into new in a function @service.upgrade_state({version})"
        )


def _has_fields(state: type[BaseModel]) -> bool:
    """Return True if the JSON of a class is an object with the class's own fields, and the class says nothing about other fields."""
    writes_itself = issubclass(state, RootModel) or state.__pydantic_decorators__.model_serializers
    return not writes_itself and "extra" not in state.model_config


def _names(state: type[BaseModel]) -> Iterator[str]:
    """Yield the names that a class reads from JSON, and those that it writes."""
    for name, field in state.model_fields.items():
        yield name
        yield from _aliases(field.alias, field.serialization_alias, field.validation_alias)
    for name, computed in state.model_computed_fields.items():
        yield name
        yield from _aliases(computed.alias)


def _aliases(*aliases: str | AliasPath | AliasChoices | None) -> Iterator[str]:
    for alias in aliases:
        if isinstance(alias, AliasChoices):
            yield from _aliases(*alias.choices)
        elif isinstance(alias, AliasPath):
            yield str(alias.path[0])
        elif alias is not None:
            yield alias
