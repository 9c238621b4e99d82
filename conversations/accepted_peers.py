"""The peers from which a service accepts dialogs: ``Service(accepts_from=[...])``."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypedDict

from conversations.errors import DeclarationError
from conversations.protocol.contract import listed
from conversations.protocol.topics import check_name


class Further(TypedDict, total=False):
    """Arguments of ``Service`` that few services need."""

    accepts_from: Sequence[str]


def accepted_peers(service: str, accepts: Collection[str], further: Mapping[str, Any]) -> frozenset[str] | None:
    """Check the argument ``accepts_from``, and return the names; None if every peer is accepted.

    Args:
        service: name of the service.
        accepts: names of the contracts that the service accepts.
        further: the further arguments of ``Service``.

    Raises:
        TypeError: there is no such argument.
        DeclarationError: it is no list of names of services, it is empty, or the service accepts no contract.
    """
    for name in further.keys() - Further.__annotations__:
        raise TypeError(f"Service() got an unexpected keyword argument {name!r}")
    given = further.get("accepts_from")
    if given is None:
        return None
    names = [check_name("service", it) for it in listed("accepts_from", given, "names of services")]
    if not names:
        raise DeclarationError(
            f"service {service!r}: accepts_from is empty, so nobody could begin a dialog: name a service, leave accepts_from out to accept "
            "every peer, or leave accepts out to accept no dialog"
        )
    if not accepts:
        raise DeclarationError(
            f"service {service!r} has accepts_from, and accepts no contract: name one in accepts=[...]"
        )
    return frozenset(names)
