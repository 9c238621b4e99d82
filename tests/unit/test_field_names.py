"""Fields with an alias: what is written is read again, whatever the release of Pydantic writes by itself."""

from typing import Annotated, Any

import pytest
from pydantic import AliasChoices, AliasPath, BaseModel, ConfigDict, Field, TypeAdapter, model_validator
from pydantic.dataclasses import dataclass

from conversations.bodies import codec_of
from conversations.errors import InvalidBody
from conversations.field_names import lost, writes_aliases
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


def test_a_class_that_reads_its_own_names_only_writes_them() -> None:
    schema = TypeAdapter(Shown).core_schema
    assert not writes_aliases(schema)
    assert lost(schema) == ""
    assert writes_aliases(TypeAdapter(int).core_schema)


def test_a_field_that_is_not_written_is_not_lost() -> None:
    """Its class says so."""

    class Secret(BaseModel):
        word: str = Field("", validation_alias="heard", exclude=True)

    assert lost(TypeAdapter(Secret).core_schema) == ""
