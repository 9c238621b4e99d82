"""``local``: what its client says, to whom, and what is left of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from datetime import timedelta

import pytest
from pydantic import BaseModel

from conversations import (
    Client,
    Contract,
    Dialog,
    LocalError,
    PeerError,
    RequestTimeout,
    Service,
    Status,
    UnknownContract,
    UnknownService,
    local,
)
from conversations.handlers import unknown_side
from conversations.ports import Headers


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


def test_a_request_lives_no_longer_than_its_contract_allows() -> None:
    """A request asks for a minute, or for its time-out: a contract with a shorter lifetime is no reason to refuse it."""
    brief = Contract("Brief", sent_by_initiator=[Ask], sent_by_target=[Answer], lifetime=9 * SECOND)
    service = Service("brief", accepts=[brief])

    @service.on(Ask)
    def live(ask: Ask, dialog: Dialog) -> None:
        dialog.send(Answer(n=round((dialog.message.expires_at - dialog.now).total_seconds())))

    with local(service) as client:
        assert 1 <= client.request("brief", brief, Ask(n=4), reply=Answer, timeout=30 * SECOND).result().n <= 9


def test_a_time_out_names_the_service() -> None:
    """It says who did not answer."""
    with local(doubler()) as client, pytest.raises(RequestTimeout, match="no reply from doubler on dialog"):
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


def test_a_time_out_says_whether_the_request_has_left_this_side() -> None:
    """Not confirmed by Kafka, not taken up by the worker, or sent: three different things to look at."""

    class Silent:
        """A sink that loses commands. It confirms none of them, or all."""

        def __init__(self, *, confirms: bool) -> None:
            self.confirms = confirms

        def append_async(
            self, key: bytes, values: Sequence[bytes], headers: Headers | None = None, *, to: str = ""
        ) -> Future[None]:
            future: Future[None] = Future()
            if self.confirms:
                future.set_result(None)
            return future

        def close(self) -> None: ...

    def late(client: Client) -> RequestTimeout:
        with pytest.raises(RequestTimeout) as error:
            client.request("doubler", DOUBLES, Ask(n=1), reply=Answer, timeout=timedelta(milliseconds=10)).result()
        return error.value

    with local(doubler()) as client:
        for confirms, text in ((False, "Kafka has not confirmed"), (True, "has not taken the request up")):
            client._sinks[client.service_name] = Silent(confirms=confirms)
            error = late(client)
            assert text in str(error)
            assert error.acknowledged is False


def test_a_reader_tells_of_services_in_memory() -> None:
    service = doubler()
    with local(service) as client:
        with client.begin_dialog("doubler", DOUBLES) as dialog:
            dialog.send(Ask(n=4))
            dialog.end()
        view = client.reader(service).wait(f"{dialog.id}:target", timeout=9 * SECOND).result()
        assert view.status is Status.ENDED


def test_a_coroutine_waits_for_a_view() -> None:
    service = doubler()

    async def ask(client: Client) -> None:
        async with client.begin_dialog("doubler", DOUBLES) as dialog:
            dialog.send(Ask(n=4))
            dialog.end()
        async with client.reader(service) as reader:
            view = await reader.wait(f"{dialog.id}:target", timeout=9 * SECOND)
            assert view.is_over
            with pytest.raises(RequestTimeout, match="not seen yet"):
                await reader.wait(client.new_id(), timeout=timedelta(0))

    with local(service) as client:
        asyncio.run(ask(client))
