"""Errors about the value of an option."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer


@contextmanager
def about_option(option: str) -> Iterator[None]:
    """If the block raises ``ValueError``, let the command end with this error about an option."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(f"{option}: {error}") from None
