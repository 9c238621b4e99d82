"""Laws of contracts and message types."""

from datetime import timedelta

import pytest
from pydantic import BaseModel

from conversations.errors import DeclarationError, NotInContract, WrongDirection
from conversations.protocol.contract import Contract, MessageType, as_message_type, message_type


class Ask(BaseModel):
    pass


class Answer(BaseModel):
    pass


@message_type("shop.Both")
class Both(BaseModel):
    pass


class Child(Both):
    pass


CONTRACT = Contract("C", sent_by_initiator=[Ask], sent_by_target=[Answer], sent_by_any=[Both])


def test_a_message_type_is_named_by_its_class_or_by_its_mark() -> None:
    """A subclass is a message type of its own, not another name for its parent."""
    assert [as_message_type(cls).name for cls in (Ask, Both, Child)] == ["Ask", "shop.Both", "Child"]


def test_a_declared_message_type_stays_itself() -> None:
    """Bodies without a class have a MessageType."""
    declared = MessageType("Raw", "bytes")
    assert as_message_type(declared) is declared


def test_each_side_may_send_its_own_and_what_any_may() -> None:
    """SENT BY INITIATOR, TARGET and ANY."""
    assert set(CONTRACT.sendable(True)) == {"Ask", "shop.Both"}
    assert set(CONTRACT.sendable(False)) == {"Answer", "shop.Both"}


@pytest.mark.parametrize(("body", "initiator", "code"), [(Answer(), True, 8432), (Ask(), False, 8434)])
def test_the_wrong_direction_is_refused_with_its_number(body: object, initiator: bool, code: int) -> None:
    """8432 for what only the target sends, 8434 for what only the initiator sends."""
    with pytest.raises(WrongDirection) as refused:
        CONTRACT.outgoing(body, None, initiator)
    assert refused.value.code == code


def test_an_unknown_type_is_refused_and_the_known_ones_named() -> None:
    """8431, by class and by name."""
    with pytest.raises(NotInContract, match=r"this side may send: Ask, shop\.Both"):
        CONTRACT.outgoing(3, None, True)
    with pytest.raises(NotInContract, match=r"it has: Ask, Answer, shop\.Both"):
        CONTRACT.outgoing(3, "Nothing", True)
    assert NotInContract().code == 8431


def test_bytes_and_mappings_find_the_one_type_that_fits() -> None:
    """With two that fit, the name must be given."""
    raw, avro = MessageType("Raw", "bytes"), MessageType("Avro", {"type": "string"})
    contract = Contract("C", sent_by_initiator=[raw, avro, MessageType("Ping", None)])
    assert contract.outgoing(b"x", None, True) is raw
    assert contract.outgoing({}, None, True) is avro
    assert contract.outgoing(None, None, True).name == "Ping"
    twice = Contract("C", sent_by_initiator=[raw, MessageType("Other", "bytes")])
    with pytest.raises(NotInContract, match=r"2 message types fit.*type="):
        twice.outgoing(b"x", None, True)
    assert twice.outgoing(b"x", "Other", True).name == "Other"


def test_a_type_named_twice_is_refused() -> None:
    """8403."""
    with pytest.raises(DeclarationError, match="8403"):
        Contract("C", sent_by_initiator=[Ask], sent_by_any=[Ask])


def test_the_initiator_must_be_able_to_begin() -> None:
    """8492."""
    with pytest.raises(DeclarationError, match="8492"):
        Contract("C", sent_by_target=[Answer])


@pytest.mark.parametrize("lifetime", [timedelta(0), timedelta(seconds=-1)])
def test_a_lifetime_is_positive(lifetime: timedelta) -> None:
    """8411; unlimited is None."""
    with pytest.raises(DeclarationError, match="8411"):
        Contract("C", sent_by_initiator=[Ask], lifetime=lifetime)
    assert Contract("C", sent_by_initiator=[Ask], lifetime=None).lifetime is None


def test_only_a_lifetime_that_a_contract_sets_is_the_longest() -> None:
    """Also if it equals the default."""
    assert [it.longest for it in (CONTRACT, Contract("C", sent_by_initiator=[Ask], lifetime=None))] == [None, None]
    assert Contract("C", sent_by_initiator=[Ask], lifetime=timedelta(days=1)).longest == 86_400_000_000


def test_a_dialog_lives_a_day_when_nobody_says_anything() -> None:
    """Unlimited must be asked for."""
    assert CONTRACT.lifetime == timedelta(days=1)


@pytest.mark.parametrize("name", ["", ".x", "a b", "ä", "x" * 129])
def test_names_are_what_kafka_allows(name: str) -> None:
    """They are part of topic names and of records."""
    with pytest.raises(DeclarationError):
        Contract(name, sent_by_initiator=[Ask])
    with pytest.raises(DeclarationError):
        MessageType(name, None)
