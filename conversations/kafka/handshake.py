"""Asks a broker which features its cluster has switched on, with the first request of every Kafka client (ApiVersions, version 3).

librdkafka sends the same request, and does not show the answer. A broker answers it before a login, so this module needs no password.
It writes nothing.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

PATIENCE = 2.0
"""Seconds for the connection, and then for the whole answer."""
MOST_BYTES = 1_000_000
"""An answer has about a thousand bytes. A longer one is not Kafka's."""
_API_VERSIONS, _VERSION, _CORRELATION, _FINALIZED = 18, 3, 1, 2
_NAME = b"kafka-dialogs"


def finalized_features(host: str, port: int, settings: Mapping[str, Any]) -> dict[str, int] | None:
    """Return the level of each feature that the cluster has switched on, by name. None if the broker does not tell.

    Args:
        host: the name or the address of a broker.
        port: its port.
        settings: librdkafka's settings. Those for TLS are used.
    """
    try:
        with socket.create_connection((host, port), PATIENCE) as plain, _secured(plain, host, settings) as connection:
            connection.sendall(_request())
            until = monotonic() + PATIENCE
            size = int.from_bytes(_exactly(connection, 4, until), "big")
            return _read(_exactly(connection, size, until)) if 0 < size <= MOST_BYTES else None
    except (OSError, ValueError, IndexError):
        return None


def _secured(plain: socket.socket, host: str, settings: Mapping[str, Any]) -> socket.socket:
    if not str(settings.get("security.protocol", "")).upper().endswith("SSL"):
        return plain
    context = ssl.create_default_context(
        cafile=settings.get("ssl.ca.location") or None, cadata=settings.get("ssl.ca.pem") or None
    )
    context.check_hostname = str(settings.get("ssl.endpoint.identification.algorithm", "https")).lower() == "https"
    if str(settings.get("enable.ssl.certificate.verification", "true")).lower() == "false":
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if certificate := settings.get("ssl.certificate.location"):
        # Without a password given here, OpenSSL would ask for it at the terminal.
        password = str(settings.get("ssl.key.password", ""))
        context.load_cert_chain(certificate, settings.get("ssl.key.location") or None, password)
    return context.wrap_socket(plain, server_hostname=host)


def _request() -> bytes:
    """Return the request: its header has an empty list of tags, and so has its body."""
    header = _big(_API_VERSIONS, 2) + _big(_VERSION, 2) + _big(_CORRELATION, 4) + _big(len(_NAME), 2) + _NAME + b"\0"
    body = bytes([len(_NAME) + 1]) + _NAME + b"\x021\0"
    return _big(len(header) + len(body), 4) + header + body


def _big(number: int, size: int) -> bytes:
    return number.to_bytes(size, "big")


def _exactly(connection: socket.socket, size: int, until: float) -> bytes:
    found = b""
    while len(found) < size:
        if (left := until - monotonic()) <= 0:
            raise ValueError("the answer takes too long")
        connection.settimeout(left)
        part = connection.recv(size - len(found))
        if not part:
            raise ValueError("the connection ended")
        found += part
    return found


def _read(answer: bytes) -> dict[str, int] | None:
    """Return the features in an answer.

    Raises:
        ValueError: the bytes are no such answer.
        IndexError: the bytes end too early.
    """
    it = _Bytes(answer)
    if it.number(4) != _CORRELATION or it.number(2) != 0:
        return None  # an older broker answers with an error and version 0
    it.list_of(lambda: (it.number(2), it.number(2), it.number(2), it.tags()))
    it.number(4)
    found: dict[str, int] = {}
    for _ in range(it.varint()):
        tag, size = it.varint(), it.varint()
        if tag != _FINALIZED:
            it.take(size)
            continue
        features = it.list_of(lambda: (it.text(), it.number(2), it.number(2), it.tags()))
        found.update({name: most for name, most, _, _ in features})
    return found


class _Bytes:
    """Reads the fields of a message, one after the other."""

    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    def take(self, size: int) -> bytes:
        if size < 0 or self._at + size > len(self._content):
            raise IndexError(f"{size} bytes are missing")
        self._at += size
        return self._content[self._at - size : self._at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big", signed=True)

    def varint(self) -> int:
        found = shift = 0
        while True:
            byte = self.take(1)[0]
            found |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return found
            if shift > 28:
                raise ValueError("a number is too long")

    def text(self) -> str:
        return self.take(self.varint() - 1).decode()

    def list_of(self, one: Callable[[], tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        return [one() for _ in range(self.varint() - 1)]

    def tags(self) -> dict[int, bytes]:
        return {self.varint(): self.take(self.varint()) for _ in range(self.varint())}
