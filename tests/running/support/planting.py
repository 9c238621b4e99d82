"""Plants a fault into a document, so that a test sees its check find the fault."""

from __future__ import annotations

import copy
from typing import Any

GONE = object()
"""Instead of a value: the key is removed."""


def planted(document: Any, path: str, value: Any) -> Any:
    """Return a copy of a document with another value. The path has keys and places in lists, with slashes between them."""
    changed = copy.deepcopy(document)
    *parents, last = [int(it) if it.isdigit() else it.replace("~", "/") for it in path.split("/")]
    place = changed
    for key in parents:
        place = place[key]
    if value is GONE:
        del place[last]
    elif isinstance(place, list) and last == len(place):
        place.append(value)
    else:
        place[last] = value
    return changed
