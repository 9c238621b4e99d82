"""Contracts named on a command line: ``module:NAME``."""

from __future__ import annotations

import importlib
from typing import Any

from conversations.errors import DeclarationError
from conversations.protocol.contract import Contract
from conversations_ops.console.search_path import search_here

HOW = "write it as module:NAME, for instance shop.contracts:LOANS for LOANS in shop/contracts.py"


def find_contract(target: str) -> Contract:
    """Import a contract. The current directory is on the search path; ``conversations run`` does the same.

    Raises:
        DeclarationError: the module or the name is missing, the code fails, or the value is not a contract.
    """
    name, colon, attribute = target.partition(":")
    if not (name and colon and attribute):
        raise DeclarationError(f"{target!r} does not say which contract of which module: {HOW}")
    here = search_here()
    try:
        module: Any = importlib.import_module(name)
    except DeclarationError:
        raise
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise DeclarationError(f"{target!r} cannot be imported: its code fails with {error!r}") from error
        raise DeclarationError(f"{target!r}: there is no module {error.name!r} in {here}; {HOW}") from None
    except Exception as error:  # the code of the module may raise any exception
        raise DeclarationError(f"{target!r} cannot be imported: its code fails with {error!r}") from error
    found = getattr(module, attribute, None)
    if isinstance(found, Contract):
        return found
    there = [known for known, value in vars(module).items() if isinstance(value, Contract)]
    raise DeclarationError(
        f"module {name!r} has no contract {attribute!r}; it has: {', '.join(sorted(there)) or 'none'}"
    )
