"""Says what failed, how often, since when, and with which exception: the same words in every command."""

from __future__ import annotations

from collections.abc import Callable

from conversations.protocol.parked import Parked
from conversations_ops.printable import counted


def told(it: Parked, clock: Callable[[int], str]) -> str:
    """Tell a failed message or handler: ``Check #0 failed 4 times since 03:12: KeyError: 'score'``. ``clock`` writes a time."""
    return in_words(subject(it.what, it.number, it.timer), it.attempts, clock(it.since), it.failure)


def in_words(what: str, attempts: int | None, since: str, failure: str) -> str:
    """Tell what failed. ``attempts`` is None if it differs among the messages that are told together."""
    if not failure:
        return f"{what} waits since {since} and was not tried yet"
    times = "" if attempts is None else f" {counted(attempts, 'time')}"
    return f"{what} failed{times} since {since}: {failure}"


def subject(what: str, number: int, timer: str = "") -> str:
    """Name a message by its type and number; and a handler without a message by what it handles."""
    if number >= 0:
        return f"{what} #{number}"
    return f"the handler of the timer {timer}" if timer else f"a handler of {what.lower()}s"


def failure(exception: str, message: str) -> str:
    """Write an exception as everywhere: its class without the module, and its text."""
    name = exception.rpartition(".")[2]
    return f"{name}: {message}" if name else message
