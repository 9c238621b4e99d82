"""Laws of plain models: a body that is sent without a second validation is one that Pydantic would accept."""

import math
from typing import Annotated, Any, Self

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    RootModel,
    TypeAdapter,
    computed_field,
    field_serializer,
    field_validator,
    model_serializer,
    model_validator,
)

from conversations.bodies import codec_of
from conversations.errors import InvalidBody
from conversations.plain_models import plain_model
from conversations.protocol.contract import as_message_type


class Order(BaseModel):
    """A plain model with each kind of field."""

    number: int
    customer: str
    price: float = 0.5
    note: str | None = None
    is_gift: bool = Field(default=False, description="Wrapped in paper.")


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    number: int


ORDER = Order(number=1, customer="Ann")
ADAPTER = TypeAdapter(Order)
CODEC = codec_of(as_message_type(Order))
VALUES = (
    st.none() | st.booleans() | st.integers() | st.integers(-1, 1).map(lambda it: it << 63) | st.floats() | st.text()
    | st.text(st.characters(categories=["Cs"])) | st.binary() | st.lists(st.integers()) | st.sampled_from([10**5000])
)  # fmt: skip


def expected(body: BaseModel) -> bytes | None:
    """Return what Pydantic makes of a body, None if it refuses it."""
    try:
        adapter = TypeAdapter(type(body))
        data = adapter.serializer.to_json(body, by_alias=True, warnings=False)
        adapter.validator.validate_json(data)
    except Exception:  # noqa: BLE001 - whatever Pydantic raises, it refuses the body
        return None
    return data


def sent(body: BaseModel) -> bytes | None:
    """Return what is sent of a body, None if it is refused."""
    try:
        return codec_of(as_message_type(type(body))).encode(body)
    except InvalidBody:
        return None


@settings(deadline=None)
@given(st.fixed_dictionaries({}, optional=dict.fromkeys([*Order.model_fields, "unknown"], VALUES)))
def test_the_same_bodies_are_sent_with_and_without_a_second_validation(values: dict[str, Any]) -> None:
    """Code may build a model without validation, with any values, too few or too many."""
    body = Order.model_construct(number=1, customer="Ann")
    body.__dict__.clear()
    body.__dict__.update(values)
    assert sent(body) == expected(body)


@settings(deadline=None)
@given(st.integers(1 - (1 << 63), (1 << 63) - 1), st.text(), st.floats(allow_nan=False, allow_infinity=False))
def test_a_usual_body_needs_no_validation(number: int, text: str, price: float) -> None:
    """Otherwise nothing is gained."""
    model = plain_model(Order, ADAPTER.core_schema)
    assert model is not None
    assert model.fits(Order(number=number, customer=text, price=price, note=text))
    assert model.fits(Order(number=number, customer=text))


def test_a_model_that_forbids_other_fields_is_plain() -> None:
    """This rule concerns what arrives, and an encoded body has only its own fields."""
    assert plain_model(Strict, TypeAdapter(Strict).core_schema) is not None


class Positive(BaseModel):
    number: Annotated[int, Field(gt=0)]


class Short(BaseModel):
    model_config = ConfigDict(str_max_length=3)

    number: str


class Renamed(BaseModel):
    number: int = Field(validation_alias="count", serialization_alias="total")


class Left(BaseModel):
    number: int = Field(exclude=True)


class Checked(BaseModel):
    number: int

    @field_validator("number")
    @classmethod
    def never(cls, value: int) -> int:
        raise ValueError("no number is right")


class Whole(BaseModel):
    number: int

    @model_validator(mode="after")
    def never(self) -> "Whole":
        raise ValueError("no model is right")


class Begun(BaseModel):
    number: int
    _seen: int = PrivateAttr(0)

    def model_post_init(self, context: Any) -> None:
        raise ValueError("no model begins")


class Made(BaseModel):
    number: int

    def __init__(self, **values: Any) -> None:
        raise ValueError("no model is made")


class Refused(BaseModel):
    number: int

    def __new__(cls, **values: Any) -> Self:
        raise ValueError("no instance is made")


class Written(BaseModel):
    number: int

    @field_serializer("number")
    def words(self, value: int) -> str:
        return "seven"


class Listed(BaseModel):
    number: int

    @model_serializer
    def as_list(self) -> list[int]:
        return [self.number]


class Doubled(BaseModel):
    model_config = ConfigDict(extra="forbid")

    number: int

    @computed_field  # type: ignore[prop-decorator]  # Pydantic's own way to write it, which mypy does not support
    @property
    def double(self) -> int:
        return 2 * self.number


class Many(BaseModel):
    number: list[int]


class Inner(BaseModel):
    number: Positive


class Root(RootModel[Annotated[int, Field(gt=0)]]):
    pass


RULES: list[tuple[type[BaseModel], dict[str, Any]]] = [
    (Positive, {"number": -1}),
    (Short, {"number": "four"}),
    (Renamed, {"number": 1}),
    (Left, {"number": 1}),
    (Checked, {"number": 1}),
    (Whole, {"number": 1}),
    (Begun, {"number": 1}),
    (Made, {"number": 1}),
    (Refused, {"number": 1}),
    (Written, {"number": 1}),
    (Listed, {"number": 1}),
    (Doubled, {"number": 1}),
    (Many, {"number": ["x"]}),
    (Inner, {"number": Positive.model_construct(number=-1)}),
]


@pytest.mark.parametrize(("model", "values"), RULES, ids=lambda it: getattr(it, "__name__", "values"))
def test_each_rule_of_a_class_is_checked(model: type[BaseModel], values: dict[str, Any]) -> None:
    """The types of the values are right, and Pydantic refuses the body all the same."""
    body = object.__new__(model)
    body.__dict__.update(values)
    object.__setattr__(body, "__pydantic_fields_set__", set(values))
    object.__setattr__(body, "__pydantic_extra__", None)
    object.__setattr__(body, "__pydantic_private__", None)
    assert sent(body) == expected(body)


def test_a_root_model_is_checked() -> None:
    """It has no fields."""
    with pytest.raises(InvalidBody):
        codec_of(as_message_type(Root)).encode(Root.model_construct(-1))


def test_an_instance_of_a_subclass_is_checked() -> None:
    """It is encoded like its base. So its fields must have the types of the base."""

    class Special(Order):
        number: float  # type: ignore[assignment]  # a subclass that breaks the promise of its base

    with pytest.raises(InvalidBody, match="number"):
        CODEC.encode(Special(number=1.5, customer="Ann"))


def test_numbers_that_json_does_not_have_are_refused() -> None:
    """JSON has no infinity."""
    with pytest.raises(InvalidBody, match="price"):
        CODEC.encode(ORDER.model_copy(update={"price": math.inf}))
