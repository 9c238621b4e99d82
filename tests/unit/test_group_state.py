"""Laws of group state: what is stored loads again, also after the class has changed."""

from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel, computed_field, model_serializer, model_validator

from conversations.errors import DeclarationError, StateUpgradeError
from conversations.group_state import StateCodec


class Loan(BaseModel):
    score: int = 0
    name: str = ""


class Needy(BaseModel):
    score: int


def test_state_comes_back() -> None:
    """As its class, from JSON."""
    codec = StateCodec("s", Loan, 1)
    assert codec.decode(codec.encode(Loan(score=3)), 1) == Loan(score=3)


def test_without_a_class_state_is_a_dict() -> None:
    """The simplest thing that can be stored."""
    codec = StateCodec("s", None, 1)
    assert codec.new() == {}
    assert codec.decode(codec.encode({"a": [1, None]}), 1) == {"a": [1, None]}


def test_a_new_group_begins_with_empty_state() -> None:
    """No bytes are the class's defaults, of whatever version."""
    assert StateCodec("s", Loan, 1).decode(b"", 0) == Loan()


def test_each_decoding_is_fresh() -> None:
    """What a failed handler did to the state must not be seen by the next run."""
    codec = StateCodec("s", None, 1)
    data = codec.encode({"a": []})
    codec.decode(data, 1)["a"].append(1)
    assert codec.decode(data, 1) == {"a": []}


@pytest.mark.parametrize("state", [{"score": 1}, None, 3])
def test_state_of_another_class_is_not_stored(state: Any) -> None:
    """Replacing group.state with something else is the handler's mistake."""
    with pytest.raises(TypeError, match=r"group\.state must be a Loan"):
        StateCodec("s", Loan, 1).encode(state)


def test_state_that_does_not_fit_its_class_is_not_stored() -> None:
    """Assignments are not validated by Pydantic; storing is."""
    loan = Loan()
    loan.score = "many"  # type: ignore[assignment]  # what a careless handler does
    with pytest.raises(ValueError, match="score"):
        StateCodec("s", Loan, 1).encode(loan)


def test_older_state_is_upgraded_step_by_step() -> None:
    """Every version has a function to the next; they run in order on plain JSON."""
    codec = StateCodec("s", Loan, 3)
    codec.upgrade(1)(lambda old: {"points": old["pts"]})
    codec.upgrade(2)(lambda old: {"score": old["points"] * 10, "name": "upgraded"})
    codec.check()
    assert codec.decode(b'{"pts": 7}', 1) == Loan(score=70, name="upgraded")
    assert codec.decode(b'{"points": 7}', 2) == Loan(score=70, name="upgraded")
    assert codec.decode(b'{"score": 7}', 3) == Loan(score=7)


def test_a_missing_upgrade_is_named_before_anything_runs() -> None:
    """The declaration says which function to register."""
    codec = StateCodec("s", Loan, 3)
    codec.upgrade(2)(lambda old: old)
    with pytest.raises(DeclarationError, match=r"no upgrade from version 1.*upgrade_state\(1\)"):
        codec.check()


def test_state_of_newer_code_is_refused() -> None:
    """An old worker must not write over what it does not understand."""
    with pytest.raises(StateUpgradeError, match="version 2, but this code has version 1"):
        StateCodec("s", Loan, 1).decode(b"{}", 2)


@pytest.mark.parametrize("data", [b"{", b'{"score": "many"}'])
def test_state_that_does_not_load_says_so(data: bytes) -> None:
    """With the field, and both versions."""
    with pytest.raises(StateUpgradeError, match="version 1 does not load as version 1"):
        StateCodec("s", Loan, 1).decode(data, 1)


def test_an_upgrade_that_fails_says_so() -> None:
    """A bug in an upgrade function is not a broken row."""
    codec = StateCodec("s", Loan, 2)
    codec.upgrade(1)(lambda old: old["nothing"])
    with pytest.raises(StateUpgradeError, match="version 1 does not load as version 2"):
        codec.decode(b"{}", 1)


def test_a_class_without_defaults_cannot_begin_a_group() -> None:
    """Found when the service starts, with the field's name."""
    with pytest.raises(DeclarationError, match="score"):
        StateCodec("s", Needy, 1).check()


def test_versions_count_from_one() -> None:
    """0 is the version of no state at all."""
    with pytest.raises(DeclarationError, match="counts from 1"):
        StateCodec("s", Loan, 0)


class Basket(BaseModel):
    score: int = 0
    paid_by: str = Field("", alias="paidBy")

    @computed_field
    def double(self) -> int:
        return 2 * self.score


class LargerBasket(BaseModel):
    tags: dict[str, int] = {}
    score: int = 0
    paid_by: str = Field("", alias="paidBy")
    total: int = 0


LARGE = LargerBasket(tags={"a": 1}, score=1, total=7)


def test_fields_that_only_a_newer_release_knows_stay() -> None:
    """An older release works beside it: what it writes has the fields that it does not know."""
    newer, older = StateCodec("s", LargerBasket, 1), StateCodec("s", Basket, 1)
    stored = newer.encode(LARGE)
    seen = older.decode(stored, 1)
    seen.score = 5
    written = older.with_unknown(older.encode(seen), stored)
    assert newer.decode(written, 1) == LARGE.model_copy(update={"score": 5})


def test_fields_that_a_release_knows_are_not_brought_back() -> None:
    """Neither the contents of its fields, nor computed fields, nor other names of fields."""
    codec = StateCodec("s", LargerBasket, 1)
    data = codec.encode(LARGE.model_copy(update={"tags": {}}))
    assert codec.with_unknown(data, codec.encode(LARGE)) is data
    basket = StateCodec("s", Basket, 1)
    data = basket.encode(Basket())
    assert basket.with_unknown(data, b'{"score":1,"paid_by":"a","paidBy":"b","double":2}') is data


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    score: int = 0


@pytest.mark.parametrize("state", [Open, dict])
def test_a_class_may_decide_itself_about_unknown_fields(state: type) -> None:
    """A key that a handler takes out is gone."""
    codec = StateCodec("s", state, 1)
    seen = codec.decode(b'{"score":1,"more":2}', 1)
    data = codec.encode(seen)
    assert b"more" in data
    assert codec.with_unknown(b'{"score":1}', data) == b'{"score":1}'


class Tagged(RootModel[dict[str, int]]):
    root: dict[str, int] = {}


class Renamed(BaseModel):
    """It writes another name than it has, and reads it again."""

    total: int = 0

    @model_validator(mode="before")
    @classmethod
    def read(cls, values: dict[str, Any]) -> dict[str, Any]:
        return {"total": values["sum"]} if "sum" in values else values

    @model_serializer
    def write(self) -> dict[str, int]:
        return {"sum": self.total}


@pytest.mark.parametrize(
    ("before", "after"),
    [(Tagged({"a": 1, "b": 1}), Tagged({"a": 2})), (Renamed(total=1), Renamed(total=2))],
    ids=["root", "serializer"],
)
def test_what_a_class_writes_in_its_own_way_is_not_mixed_with_what_was_stored(before: Any, after: Any) -> None:
    """Its names say nothing about the fields that a newer release knows."""
    codec = StateCodec("s", type(before), 1)
    assert codec.decode(codec.with_unknown(codec.encode(after), codec.encode(before)), 1) == after


class Stock(BaseModel):
    left: int = Field(1, ge=0)


def test_state_that_its_class_does_not_read_is_not_stored() -> None:
    """Else every later handler of the group would fail, and not the one that made it."""
    stock = Stock()
    stock.left = -1
    with pytest.raises(ValueError, match="left"):
        StateCodec("s", Stock, 1).encode(stock)
