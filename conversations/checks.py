"""Checks of what an application asks for: wrong requests raise at once and change nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from conversations.errors import LocalError
from conversations.protocol import codes
from conversations.protocol.contract import Contract
from conversations.protocol.endpoint import NEVER
from conversations.protocol.limits import KEY_BYTES, NAME, sendable


def check_error(code: object, description: object) -> None:
    """Check the parts of an application's error.

    Raises:
        LocalError: 8419 or 8422.
    """
    if not isinstance(code, int) or isinstance(code, bool) or not 0 < code < 1 << 31:
        raise LocalError(f"an error code is a positive number, not {code!r} (8419)", code=codes.CODE_NOT_POSITIVE)
    if not isinstance(description, str) or not description:
        raise LocalError("an error needs a description (8422)", code=codes.NO_DESCRIPTION)


def check_service(name: object) -> None:
    """Check that a service can have this name.

    Raises:
        LocalError: 8490.
    """
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise LocalError(f"no service can be called {name!r:.200} (8490)", code=codes.NO_SUCH_SERVICE)


def check_key(key: object) -> None:
    """Check the key of a conversation group.

    Raises:
        LocalError: it is empty, too long, or no text that can be written.
    """
    if (
        not isinstance(key, str)
        or not 0 < len(key.encode("utf-8", "replace")) <= KEY_BYTES
        or sendable(key, KEY_BYTES) != key
    ):
        raise LocalError(f"the key of a group is a text of 1 to {KEY_BYTES} bytes, not {key!r:.200}")


def later(now: int, after: int) -> int:
    """Return the time ``after`` microseconds from now; the end of time when there is no such time."""
    return min(now + after, NEVER - 1)


def micros(duration: timedelta, what: str) -> int:
    """Turn a duration into microseconds.

    Raises:
        LocalError: it is not a timedelta, or negative.
    """
    if not isinstance(duration, timedelta):
        raise LocalError(f"{what} takes a timedelta, not {duration!r}")
    amount = duration // timedelta(microseconds=1)
    if amount < 0:
        raise LocalError(f"{what} takes a positive duration, not {duration}")
    return amount


def expiry(now: int, lifetime: timedelta | None, contract: Contract, default: int) -> int:
    """Return when a dialog begun now ends its life; ``default`` microseconds later, if neither beginner nor contract say.

    Raises:
        LocalError: the lifetime is not positive (8411).
    """
    amount = contract.lives(default) if lifetime is None else micros(lifetime, "a lifetime")
    if amount is None:
        return NEVER
    if amount == 0:
        raise LocalError("a lifetime must be more than zero (8411)", code=codes.LIFETIME_NOT_POSITIVE)
    return later(now, amount)


def moment(at: int) -> datetime:
    """Turn microseconds since the epoch into a datetime in UTC; what no datetime can say becomes the nearest that can."""
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC) if at > 0 else datetime.min.replace(tzinfo=UTC)
