"""Fields with an alias: what is written is read again, whatever the release of Pydantic writes by itself."""

import math
from dataclasses import field as dataclass_field
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    model_serializer,
    model_validator,
)
from pydantic.dataclasses import dataclass

from conversations.bodies import codec_of
from conversations.errors import InvalidBody
from conversations.field_names import choice_of
from conversations.group_state import StateCodec
from conversations.protocol.contract import as_message_type


class Paid(BaseModel):
    """Its alias is optional: written by its own name, it would be read as ``""``."""

    amount: int = 0
    paid_by: str = Field("", alias="paidBy")


class Bill(BaseModel):
    parts: list[Paid] = []


@dataclass
class Step:
    number: Annotated[int, Field(alias="no")] = 0
    next: "Step | None" = None


class Spoken(BaseModel):
    """Both names are read."""

    model_config = ConfigDict(populate_by_name=True, alias_generator=str.upper)
    word: str = ""


class Shown(BaseModel):
    """Only its own name is read."""

    word: str = Field("", serialization_alias="shown")


class Chosen(BaseModel):
    word: str = Field("", validation_alias=AliasChoices("said", AliasPath("all", 0), "word"))


class Split(BaseModel):
    """Written by one name, and read by another one."""

    word: str = Field("", validation_alias="heard", serialization_alias="said")


class Inner(BaseModel):
    word: str = Field("", validation_alias=AliasPath("words", 0))


class Mended(Split):
    """Its own code reads what it writes."""

    @model_validator(mode="before")
    @classmethod
    def hear(cls, values: dict[str, Any]) -> dict[str, Any]:
        return {"heard": values["said"]} if "said" in values else values


STEP = TypeAdapter(Step).validate_python({"no": 1, "next": {"no": 2}})
KEPT = [
    (Paid(amount=1, paidBy="me"), b'{"amount":1,"paidBy":"me"}'),
    (Bill(parts=[Paid(paidBy="me")]), b'{"parts":[{"amount":0,"paidBy":"me"}]}'),
    (STEP, b'{"no":1,"next":{"no":2,"next":null}}'),
    (Spoken(word="a"), b'{"WORD":"a"}'),
    (Shown(word="a"), b'{"word":"a"}'),
    (Chosen(word="a"), b'{"word":"a"}'),
    (Mended(heard="a"), b'{"said":"a"}'),
]
NAMES = [type(value).__name__ for value, _ in KEPT]


@pytest.mark.parametrize(("value", "data"), KEPT, ids=NAMES)
def test_a_field_with_an_alias_arrives(value: Any, data: bytes) -> None:
    codec = codec_of(as_message_type(type(value)))
    assert codec.encode(value) == data
    assert codec.decode(data) == value


@pytest.mark.parametrize(("value", "data"), KEPT, ids=NAMES)
def test_a_field_with_an_alias_stays_in_the_state(value: Any, data: bytes) -> None:
    codec = StateCodec("s", type(value), 1)
    assert codec.encode(value) == data
    assert codec.decode(data, 1) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Split(heard="a"), "the field 'word' is written as 'said' and read as 'heard'; give it one name for both"),
        (Inner(words=["a"]), "the field 'word' is written as 'word' and read as a part of another field"),
    ],
    ids=["split", "inner"],
)
def test_a_field_that_would_be_lost_is_refused(value: Any, text: str) -> None:
    """As long as it has another value than the one that its reader would put there."""
    codec, state = codec_of(as_message_type(type(value))), StateCodec("s", type(value), 1)
    with pytest.raises(InvalidBody, match=text):
        codec.encode(value)
    with pytest.raises(ValueError, match=text):
        state.encode(value)
    nothing = type(value)()
    assert codec.decode(codec.encode(nothing)) == state.decode(state.encode(nothing), 1) == nothing


def test_a_class_without_an_alias_is_written_as_its_configuration_says() -> None:
    """What is inside a field of any type is its own affair."""
    assert choice_of(TypeAdapter(int).core_schema) == ([None], "")
    assert choice_of(TypeAdapter(Shown).core_schema) == ([False], "")
    assert choice_of(TypeAdapter(Paid).core_schema) == ([True], "")


def test_a_field_that_is_not_written_is_not_lost() -> None:
    """Its class says so."""

    class Secret(BaseModel):
        word: str = Field("", validation_alias="heard", exclude=True)

    assert choice_of(TypeAdapter(Secret).core_schema).lost == ""


class Both(BaseModel):
    """Its parts need different names."""

    shown: Shown = Shown()
    paid: Paid = Paid()


def test_parts_that_need_different_names_go_together_as_long_as_nothing_is_lost() -> None:
    codec = codec_of(as_message_type(Both))
    for value in (Both(shown=Shown(word="a")), Both(paid=Paid(paidBy="me")), Both()):
        assert codec.decode(codec.encode(value)) == value
    with pytest.raises(InvalidBody, match="the field 'word' is written as 'shown' and read as 'word'"):
        codec.encode(Both(shown=Shown(word="a"), paid=Paid(paidBy="me")))


class Words(BaseModel):
    """A set has no order, and a default may have another type: both read back as equal values, and not as equal bytes."""

    part: str = Field("", validation_alias=AliasPath("all", 0))
    words: frozenset[str] = frozenset()
    total: Decimal = 0  # type: ignore[assignment]  # Pydantic does not validate defaults


def test_values_are_compared_and_not_their_bytes() -> None:
    codec = codec_of(as_message_type(Words))
    value = Words(words=frozenset(map(str, range(50))))
    assert codec.decode(codec.encode(value)) == value


class Default(BaseModel):
    kind: Literal["default"] = "default"
    word: str = Field("", alias="theWord")


class Type(BaseModel):
    kind: Literal["type"] = "type"
    word: str = Field("", alias="theWord")


class Fields(BaseModel):
    kind: Literal["fields"] = "fields"


class Tagged(BaseModel):
    it: Annotated[Default | Type | Fields, Field(discriminator="kind")]


@pytest.mark.parametrize("part", [Default(theWord="a"), Type(theWord="a"), Fields()], ids=lambda it: it.kind)
def test_a_tag_may_be_a_word_of_pydantics_schemas(part: Any) -> None:
    codec = codec_of(as_message_type(Tagged))
    assert codec.decode(codec.encode(Tagged(it=part))) == Tagged(it=part)


@dataclass
class Counted:
    limit: int = 100
    total: int = dataclass_field(default=0, init=False)


class Upper(BaseModel):
    word: str = Field("", alias="theWord")

    @model_serializer
    def write(self) -> dict[str, str]:
        return {"word": self.word}


def test_what_a_class_writes_and_does_not_read_is_refused() -> None:
    counted = Counted()
    counted.total = 7
    for value, text in ((counted, "'total' has init=False"), (Upper(theWord="a"), "Upper writes itself")):
        with pytest.raises(InvalidBody, match=text):
            codec_of(as_message_type(type(value))).encode(value)
        with pytest.raises(ValueError, match=text):
            StateCodec("s", type(value), 1).encode(value)
    assert codec_of(as_message_type(Counted)).encode(Counted(limit=5)) == b'{"limit":5,"total":0}'


class Measured(BaseModel):
    best: float | None = None
    all: list[float | None] = []
    more: Any = None


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (Measured(best=math.inf), "best"),
        (Measured(all=[1.0, math.nan]), "all.1"),
        (Measured(more={"a": [-math.inf]}), "more.a.0"),
    ],
    ids=["optional", "list", "any"],
)
def test_a_float_that_json_does_not_have_is_refused(value: Any, path: str) -> None:
    """Pydantic writes null for it."""
    with pytest.raises(InvalidBody, match=f"Measured: {path}: JSON has no infinity and no NaN"):
        codec_of(as_message_type(Measured)).encode(value)
    with pytest.raises(ValueError, match=f"{path}: JSON has no infinity"):
        StateCodec("s", Measured, 1).encode(value)
    with pytest.raises(ValueError, match="average: JSON has no infinity"):
        StateCodec("s", None, 1).encode({"average": math.nan})
    assert StateCodec("s", None, 1).encode({"average": None}) == b'{"average":null}'
