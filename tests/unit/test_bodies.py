"""Laws of body codecs: what goes out is valid, what comes in is checked, and errors name the field."""

from decimal import Decimal
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from conversations.bodies import codec_of
from conversations.errors import DeclarationError, InvalidBody
from conversations.protocol.contract import MessageType, as_message_type

AVRO = {
    "type": "record",
    "name": "Point",
    "fields": [{"name": "x", "type": "long"}, {"name": "label", "type": "string"}],
}


class Line(BaseModel):
    amount: Annotated[int, Field(gt=0)]


class Order(BaseModel):
    customer: str
    total: Decimal = Decimal(0)
    lines: list[Line] = []


ORDER = codec_of(as_message_type(Order))
POINT = codec_of(MessageType("Point", AVRO))


@given(st.builds(Order, customer=st.text(), lines=st.lists(st.builds(Line, amount=st.integers(1, 10**9)))))
def test_a_model_comes_back_from_json(order: Order) -> None:
    """JSON on the wire."""
    assert ORDER.decode(ORDER.encode(order)) == order
    assert ORDER.content_type == "application/json"


@given(st.integers(-(1 << 63), (1 << 63) - 1), st.text())
def test_a_mapping_comes_back_from_avro(x: int, label: str) -> None:
    """The schema is the message type's own."""
    assert POINT.decode(POINT.encode({"x": x, "label": label})) == {"x": x, "label": label}


@given(st.binary())
def test_bytes_are_left_alone(body: bytes) -> None:
    """Nothing is read into them."""
    codec = codec_of(MessageType("Raw", "bytes"))
    assert codec.encode(body) == body
    assert codec.decode(body) == body


def test_an_invalid_body_names_the_field_and_not_its_value() -> None:
    """The path leads to the field; what was in it stays with its sender."""
    with pytest.raises(InvalidBody, match=r"Order: lines\.1\.amount: Input should be greater than 0") as refused:
        ORDER.decode(b'{"customer": "secret", "lines": [{"amount": 3}, {"amount": -77}]}')
    assert "77" not in str(refused.value)
    assert "secret" not in str(refused.value)
    assert refused.value.code == 9615


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'"x"', b"\xff"])
def test_what_is_not_json_of_the_model_is_invalid(data: bytes) -> None:
    """Whatever is wrong, it is an InvalidBody."""
    with pytest.raises(InvalidBody):
        ORDER.decode(data)


def test_a_model_that_was_built_without_validation_is_not_sent() -> None:
    """The sender finds its own mistake, not the receiver."""
    order = Order(customer="ada", lines=[Line(amount=1)])
    order.lines[0].amount = -1
    with pytest.raises(InvalidBody, match=r"lines\.0\.amount"):
        ORDER.encode(order)


@pytest.mark.parametrize(
    ("declared", "body"),
    [
        (as_message_type(Order), {"customer": "ada"}),
        (as_message_type(Order), Line(amount=1)),
        (MessageType("Point", AVRO), {"x": "one", "label": ""}),
        (MessageType("Point", AVRO), {"x": 1}),
        (MessageType("Point", AVRO), {"x": 1, "label": "", "more": 1}),
        (MessageType("Raw", "bytes"), "text"),
        (MessageType("Ping", None), b""),
    ],
)
def test_a_body_of_another_kind_is_not_sent(declared: MessageType, body: Any) -> None:
    """Each kind of message type takes its own kind of body."""
    with pytest.raises(InvalidBody, match=declared.name):
        codec_of(declared).encode(body)


@pytest.mark.parametrize("data", [b"", b"\x02", POINT.encode({"x": 1, "label": "a"}) + b"\0"])
def test_avro_bytes_are_read_to_their_end_and_not_beyond(data: bytes) -> None:
    """Too few and too many are both invalid."""
    with pytest.raises(InvalidBody, match="Point"):
        POINT.decode(data)


def test_a_message_without_a_body_has_none() -> None:
    """None goes out and comes in; bytes that arrive are a breach."""
    codec = codec_of(MessageType("Ping", None))
    assert codec.encode(None) == b""
    codec.decode(b"")
    with pytest.raises(InvalidBody, match="3 bytes arrived") as refused:
        codec.decode(b"abc")
    assert refused.value.code == 8430
    with pytest.raises(InvalidBody, match="send None") as refused:
        codec.encode(b"")
    assert refused.value.code == 8430


class Opaque:
    """Pydantic has no schema for it."""


@pytest.mark.parametrize("body", [{"type": "nonsense"}, Opaque])
def test_a_body_nobody_can_encode_is_refused_when_declared(body: Any) -> None:
    """A mistake of the declaration is told at the declaration."""
    with pytest.raises(DeclarationError, match="Bad"):
        codec_of(MessageType("Bad", body))
