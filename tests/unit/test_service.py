"""Laws of declaring a service: what it may receive has a handler, and mistakes are told at once."""

from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from conversations import Contract, Dialog, MessageType, PeerError, Service
from conversations.errors import DeclarationError


class Ask(BaseModel):
    pass


class Answer(BaseModel):
    pass


SALES = Contract("Sales", sent_by_initiator=[Ask], sent_by_target=[Answer])
OTHER = Contract("Other", sent_by_initiator=[Ask])


def nothing(body: Any, dialog: Dialog) -> None:
    """Does nothing."""


def test_a_gap_is_named_with_the_contract_and_the_side_that_sends() -> None:
    """A service that cannot handle what it may receive refuses to start."""
    with pytest.raises(DeclarationError, match=r"Ask \(contract Sales, sent by the initiator\)"):
        Service("s", accepts=[SALES]).check()
    with pytest.raises(DeclarationError, match=r"Answer \(contract Sales, sent by the target\)"):
        Service("s", initiates=[SALES]).check()


def test_a_type_may_be_ignored_by_name_or_class() -> None:
    """Saying so is enough."""
    Service("s", accepts=[SALES], ignores=[Ask]).check()
    Service("s", accepts=[SALES], ignores=["Ask"]).check()


def test_a_service_has_a_side_for_each_part_it_plays() -> None:
    """Accepting and initiating one contract are two different sides."""
    service = Service("s", accepts=[SALES], initiates=[SALES])
    service.on(Ask)(nothing)
    service.on(Answer)(nothing)
    sides = service.check()
    assert set(sides) == {("Sales", False), ("Sales", True)}
    assert set(sides["Sales", False].receivers) == {"Ask"}
    assert set(sides["Sales", True].receivers) == {"Answer"}
    assert set(sides["Sales", True].senders) == {Ask}


def test_a_handler_of_a_contract_wins_over_the_general_one() -> None:
    """The same type may mean different work in different dialogs."""
    service = Service("s", accepts=[SALES, OTHER])

    @service.on(Ask, contract=OTHER)
    def special(body: Ask, dialog: Dialog) -> None:
        """Does nothing."""

    service.on(Ask)(nothing)
    names = {name: side.receivers["Ask"][1] for (name, _), side in service.check().items()}
    handlers = {name: handler.function for name, handler in names.items() if handler is not None}
    assert handlers == {"Sales": nothing, "Other": special}


def test_events_have_handlers_by_contract_or_for_all() -> None:
    """on_end, on_error and on_timer."""
    service = Service("s", accepts=[SALES, OTHER], ignores=[Ask])

    @service.on_error(OTHER)
    def broken(error: PeerError, dialog: Dialog) -> None:
        """Does nothing."""

    @service.on_error()
    def any_broken(error: PeerError, dialog: Dialog) -> None:
        """Does nothing."""

    sides = service.check()
    found = {name: side.on_error.function for (name, _), side in sides.items() if side.on_error is not None}
    assert found == {"Sales": any_broken, "Other": broken}
    assert sides["Sales", False].on_end is None


def test_a_type_has_one_handler() -> None:
    """A second registration names the first."""
    service = Service("s", accepts=[SALES])
    service.on(Ask)(nothing)
    with pytest.raises(DeclarationError, match=r"already: nothing"):
        service.on(Ask)(nothing)
    service.on_end()(lambda dialog: None)
    with pytest.raises(DeclarationError, match="on_end for all contracts already"):
        service.on_end()(lambda dialog: None)


def test_a_handler_of_what_never_arrives_is_refused() -> None:
    """Usually it was meant for the other side; what may arrive is listed."""
    service = Service("s", accepts=[SALES])
    with pytest.raises(DeclarationError, match=r"never receives 'Answer'.*It may receive: Ask"):
        service.on(Answer)(nothing)


@pytest.mark.parametrize("function", [lambda: None, lambda body: None, lambda body, dialog, more: None])
def test_a_handler_takes_body_and_dialog(function: Any) -> None:
    """Found when it is registered, not when the first message comes."""
    with pytest.raises(DeclarationError, match=r"\(body, dialog\)"):
        Service("s", accepts=[SALES]).on(Ask)(function)


def test_a_time_limit_is_positive() -> None:
    """Nothing can be done in no time."""
    with pytest.raises(DeclarationError, match="time limit"):
        Service("s", accepts=[SALES]).on(Ask, time_limit=timedelta(0))(nothing)


def test_async_handlers_are_known_as_such() -> None:
    """They run on the event loop."""
    service = Service("s", accepts=[SALES])

    @service.on(Ask)
    async def ask(body: Ask, dialog: Dialog) -> None:
        """Does nothing."""

    handler = service.check()["Sales", False].receivers["Ask"][1]
    assert handler is not None
    assert handler.is_async


def test_two_contracts_of_one_name_are_a_mistake() -> None:
    """Nobody could say which one a record means."""
    again = Contract("Sales", sent_by_initiator=[Ask])
    with pytest.raises(DeclarationError, match="two different contracts 'Sales'") as refused:
        Service("s", accepts=[SALES, again])
    assert refused.value.code == 8404
    Service("s", accepts=[SALES, SALES])


def test_the_catalog_has_plain_data() -> None:
    """Names of types by who sends them."""
    both = Contract("Both", sent_by_any=[MessageType("Say", "bytes")])
    declaration = Service("s", accepts=[SALES], initiates=[both]).declaration()
    assert declaration.accepts == {"Sales": {"initiator": ["Ask"], "target": ["Answer"], "any": []}}
    assert declaration.initiates == {"Both": {"initiator": [], "target": [], "any": ["Say"]}}
