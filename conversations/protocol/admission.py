"""Admission: which requests are allowed. Workers, clients and Spark jobs use the same rules.

A request that is not allowed raises an error at once and changes nothing. The error has Service Broker's code (``protocol.codes``), or one
from 50001. The rules for records are in ``protocol.rules``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import timedelta
from difflib import get_close_matches

from conversations.errors import BodyTooLarge, InvalidBody, LocalError, UnknownContract, UnknownService
from conversations.protocol import codes
from conversations.protocol.codes import LocalCode
from conversations.protocol.contract import Contract
from conversations.protocol.endpoint import NEVER
from conversations.protocol.limits import (
    COMMAND_BYTES,
    KEY_BYTES,
    NAME,
    TIMER_NAME,
    TIMERS,
    sendable,
)
from conversations.protocol.times import later

NAMED = 5
"""Maximum number of services that the error for an unknown service names."""
CONTENT_TYPE = 200
"""Maximum number of characters of a content type in a command."""


def check_error(code: object, description: object) -> None:
    """Check the code and the description of an application's error.

    Raises:
        LocalError: the code is not a positive number of 31 bits (8419), or the description is missing (8422).
    """
    if not isinstance(code, int) or isinstance(code, bool) or not 0 < code < 1 << 31:
        raise LocalError(
            f"an error code is a positive number below 2^31, not {code!r} (8419)", code=codes.CODE_NOT_POSITIVE
        )
    if not isinstance(description, str) or not description:
        raise LocalError("an error needs a description (8422)", code=codes.NO_DESCRIPTION)


def check_service(name: object) -> None:
    """Check that a service can have this name.

    Raises:
        LocalError: no service can have this name (8412).
    """
    if not isinstance(name, str):
        raise LocalError(
            f"a dialog begins with a service by its name, for example {getattr(name, 'name', 'orders')!r:.80}, not with {name!r:.80} (8412)",
            code=codes.SERVICE_NAME_INVALID,
        )
    if not NAME.fullmatch(name):
        raise LocalError(f"{name!r:.200} cannot be the name of a service (8412)", code=codes.SERVICE_NAME_INVALID)


def unknown_service(name: str, known: Iterable[str] = ()) -> UnknownService:
    """Return the error for a dialog that would begin with a service that the catalog does not name (8490).

    ``known`` are the names in the catalog, if they are at hand. The text has the names that are similar, or else some names.
    """
    names = sorted(known)
    near = get_close_matches(name, names, NAMED)
    told = (
        f" It names {', '.join(near or names[:NAMED])}{'' if near or len(names) <= NAMED else ', ...'}."
        if names
        else ""
    )
    return UnknownService(
        f"the catalog names no service {name!r} (8490). Is the name right?{told} 'conversations apply' adds a service to the catalog. If "
        "the dialog may wait until the service is there, begin it with wait_for_service=True"
    )


def check_contract(contract: object) -> None:
    """Check that a dialog can begin under this object.

    Raises:
        LocalError: the object is no contract, for example only the name of a contract (8425).
    """
    if not isinstance(contract, Contract):
        raise LocalError(
            f"a dialog begins under an object of class Contract, not under {contract!r:.80} (8425)",
            code=codes.UNKNOWN_CONTRACT,
        )


def not_published(service: str, topic: str) -> LocalError:
    """Return the error for a record that a handler publishes to a topic that its service does not declare."""
    return LocalError(f"service {service!r} does not publish to topic {topic!r:.200}: add it to publishes=[...]")


def check_key(key: object) -> None:
    """Check the key of a conversation group.

    Raises:
        LocalError: the key is no text, is empty or too long, or cannot be encoded in UTF-8 (8414).
    """
    if (
        not isinstance(key, str)
        or not 0 < len(key.encode("utf-8", "replace")) <= KEY_BYTES
        or sendable(key, KEY_BYTES) != key
    ):
        raise LocalError(
            f"the key of a group is a text of 1 to {KEY_BYTES} bytes in UTF-8, not {key!r:.200} (8414)",
            code=codes.GROUP_INVALID,
        )


def check_to_group(contract: Contract, service: str, to_group: str | None) -> None:
    """Check that a service names the group at the target if the contract lets it, and only then.

    Raises:
        LocalError: the contract lets nobody or only others name the group (8494), the name is missing, or it is no valid key.
    """
    if not contract.shares_groups:
        if to_group is not None:
            raise LocalError(
                f"contract {contract.name!r} lets no service name the group at the target (8494): declare "
                f"Contract({contract.name!r}, ..., group_named_by=[{service!r}]) on both sides",
                code=codes.NAMES_NO_GROUP,
            )
        return
    if not contract.may_name_group(service):
        raise LocalError(
            f"contract {contract.name!r} does not let service {service!r} name the group at the target (8494): add it to "
            f"group_named_by=[...] on both sides",
            code=codes.NAMES_NO_GROUP,
        )
    if to_group is None:
        raise LocalError(
            f"a dialog under contract {contract.name!r} names the group at the target: begin_dialog(..., to_group=...)",
            code=codes.NAMES_NO_GROUP,
        )
    check_key(to_group)


def micros(duration: timedelta, what: str, negative: LocalCode | None = None) -> int:
    """Turn a duration into microseconds; ``what`` names the duration in an error, and ``negative`` is the code for a negative duration.

    Raises:
        LocalError: the duration is not a timedelta, or is negative.
    """
    if not isinstance(duration, timedelta):
        given = duration if isinstance(duration, int | float) else 1
        raise LocalError(f"{what} takes a timedelta, not {duration!r:.80}: for example timedelta(seconds={given})")
    amount = duration // timedelta(microseconds=1)
    if amount < 0:
        raise LocalError(f"{what} cannot have a negative duration: {duration}", code=negative)
    return amount


def expiry(now: int, lifetime: timedelta | None, contract: Contract, default: int) -> int:
    """Return the end of the lifetime of a dialog that begins ``now``; ``NEVER`` if the lifetime is unlimited.

    ``default`` is a lifetime in microseconds. It is used if neither ``lifetime`` nor the contract sets one.

    Raises:
        LocalError: the lifetime is not positive, or longer than the contract's (8411).
    """
    amount = contract.lives(default) if lifetime is None else chosen_lifetime(lifetime, contract)
    return NEVER if amount is None else later(now, amount)


def chosen_lifetime(lifetime: timedelta, contract: Contract) -> int:
    """Return the lifetime, in microseconds, that an initiator chooses for one dialog.

    Raises:
        LocalError: the lifetime is not positive, or longer than the lifetime that the contract sets (8411).
    """
    amount = micros(lifetime, "a lifetime", codes.LIFETIME_OUT_OF_RANGE)
    if amount == 0:
        raise lifetime_not_positive(amount)
    if contract.longest is not None and amount > contract.longest:
        raise LocalError(
            f"a lifetime of {lifetime} is longer than contract {contract.name!r} allows: {contract.lifetime} (8411). The target would end the "
            "dialog before. Choose a shorter lifetime, or set a longer one in the contract, in both services",
            code=codes.LIFETIME_OUT_OF_RANGE,
        )
    return amount


def accepted_expiry(now: int, asked: int, contract: Contract) -> int:
    """Return the end of the lifetime, at the target, of a dialog that the target accepts ``now``; ``NEVER`` if the lifetime is unlimited.

    ``asked`` is the end that the initiator has chosen; -1 is unlimited. ``contract`` is the target's own declaration. If it sets a lifetime,
    the dialog does not live longer at the target.
    """
    end = NEVER if asked < 0 else asked
    longest = contract.longest
    return end if longest is None else min(end, later(now, longest))


def check_timer_time(at: int, expires_at: int) -> None:
    """Check that a timer is due before the end of the dialog's lifetime; ``expires_at`` is ``NEVER`` if the lifetime is unlimited.

    Raises:
        LocalError: the timer is due at the end of the lifetime, or after it (8410). It would never fire.
    """
    if at >= expires_at:
        raise LocalError(
            "the timer is not due before the end of the dialog's lifetime, so it would never fire (8410). At the end of the lifetime "
            "on_error is called; dialog.message.expires_at tells when that is",
            code=codes.TIMER_BEYOND_LIFETIME,
        )


def check_timer_name(name: object) -> None:
    """Check the name of a timer. It is empty for the dialog timer.

    Raises:
        LocalError: the name is no text, is too long, or has other characters.
    """
    if not isinstance(name, str) or (name and not TIMER_NAME.fullmatch(name)):
        raise LocalError(
            f"the name of a timer has at most 64 letters, digits, underscores and hyphens, not {name!r:.100}"
        )


def check_timer_count(names: Collection[str]) -> None:
    """Check the number of timers that a side would have. ``names`` are their names; the dialog timer does not count.

    Raises:
        LocalError: there would be too many timers.
    """
    if len(names) - ("" in names) > TIMERS:
        raise LocalError(
            f"this side of the dialog has {TIMERS} timers with names already, and cannot have more. Cancel one, or set one anew: its name again"
        )


def lifetime_not_positive(lifetime: int) -> LocalError:
    """Return the error for a lifetime, in microseconds, that is not positive (8411)."""
    return LocalError(
        f"a lifetime must be more than zero, not {lifetime} microseconds (8411)", code=codes.LIFETIME_OUT_OF_RANGE
    )


def not_initiated(service: str, contract: str, mend: str = "") -> UnknownContract:
    """Return the error for a contract that a service does not initiate (8425). ``mend`` is advice at the end of the text."""
    return UnknownContract(f"service {service!r} does not initiate contract {contract!r} (8425){mend and f': {mend}'}")


def no_timer_handler(service: str, contract: str) -> LocalError:
    """Return the error for a timer that would fire without effect, because no handler is declared for it."""
    return LocalError(
        f"service {service!r} has no handler for timers of dialogs under {contract!r}: register one with @service.on_timer(...)"
    )


def body_too_large(size: int, limit: int) -> BodyTooLarge:
    """Return the error for a body of ``size`` bytes, which is more than ``limit`` (8459)."""
    return BodyTooLarge(f"the body has {size} bytes; at most {limit} are allowed (8459)")


def command_too_large(what: str, size: int) -> BodyTooLarge:
    """Return the error for requests that do not fit into one command (8459).

    Its text begins with ``what``, for example "the requests have".
    """
    return BodyTooLarge(f"{what} {size} bytes; one command has at most {COMMAND_BYTES} (8459)")


def check_content_type(message_type: str, content_type: str, expected: str) -> None:
    """Check that a body has the content type of its message type. Its version may be another one, because a client may have another release.

    Raises:
        InvalidBody: the body has another content type (9615).
    """
    if content_type.partition(";")[0] != expected.partition(";")[0] or len(content_type) > CONTENT_TYPE:
        raise InvalidBody(f"the content type of {message_type} is {expected!r}, not {content_type!r:.200} (9615)")


def clogged(service: str) -> str:
    """Return the text for a message that cannot be accepted, because too many messages to ``service`` are delayed."""
    return f"too many bytes wait to be sent to {service}, whose queue accepts no records"


def request_lifetime(contract: Contract, wait: int, least: int) -> timedelta:
    """Return the lifetime of the dialog of a request that waits so long, both in microseconds: at least ``least``, at most that of the contract."""
    lifetime = max(wait, least)
    return timedelta(microseconds=min(lifetime, contract.longest or lifetime))
