"""Upgrades of message bodies: functions that turn a body of an older version of its message type into a body of the next version.

The content type of a message has the version of its body. A sender of an older release sends an older version. Also a message that was sent
before a release may be handled after it. A body of a newer version is decoded as it is: a field that this release does not know does no harm.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from conversations.bodies import BodyCodec, describe, version_of
from conversations.errors import DeclarationError, InvalidBody, Verdict
from conversations.protocol.contract import Declared, MessageType, as_message_type

Upgrade = Callable[[Any], Any]


class BodyUpgrades:
    """The upgrades of one service, by message type and version."""

    def __init__(self, service: str) -> None:
        self._service = service
        self._functions: dict[tuple[str, int], Upgrade] = {}
        self._types: dict[str, MessageType] = {}

    def register(self, message: Declared, version: int) -> Callable[[Upgrade], Upgrade]:
        """Return a decorator. It registers the function that upgrades bodies of ``message`` from ``version`` to the next version.

        Raises:
            DeclarationError: ``message`` is no message type with a class, or ``version`` is no earlier version of it, or has an upgrade
                already.
        """
        declared = as_message_type(message)
        if type(version) is not int or not 1 <= version < declared.version:
            raise DeclarationError(
                f"an upgrade of {declared.name!r} starts from a version before {declared.version}, not from {version!r:.80}. The version of "
                f"the class is set by @message_type(version=...) over it"
            )
        if (declared.name, version) in self._functions:
            raise DeclarationError(
                f"service {self._service!r} has an upgrade of {declared.name!r} from {version} already"
            )

        def add(function: Upgrade) -> Upgrade:
            self._functions[declared.name, version] = function
            self._types[declared.name] = declared
            return function

        return add

    def check(self, received: Iterable[MessageType]) -> None:
        """Check that each version of each received message type can be upgraded, and that each upgrade is for a received type.

        Raises:
            DeclarationError: an upgrade is missing, or is never used. The message says what to write.
        """
        versions: dict[str, int] = {}
        for declared in received:  # two contracts may have classes of different versions for one name
            versions[declared.name] = max(declared.version, versions.get(declared.name, 0))
        for name, newest in versions.items():
            for version in range(1, newest):
                if (name, version) not in self._functions:
                    raise DeclarationError(
                        f"service {self._service!r} receives {name} of version {newest} and has no upgrade from version {version}; "
                        f"register it with @service.upgrade({name}, {version})"
                    )
        if unused := sorted(self._types.keys() - versions.keys()):
            raise DeclarationError(
                f"service {self._service!r} has an upgrade of {unused[0]!r}, which it never receives"
            )

    def decode(self, codec: BodyCodec, content_type: str, data: bytes) -> Any:
        """Decode a body whose content type is not that of its codec.

        Raises:
            InvalidBody: the body does not fit its type, or an upgrade failed.
        """
        version, own = version_of(content_type), version_of(codec.content_type)
        if version >= own:
            return codec.decode(data)
        try:
            plain = json.loads(data)
            for step in range(version, own):
                plain = self._functions[codec.name, step](plain)
            upgraded = json.dumps(plain).encode()
        except (Exception, Verdict) as error:  # an upgrade of the application may raise anything
            raise InvalidBody(
                f"{codec.name}: a body of version {version} cannot be upgraded to version {own}: {type(error).__name__}: {describe(error)}"
            ) from error
        return codec.decode(upgraded)
