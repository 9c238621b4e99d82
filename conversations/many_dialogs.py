"""Beginning many dialogs in one call: one command for each, many commands under way at the same time."""

from __future__ import annotations

import concurrent.futures
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from conversations.client_dialog import ClientDialog
from conversations.errors import ConversationError, DeclarationError, LocalError, UnknownService

UNDER_WAY = 1_000
"""Maximum number of commands that wait for Kafka's confirmation at the same time."""


class Opening(NamedTuple):
    """A dialog to begin with one message."""

    id: str
    """A UUIDv7 from ``Client.new_id``. A second begin with the same id has no effect."""
    body: object
    group: str | None = None
    to_group: str | None = None


class Begun(NamedTuple):
    """The result for one dialog of ``Client.begin_dialogs``."""

    id: str
    """The id for ``Client.dialog`` and ``Reader.dialog``."""
    error: Exception | None
    """None if Kafka has the dialog's command. Else the error that a block of its own would raise."""


class _Confirming(NamedTuple):
    at: int
    dialog: ClientDialog
    future: concurrent.futures.Future[None]
    deadline: float


def begin_all(
    begin: Callable[[Opening], ClientDialog], openings: Iterable[Opening | tuple[str, object]], timeout: float
) -> list[Begun]:
    """Begin a dialog for each opening, and return the results in order. At most ``UNDER_WAY`` commands wait at the same time.

    Raises:
        UnknownService: the catalog does not name the service (8490). Nothing was written.
        LocalError: an opening is not a pair of an id and a body.
    """
    results: list[Begun] = []
    confirming: deque[_Confirming] = deque()
    for given in openings:
        opening = _opening(given)
        try:
            dialog = begin(opening)
            dialog.__enter__()  # the block is never left: its requests are written here, and their confirmation comes later
            dialog.send(opening.body)
            future = dialog.append()
        except (ConversationError, DeclarationError) as error:
            results.append(Begun(str(opening.id), error))
            continue
        if future is not None:
            confirming.append(_Confirming(len(results), dialog, future, time.monotonic() + timeout))
        results.append(Begun(dialog.id, None))
        # The first command is waited for, so that a wrong name of the service is found before anything else is written.
        while len(confirming) >= (UNDER_WAY if len(results) > 1 else 1):
            _settle(confirming.popleft(), results)
    while confirming:
        _settle(confirming.popleft(), results)
    return results


def _opening(given: object) -> Opening:
    if not isinstance(given, tuple) or not 2 <= len(given) <= len(Opening._fields):
        raise LocalError(
            f"begin_dialogs takes pairs of an id and a body, or objects of class Opening, not {given!r:.80}"
        )
    return Opening(*given)


def _settle(it: _Confirming, results: list[Begun]) -> None:
    try:
        it.future.result(max(0.0, it.deadline - time.monotonic()))
    except TimeoutError:
        results[it.at] = Begun(it.dialog.id, it.dialog.unconfirmed())
    except UnknownService as error:
        if it.at == 0:
            raise
        results[it.at] = Begun(it.dialog.id, error)
    except (ConversationError, DeclarationError) as error:
        results[it.at] = Begun(it.dialog.id, error)
