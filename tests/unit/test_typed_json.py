"""An object arrives as it was sent, or is refused: floats that JSON does not have, and classes that write themselves."""

import math
from collections import deque
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from pydantic import (
    AliasPath,
    BaseModel,
    BeforeValidator,
    Field,
    PlainSerializer,
    PrivateAttr,
    ValidationError,
    field_serializer,
    model_serializer,
    model_validator,
)

from conversations.bodies import codec_of
from conversations.errors import InvalidBody
from conversations.group_state import StateCodec
from conversations.protocol.contract import as_message_type

WORDS = frozenset(f"word-{number}" for number in range(60))
LOST = "JSON has no infinity and no NaN"


def arrived(value: Any) -> Any:
    codec = codec_of(as_message_type(type(value)))
    return codec.decode(codec.encode(value))


@dataclass(slots=True)
class Slots:
    x: float | None = None


class Many(BaseModel):
    queue: deque[float | None] = deque()
    values: set[float | None] = set()
    more: Any = None
    slots: Slots = Slots()
    zero: Annotated[float, BeforeValidator(lambda it: 0.0 if it is None else it)] = 0.0
    note: str | None = None


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (Many(queue=deque([1.0, math.inf])), "queue.1"),
        (Many(values={math.nan}), "values.nan"),
        (Many(more={1: math.inf}), "more.1"),
        (Many(more=Slots(math.inf)), "more.x"),
        (Many(more=Many(zero=math.nan)), "more.zero"),
        (Many(slots=Slots(-math.inf)), "slots.x"),
        (Many(zero=math.inf), "zero"),
        (Slots(math.inf), "x"),
    ],
)
def test_a_float_is_lost_nowhere(value: Any, path: str) -> None:
    with pytest.raises(InvalidBody, match=f": {path}: {LOST}"):
        arrived(value)
    with pytest.raises(ValueError, match=f"{path}: {LOST}"):
        StateCodec("s", type(value), 1).encode(value)


@pytest.mark.parametrize(
    "part", [{1: math.inf}, deque([math.inf]), {math.inf}, Slots(math.inf), {"deep": [{"a": None}, {"a": math.nan}]}]
)
def test_a_float_is_lost_nowhere_in_a_state_of_anything(part: Any) -> None:
    with pytest.raises(ValueError, match=LOST):
        StateCodec("s", None, 1).encode({"part": part})


class More(BaseModel, extra="allow"):
    n: int = 0


class Holder(BaseModel):
    more: More = More()


class Plain(BaseModel):
    x: float = 0.0
    note: str | None = None


class Fuller(Plain):
    y: float = 0.0


class Holding(BaseModel):
    plain: Plain = Plain()


class Twice(BaseModel):
    a: Plain = Plain()
    b: Plain = Field(default_factory=Plain, serialization_alias="written", validation_alias="read")


def test_a_float_is_not_lost_in_a_field_that_its_class_does_not_name() -> None:
    for value in (More(q=math.inf), Holder(more=More(q={"a": [1.5, math.nan]}))):
        with pytest.raises(InvalidBody, match=LOST):
            arrived(value)


def test_an_object_that_is_there_twice_is_compared_twice() -> None:
    part = Plain(x=5.0)
    with pytest.raises(InvalidBody, match="give it one name for both"):
        arrived(Twice(a=part, read=part))


class Kept(BaseModel):
    note: str | None = None
    cache: float | None = Field(None, exclude=True)
    best: float | None = None
    own: Annotated[float, PlainSerializer(lambda it: None if it == math.inf else it)] | None = None

    @field_serializer("best")
    def _write(self, best: float | None) -> float | None:
        return None if best is None or math.isinf(best) else best


class Texts(BaseModel, ser_json_inf_nan="strings"):
    x: float = 0.0
    note: str | None = None


class Node(BaseModel):
    tag: str | None = None
    size: float = 0.0
    parent: "Node | None" = Field(None, exclude=True)
    children: list["Node"] = []

    @model_validator(mode="after")
    def _adopt(self) -> "Node":
        for child in self.children:
            child.parent = self
        return self


@pytest.mark.parametrize(
    "value",
    [
        Kept(cache=math.inf),
        Kept(best=math.inf),
        Kept(own=math.inf),
        Texts(x=math.inf),
        Node(children=[Node(tag="a", children=[Node()])]),
        Holding(plain=Fuller(y=math.inf)),
    ],
    ids=[
        "excluded",
        "written by its class",
        "written by its type",
        "written as a text",
        "with itself in it",
        "of a subclass",
    ],
)
def test_what_is_not_lost_is_not_refused(value: Any) -> None:
    """A field that is not written is not lost, and a class may write infinity in a way of its own."""
    assert arrived(value).model_dump_json() == value.model_dump_json()
    data = StateCodec("s", type(value), 1).encode(value)
    assert StateCodec("s", type(value), 1).decode(data, 1).model_dump_json() == value.model_dump_json()


class Cached(BaseModel):
    words: frozenset[str] = frozenset()
    _cache: int | None = PrivateAttr(None)

    @model_serializer(mode="wrap")
    def _write(self, write: Any) -> Any:
        return write(self)


class Noted(BaseModel):
    note: str = Field("", exclude=True)
    cached: Cached = Cached()
    late: str = Field("", validation_alias=AliasPath("a", "b"))


@pytest.mark.parametrize("number", range(20))
def test_only_what_is_written_must_come_back(number: int) -> None:
    """A private attribute and an excluded field never come back, and a set comes back in another order."""
    cached = Cached(words=frozenset(f"{it}{number}" for it in WORDS))
    cached._cache = number
    noted = Noted(note="here", cached=cached)
    assert arrived(cached).words == cached.words
    assert arrived(noted).cached.words == cached.words


class Mixed(BaseModel):
    required: str = Field(serialization_alias="shown")
    optional: str = Field("", alias="theOptional")


class Both(BaseModel):
    mixed: Mixed
    kind: Literal["both"] = "both"


def test_a_class_that_cannot_be_read_in_one_way_is_written_in_another() -> None:
    assert arrived(Mixed(required="a")) == Mixed(required="a")
    assert arrived(Both(mixed=Mixed(required="a"))) == Both(mixed=Mixed(required="a"))
    with pytest.raises(InvalidBody, match="give it one name for both"):
        arrived(Mixed(required="a", theOptional="b"))


def nested(depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(depth):
        found = {"a": found}
    return found


@pytest.mark.parametrize("state", [{"n": 10**5000}, nested(210)], ids=["a long number", "many brackets"])
def test_a_state_of_anything_that_is_not_read_is_not_stored(state: dict[str, Any]) -> None:
    codec = StateCodec("s", None, 1)
    with pytest.raises(ValidationError, match=r"out of range|recursion limit"):
        codec.encode(state)
    assert codec.decode(codec.encode({"rows": [{"a": number} for number in range(2_000)]}), 1)["rows"][-1] == {
        "a": 1999
    }
