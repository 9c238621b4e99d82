"""The keys with which the envelopes to and from a peer are sealed, and where they come from.

A **key** has an id, which goes with each sealed envelope, and a secret, which two services share. A peer may have several keys: the first one
seals, and all of them open. So a key is replaced without a pause: add the new key behind the old one on both sides, then put it first on both
sides, then remove the old one.

Keys come from a file, from an environment variable, or from a class of the application. No secret is in a ``repr``, a log line or an error.
"""

from __future__ import annotations

import base64
import binascii
import importlib
import json
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from conversations.errors import DeclarationError
from conversations.private_files import read_private
from conversations.protocol.limits import NAME

SECRET_BYTES = 32
"""Bytes of a secret."""
MOST_KEYS = 16
"""Maximum number of keys of one peer."""
FILE_BYTES = 1_000_000
"""Maximum bytes of a file or a variable with keys."""
KEY_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
"""Pattern of the ids of keys."""
_FORM = '{"PEER": [{"id": "ID", "secret": "BASE64"}]}'


@dataclass(frozen=True)
class Key:
    """One key.

    Raises:
        DeclarationError: the id has other characters or is too long, or the secret does not have 32 bytes.
    """

    id: str
    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        """Refuse what cannot be a key."""
        key_id: object = self.id
        secret: object = self.secret
        if not isinstance(key_id, str) or not KEY_ID.fullmatch(key_id):
            raise DeclarationError(
                "the id of a key has from 1 to 64 letters, digits, dots, hyphens and underscores: is it the secret?"
            )
        if not isinstance(secret, bytes) or len(secret) != SECRET_BYTES:
            raise DeclarationError(
                f"the secret of key {self.id!r} does not have {SECRET_BYTES} bytes: make one with 'openssl rand -base64 {SECRET_BYTES}'"
            )


@dataclass(frozen=True)
class Keys:
    """The keys of one peer. The first one seals, and all of them open.

    Raises:
        DeclarationError: there is no key, there are too many, or two have the same id.
    """

    keys: tuple[Key, ...]

    def __post_init__(self) -> None:
        """Refuse what cannot be the keys of a peer."""
        if not self.keys or len(self.keys) > MOST_KEYS:
            raise DeclarationError(f"a peer has from 1 to {MOST_KEYS} keys, not {len(self.keys)}")
        if len({key.id for key in self.keys}) < len(self.keys):
            raise DeclarationError("two keys of a peer have the same id: give each a new one")

    @property
    def first(self) -> Key:
        """The key that seals."""
        return self.keys[0]

    def find(self, key_id: str) -> Key | None:
        """Return the key with an id; None if there is none."""
        return next((key for key in self.keys if key.id == key_id), None)


class KeyProvider(Protocol):
    """Knows the keys of peers. A worker asks once for each peer, and uses the answer until it ends."""

    def keys_for(self, peer: str) -> Keys | None:
        """Return the keys that this service shares with a peer; None if envelopes to and from the peer are not sealed.

        If it raises an exception, the worker connects anew and asks again.
        """


class KeyTable:
    """A provider with a fixed table of keys, by the name of the peer."""

    def __init__(self, table: Mapping[str, Keys]) -> None:
        self._table = dict(table)

    def __repr__(self) -> str:
        """Name the peers, and no key."""
        return f"{type(self).__name__}({', '.join(sorted(self._table)) or 'no peers'})"

    def keys_for(self, peer: str) -> Keys | None:
        """Return the keys of a peer; None if the table does not name it."""
        return self._table.get(peer)


class KeyFile(KeyTable):
    """The keys in a JSON file: ``{"PEER": [{"id": "ID", "secret": "BASE64"}]}``. The file is read once.

    Raises:
        DeclarationError: the file cannot be read, other users may read or change it, or it does not have this form.
    """

    def __init__(self, path: str | Path) -> None:
        try:
            text = read_private(Path(path), FILE_BYTES)
        except OSError as error:
            raise DeclarationError(f"the keys in {path} cannot be read: {error.strerror or error}") from None
        super().__init__(_table_of(text, str(path)))


class KeyVariable(KeyTable):
    """The keys in an environment variable, in the form of ``KeyFile``.

    Raises:
        DeclarationError: there is no such variable, or it does not have this form.
    """

    def __init__(self, name: str) -> None:
        text = os.environ.get(name)
        if text is None:
            raise DeclarationError(f"there is no environment variable {name} with keys")
        super().__init__(_table_of(text.encode("utf-8", "replace"), f"the variable {name}"))


_PLACES = "file:PATH, environment:NAME or class:MODULE:NAME"


def check_place(text: str) -> str:
    """Check the form of a place where keys are: ``file:PATH``, ``environment:NAME`` or ``class:MODULE:NAME``. Return it.

    Raises:
        ValueError: the text has another form. It is not repeated, because it may be a secret.
    """
    kind, _, rest = text.partition(":")
    if kind not in {"file", "environment", "class"} or not rest or (kind == "class" and rest.count(":") != 1):
        raise ValueError(f"keys are at {_PLACES}")
    return text


def provider_at(place: str) -> KeyProvider:
    """Return the provider of the keys at a place. A class is called without arguments.

    Raises:
        DeclarationError: there are no keys at this place.
    """
    try:
        kind, _, rest = check_place(place).partition(":")
    except ValueError as error:
        raise DeclarationError(str(error)) from None
    if kind == "file":
        return KeyFile(rest)
    if kind == "environment":
        return KeyVariable(rest)
    module, _, name = rest.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)()
    except Exception as error:  # noqa: BLE001 - code of the application; its text may have a secret
        raise DeclarationError(f"the provider of keys {rest} cannot be made: {type(error).__name__}") from None
    if not callable(getattr(found, "keys_for", None)):
        raise DeclarationError(f"the provider of keys {rest} has no method keys_for(peer)")
    provider: KeyProvider = found
    return provider


def new_secret() -> str:
    """Draw a new secret, as it is written in a file."""
    return base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def _table_of(text: bytes, where: str) -> dict[str, Keys]:
    if len(text) > FILE_BYTES:
        raise DeclarationError(f"{where} has more than {FILE_BYTES} bytes: it has the form {_FORM}")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise DeclarationError(f"{where} is not JSON of the form {_FORM}") from None
    if not isinstance(found, dict):
        raise DeclarationError(f"{where} has the form {_FORM}")
    return {peer: _keys_of(peer, keys, where) for peer, keys in found.items()}


def _keys_of(peer: str, given: Any, where: str) -> Keys:
    if not NAME.fullmatch(peer):
        raise DeclarationError(f"{where}: no service can have the name of one of its peers")
    if not isinstance(given, list) or not all(isinstance(it, dict) and set(it) == {"id", "secret"} for it in given):
        raise DeclarationError(f"{where}: the keys of {peer} have the form {_FORM}")
    try:
        return Keys(tuple(Key(it["id"], _decoded(it["secret"])) for it in given))
    except DeclarationError as error:
        raise DeclarationError(f"{where}, keys of {peer}: {error}") from None


def _decoded(secret: Any) -> bytes:
    try:
        return base64.b64decode(secret, validate=True)
    except (binascii.Error, TypeError, ValueError):
        return b""  # its length is refused, with an error that names the key
