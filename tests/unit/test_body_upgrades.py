"""Versions of bodies: in content types, and the upgrades that a service must have."""

from typing import Any

import pytest
from pydantic import BaseModel

from conversations import Contract, DeclarationError, InvalidBody, MessageType, Service, message_type
from conversations.bodies import codec_of, content_type, version_of
from conversations.body_upgrades import BodyUpgrades
from conversations.protocol.contract import as_message_type


@message_type("Order", version=3)
class Third(BaseModel):
    n: int


@message_type("Order")
class First(BaseModel):
    n: int


class Inherits(Third):
    pass


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("application/json", 1), ("application/json;version=2", 2), ("application/json; version=2", 2),
        ("application/json;charset=utf-8; Version = 12", 12), ('application/json;version="7"', 7), ("", 1),
    ],
)  # fmt: skip
def test_the_version_is_a_parameter_of_the_content_type(text: str, version: int) -> None:
    assert version_of(text) == version
    assert version_of(content_type(version)) == version


@pytest.mark.parametrize("number", ["0", "-1", "x", "", "1001", "9" * 5_000, "\u0662"])
def test_a_version_that_is_none_does_not_fit(number: str) -> None:
    """It is not taken for version 1, whose upgrade would change the body."""
    with pytest.raises(InvalidBody, match="no version from 1"):
        version_of(f"application/json;version={number}")


def test_a_class_does_not_inherit_the_version() -> None:
    assert as_message_type(Third).version == 3
    assert (as_message_type(Inherits).name, as_message_type(Inherits).version) == ("Inherits", 1)


def upgraded(*versions: int) -> BodyUpgrades:
    found = BodyUpgrades("shop")
    for version in versions:
        found.register(Third, version)(lambda body: {"n": body["n"] + 1})
    return found


def test_each_older_version_needs_an_upgrade_and_they_follow_each_other() -> None:
    received = [as_message_type(Third), as_message_type(First)]
    with pytest.raises(DeclarationError, match=r"no upgrade from version 2.*@service.upgrade\(Order, 2\)"):
        upgraded(1).check(received)
    whole = upgraded(1, 2)
    whole.check(received)
    codec = codec_of(received[0])
    assert whole.decode(codec, "application/json", b'{"n": 1}').n == 3
    assert whole.decode(codec, "application/json;version=2", b'{"n": 1}').n == 2
    assert whole.decode(codec, "application/json;version=9", b'{"n": 1, "more": 2}').n == 1
    with pytest.raises(DeclarationError, match="which it never receives"):
        whole.check([])


@pytest.mark.parametrize("version", [0, 3, "1", True])
def test_an_upgrade_starts_from_an_older_version(version: Any) -> None:
    with pytest.raises(DeclarationError, match="starts from a version before 3"):
        BodyUpgrades("shop").register(Third, version)


def test_slips_are_told() -> None:
    service = Service("shop", accepts=[Contract("Trade", sent_by_initiator=[Third])], ignores=[Third])
    with pytest.raises(DeclarationError, match="no upgrade from version 1"):
        service.check()
    service.upgrade(Third, 1)(lambda body: body)
    with pytest.raises(DeclarationError, match="already"):
        service.upgrade(Third, 1)
    with pytest.raises(DeclarationError, match="only a body of a class has versions"):
        MessageType("Raw", "bytes", version=2)
    with pytest.raises(DeclarationError, match="a number from 1"):
        message_type("Order", version=0)
