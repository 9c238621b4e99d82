"""The users of the web console: their names, roles and passwords, in a file that others cannot read."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import os
import re
import stat
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from conversations.errors import DeclarationError

log = logging.getLogger("conversations.ops")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
SHORTEST = 10
"""Minimum number of characters of a password."""
LONGEST = 200
"""Maximum number of characters of a password."""
_N, _R, _P = 2**14, 8, 5
"""Cost of scrypt: 16 MiB and about 0.2 s for each attempt."""
_MEMORY = 64 * 1024 * 1024
MANY = 1_000
"""Maximum number of users."""


class Role(StrEnum):
    """What a user may do."""

    VIEWER = "viewer"
    """Look at everything but the bodies of messages."""
    OPERATOR = "operator"
    """Look at everything, and decide."""


class User(NamedTuple):
    """A user who has logged in."""

    name: str
    role: Role
    bodies: bool
    """True if the user may see the bodies of messages, and the texts of exceptions."""
    mark: str = ""
    """It changes with the password, so that a new password ends the sessions that began with the old one."""

    @property
    def decides(self) -> bool:
        """True if the user may change something."""
        return self.role is Role.OPERATOR


class Users:
    """The users in a file. The file is read again when it has changed, so that a user that is removed can do nothing any more."""

    def __init__(self, path: Path, *, viewers_see_bodies: bool = False) -> None:
        self.path = path
        self._viewers_see_bodies = viewers_see_bodies
        self._read_at: tuple[int, ...] = ()
        """Identity and time of the file when it was read."""
        self._known: Mapping[str, Mapping[str, Any]] = {}

    def check(self, name: str, password: str) -> User | None:
        """Return the user with this name and password; None if there is none. A wrong name takes as long as a wrong password.

        Raises:
            DeclarationError: the file cannot be read.
        """
        known = self._now().get(name)
        wanted = _NOBODY if known is None else str(known["password"])
        fits = _matches(password, wanted)
        return self._user(name, known) if fits and known is not None else None

    def has(self, user: User) -> bool:
        """Return True if the file has this user now, with the same role and password. A file that cannot be read has no user."""
        try:
            known = self._now().get(user.name)
        except DeclarationError as error:
            log.warning("every session ends: %s", error)
            return False
        return known is not None and self._user(user.name, known) == user

    def all(self) -> list[User]:
        """Return all users, ordered by name.

        Raises:
            DeclarationError: the file cannot be read.
        """
        return [self._user(name, known) for name, known in sorted(_read(self.path).items())]

    def add(self, name: str, role: Role, password: str) -> None:
        """Add a user, or replace the role and the password of a user.

        Raises:
            DeclarationError: the name or the password cannot be used, or the file cannot be read or written.
        """
        if not NAME.fullmatch(name):
            raise DeclarationError(
                f"the name of a user has at most 64 letters, digits, '.', '_', '@' and '-', not {name!r:.80}"
            )
        if not SHORTEST <= len(password) <= LONGEST:
            raise DeclarationError(f"a password has {SHORTEST} to {LONGEST} characters")
        users = dict(_read(self.path)) if self.path.exists() else {}
        users[name] = {"role": role.value, "password": _hashed(password, os.urandom(16))}
        if len(users) > MANY:
            raise DeclarationError(f"there are at most {MANY} users")
        _write(self.path, users)

    def remove(self, name: str) -> None:
        """Remove a user.

        Raises:
            DeclarationError: there is no such user, or the file cannot be read or written.
        """
        users = dict(_read(self.path))
        if users.pop(name, None) is None:
            raise DeclarationError(f"{self.path} has no user {name!r}")
        _write(self.path, users)

    def _now(self) -> Mapping[str, Mapping[str, Any]]:
        try:
            it = self.path.stat()
            at: tuple[int, ...] = it.st_ino, it.st_mtime_ns, it.st_size, it.st_mode
        except OSError:
            at = ()
        if not at or at != self._read_at:
            self._known, self._read_at = _read(self.path), at
        return self._known

    def _user(self, name: str, known: Mapping[str, Any]) -> User:
        role = Role(known["role"])
        mark = hashlib.sha256(str(known["password"]).encode()).hexdigest()
        return User(name, role, role is Role.OPERATOR or self._viewers_see_bodies, mark)


def _hashed(password: str, salt: bytes) -> str:
    return _stored(salt, hashlib.scrypt(password.encode(), salt=salt, n=_N, r=_R, p=_P, maxmem=_MEMORY))


def _stored(salt: bytes, digest: bytes) -> str:
    return ":".join(["scrypt", str(_N), str(_R), str(_P), *(base64.b64encode(it).decode() for it in (salt, digest))])


def _matches(password: str, stored: str) -> bool:
    _, n, r, p, salt, digest = stored.split(":")
    if len(password) > LONGEST:
        return False
    found = hashlib.scrypt(
        password.encode("utf-8", "replace"), salt=base64.b64decode(salt), n=int(n), r=int(r), p=int(p), maxmem=_MEMORY
    )
    return hmac.compare_digest(found, base64.b64decode(digest))


_NOBODY = _stored(bytes(16), bytes(64))
"""The password of a name that is not known. It takes as long to check as another. No password fits, as no digest is all zeros."""
_STORED = re.compile(r"scrypt:[0-9]{1,7}:[0-9]{1,2}:[0-9]{1,2}:[A-Za-z0-9+/=]{16,64}:[A-Za-z0-9+/=]{16,128}")


def _read(path: Path) -> Mapping[str, Mapping[str, Any]]:
    try:
        with path.open(encoding="utf-8") as file:
            mode = os.fstat(file.fileno()).st_mode
            if stat.S_IMODE(mode) & 0o007:  # the group may: so Kubernetes gives a secret to a container
                raise DeclarationError(f"{path} has passwords, and everybody can read it: chmod 600 {path}")
            users = json.load(file)["users"]
        for name, known in users.items():
            if not NAME.fullmatch(name) or not _STORED.fullmatch(known["password"]):
                raise ValueError(f"user {name!r:.80}")
            Role(known["role"])
    except FileNotFoundError:
        raise DeclarationError(
            f"there is no file {path}: conversations console add-user NAME --role operator"
        ) from None
    except OSError as error:
        raise DeclarationError(f"{path}: {error.strerror}") from error
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise DeclarationError(f"{path} is no file of users: {error!s:.200}") from error
    else:
        found: Mapping[str, Mapping[str, Any]] = users
        return found


def _write(path: Path, users: Mapping[str, Mapping[str, Any]]) -> None:
    new = path.with_name(f"{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new.unlink(missing_ok=True)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(json.dumps({"version": 1, "users": users}, indent=2) + "\n")
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError as error:
        raise DeclarationError(f"{path}: {error.strerror}") from error
