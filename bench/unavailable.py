"""What a contender says that cannot take part."""

from __future__ import annotations

import re

ADDRESS = re.compile(r"\w+://\S+")
"""Left out of what is told: the reason is kept in the results, and where packages come from is nobody's business."""


class Unavailable(Exception):
    """A contender cannot be run on this machine; says why."""

    def __init__(self, why: str) -> None:
        super().__init__(ADDRESS.sub("the package index", why))
