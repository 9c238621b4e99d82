"""Checks of settings and addresses when they are given, so that a slip is told before anything starts."""

from __future__ import annotations

import re
from dataclasses import MISSING, fields
from datetime import timedelta
from typing import Any

from conversations.errors import DeclarationError

_ADDRESS = re.compile(
    r"(?:(?:PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL)://)?(\[[^\]\s]+\]|[^:/\s\[\]]+)(:[0-9]{1,5})?", re.IGNORECASE
)
"""One address as librdkafka reads it: a protocol that Kafka knows, a host or an IPv6 address in brackets, and a port."""
_TYPES = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    timedelta: "a timedelta, for example timedelta(seconds=1)",
}


def check_bootstrap(given: object) -> None:
    """Check the addresses of some brokers.

    Raises:
        DeclarationError: they are no text, or an address does not have the form ``host:port``.
    """
    written = "Kafka('host:9092') or Kafka('host:9092,other:9092')"
    if not isinstance(given, str):
        raise DeclarationError(f"the addresses of brokers are one text: {written}, not {given!r:.80}")
    for address in given.split(","):
        if not _ADDRESS.fullmatch(address.strip()):
            raise DeclarationError(f"{address.strip()!r:.80} is no address of a broker: write {written}")


def addresses_of(bootstrap: str) -> list[str]:
    """Return the addresses of brokers, each without its protocol: ``host:port``."""
    return [address.strip().rpartition("://")[2] for address in bootstrap.split(",")]


def without_port(bootstrap: str) -> list[str]:
    """Return the addresses that have no port. Kafka's client uses port 9092 for them."""
    found = [(address.strip(), _ADDRESS.fullmatch(address.strip())) for address in bootstrap.split(",")]
    return [address for address, match in found if match is not None and match[2] is None]


def check_types(group: Any, error: type[Exception] = ValueError) -> None:
    """Check that each setting of a group has the type of its default. A setting whose default is None is not checked.

    Raises:
        ValueError: a setting has another type. ``error`` names another class to raise.
    """
    for it in fields(group):
        value, told = getattr(group, it.name), it.metadata
        default = type(it.default)
        if (
            it.default is None
            or it.default is MISSING
            or (value is None and (told.get("never") or told.get("unit") == "switch"))
        ):
            continue
        fits = isinstance(value, int | float if default is float else default) and not isinstance(value, bool)
        if not fits:
            raise error(
                f"{it.name} is {_TYPES.get(default, f'an object of class {default.__name__}')}, not {value!r:.80}"
            )


def check_least(group: Any) -> None:
    """Check the type of each setting of a group, and that no setting is below its minimum.

    Raises:
        ValueError: a setting has another type than its default, or is too small.
    """
    check_types(group)
    for it in fields(group):
        value, least = getattr(group, it.name), it.metadata.get("least", 0)
        if isinstance(value, timedelta):
            value //= timedelta(microseconds=1)
        words = it.metadata.get("words")
        if words and value not in words:
            raise ValueError(f"{it.name} must be {' or '.join(words)}, not {value!r:.80}")
        if isinstance(value, int | float) and value < least:
            raise ValueError(f"{it.name} must {'be more than zero' if least else 'not be less than zero'}")
