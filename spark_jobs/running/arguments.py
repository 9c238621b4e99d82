"""Readers of option values, for the ``type`` of an option. A wrong value is refused with a message."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def argument(read: Callable[[str], T]) -> Callable[[str], T]:
    """Return ``read`` with each ValueError turned into an error message of the command line."""

    def checked(text: str) -> T:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return checked


def whole(least: int, most: float = float("inf")) -> Callable[[str], int]:
    """Return a reader of whole numbers from ``least`` to ``most``."""
    range_ = f"from {least}" if most == float("inf") else f"from {least} to {most}"

    def read(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= most:
            raise ValueError(f"{text!r} is no whole number {range_}")
        return int(text)

    return argument(read)


def pair(text: str) -> tuple[str, str]:
    """Read NAME=VALUE.

    Raises:
        argparse.ArgumentTypeError: the text has another form.
    """
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value
