"""``local``: what its client says, to whom, and what is left of it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from pydantic import BaseModel

from conversations import (
    Contract,
    Dialog,
    LocalError,
    PeerError,
    RequestTimeout,
    Service,
    UnknownContract,
    UnknownService,
    local,
)
from conversations.handlers import unknown_side


class Ask(BaseModel):
    n: int


class Answer(BaseModel):
    n: int


DOUBLES = Contract("Doubles", sent_by_initiator=[Ask], sent_by_target=[Answer])
OTHER = Contract("Other", sent_by_initiator=[Ask])
SECOND = timedelta(seconds=1)


def doubler() -> Service:
    service = Service("doubler", accepts=[DOUBLES])

    @service.on(Ask)
    def double(ask: Ask, dialog: Dialog) -> None:
        dialog.send(Answer(n=2 * ask.n))

    return service


def test_a_write_outside_a_block_is_refused() -> None:
    """Before the block and after it: nothing would ever be sent."""
    with local(doubler()) as client:
        dialog = client.begin_dialog("doubler", DOUBLES)
        with pytest.raises(LocalError, match="is a block"):
            dialog.send(Ask(n=1))
        with dialog:
            dialog.send(Ask(n=1))
        with pytest.raises(LocalError, match="is a block"):
            dialog.send(Ask(n=2))
        with dialog:
            dialog.end()


def test_the_client_may_have_another_name() -> None:
    """Processes that share a Kafka need a name each; answers arrive all the same."""
    with local(doubler(), name="ada") as client:
        assert client.service_name == "ada"
        assert client.request("doubler", DOUBLES, Ask(n=4), reply=Answer, timeout=9 * SECOND).result().n == 8


def test_a_time_out_names_the_service() -> None:
    """It says who did not answer."""
    with local(doubler()) as client, pytest.raises(RequestTimeout, match=r"no reply from doubler .* worker of it"):
        client.request("doubler", DOUBLES, Ask(n=1), reply=Answer, timeout=timedelta(0)).result()


def test_a_request_to_a_service_that_nobody_knows_is_refused_at_once() -> None:
    """It does not wait for its time-out."""
    with local(doubler()) as client, pytest.raises(UnknownService, match="'nobody'"):
        client.request("nobody", DOUBLES, Ask(n=1), reply=Answer, timeout=timedelta(hours=1)).result()


def test_a_request_that_is_told_of_its_error_is_not_reported_to_operators(caplog: pytest.LogCaptureFixture) -> None:
    """The service that refuses it reports its own side."""
    other = Contract("Other", sent_by_initiator=[Ask], sent_by_target=[Answer])
    with local(doubler(), initiates=[other], name="ada") as client, pytest.raises(PeerError) as broken:
        client.request("doubler", other, Ask(n=1), reply=Answer, timeout=9 * SECOND).result()
    assert (broken.value.code, broken.value.name) == (-8408, "CONTRACT_NOT_ACCEPTED")
    told = [it.getMessage() for it in caplog.records if "broke" in it.getMessage()]
    assert [text for text in told if "no handler of ada" in text] == []
    assert len(told) == 1


def test_a_time_out_is_a_timedelta() -> None:
    """A number would not say of what."""
    with local(doubler()) as client, pytest.raises(LocalError, match="takes a timedelta"):
        client.request("doubler", DOUBLES, Ask(n=1), reply=Answer, timeout=3)  # type: ignore[call-overload]  # the mistake


def test_a_contract_that_was_not_named_is_refused_with_the_way_out() -> None:
    """The message says where to name it."""
    with local(doubler()) as client, pytest.raises(UnknownContract, match=r"initiates=\[\.\.\.\]"):
        client.begin_dialog("doubler", OTHER)


def test_a_contract_nobody_declares_any_more_lets_nothing_arrive() -> None:
    """A dialog that an earlier script left breaks with the first message, and stops nobody."""
    side = unknown_side("Forgotten", initiator=True)
    assert side.receivers == {}
    assert side.on_error is None
