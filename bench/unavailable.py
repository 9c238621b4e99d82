"""The error of a contender that cannot be run on this machine."""

from __future__ import annotations

import re

ADDRESS = re.compile(r"\w+://\S+")
"""Addresses in a reason. They are replaced, because the results keep the reason, and the address of a package index is private."""


class Unavailable(Exception):
    """A contender cannot be run on this machine. The text says why."""

    def __init__(self, why: str) -> None:
        super().__init__(ADDRESS.sub("the package index", why))
