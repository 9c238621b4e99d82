"""Releases of a service side by side with older and newer peers: a message that does not fit is held, and the next release handles it."""

import contextlib
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from conversations import Brake, Contract, Dialog, PoisonPolicy, Service, Then, WorkerSettings, local, message_type
from conversations.errors import PeerError
from conversations.protocol import letters
from conversations.protocol.command import Action
from conversations.protocol.envelope import Kind
from conversations.protocol.parked import Decision
from conversations.testing import Simulation
from tests.simulation.support import records

RETRY = Decision(Action.RETRY, "operator", "the next release is there")


@message_type("Order")
class OldOrder(BaseModel):
    n: int


@message_type("Order")
class ChangedOrder(BaseModel):
    n: int
    currency: str


@message_type("Order", version=2)
class NewOrder(BaseModel):
    n: int
    currency: str


class Receipt(BaseModel):
    n: int


class Cancel(BaseModel):
    n: int


OLD = Contract("Trade", sent_by_initiator=[OldOrder], sent_by_target=[Receipt])
CHANGED = Contract("Trade", sent_by_initiator=[ChangedOrder], sent_by_target=[Receipt])
WITH_CANCEL = Contract("Trade", sent_by_initiator=[OldOrder, Cancel], sent_by_target=[Receipt])
NEW = Contract("Trade", sent_by_initiator=[NewOrder], sent_by_target=[Receipt])


def shop(contract: Contract, seen: list[Any], *poison: PoisonPolicy) -> Service[Any]:
    """A release of the shop under one version of the contract. It notes what it handles."""
    service: Service[Any] = Service("shop", accepts=[contract], poison=poison)
    for declared in contract.by_initiator.values():

        @service.on(declared)
        def handle(body: Any, dialog: Dialog) -> None:
            seen.append(body)
            dialog.send(Receipt(n=body.n))

    if contract is NEW:

        @service.upgrade(NewOrder, 1)
        def with_currency(old: Any) -> Any:
            return old | {"currency": "EUR"}

    return service


def errors_to(sim: Simulation, service: str) -> list[int]:
    return [it.code for it in records.queued(sim, service) if it.kind is Kind.ERROR]


def test_a_body_that_does_not_fit_is_held_and_handled_by_the_release_with_the_upgrade() -> None:
    seen: list[Any] = []
    with Simulation(shop(CHANGED, seen), raise_failures=False) as sim:
        dialog = sim.peer("web", accepts=[OLD]).begin_dialog("shop", OLD)
        dialog.send(OldOrder(n=1))
        dialog.send(OldOrder(n=2))
        sim.run()
        (held,) = sim.parked("shop")
        assert "currency: Field required" in held.failure
        assert held.behind == 1
        (letter,) = sim.dead_letters("shop")
        assert letter.reason == letters.UNFIT
        assert errors_to(sim, "web") == []
        sim.deploy(shop(NEW, seen))
        sim.decide(held, RETRY)
        sim.run()
        assert seen == [NewOrder(n=1, currency="EUR"), NewOrder(n=2, currency="EUR")]
        assert [dialog.take(Receipt).n, dialog.take(Receipt).n] == [1, 2]
        sim.check_invariants()


def test_a_type_that_this_release_does_not_know_is_held(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[Any] = []
    with Simulation(shop(OLD, seen), raise_failures=False) as sim:
        dialog = sim.peer("web", accepts=[WITH_CANCEL]).begin_dialog("shop", WITH_CANCEL)
        dialog.send(Cancel(n=1))
        dialog.send(OldOrder(n=2))
        sim.run()
        (held,) = sim.parked("shop")
        assert "does not know the message type" in held.failure
        (said,) = (it for it in caplog.records if "giving up on Cancel" in it.getMessage())
        assert vars(said)["conversation"] == held.conversation
        assert (seen, errors_to(sim, "web")) == ([], [])
        sim.deploy(shop(WITH_CANCEL, seen))
        sim.decide(held, RETRY)
        sim.run()
        assert seen == [Cancel(n=1), OldOrder(n=2)]
        sim.check_invariants()


def test_a_policy_that_ends_dialogs_tells_the_peer_what_does_not_fit() -> None:
    ends = PoisonPolicy.service_broker()
    with Simulation(shop(CHANGED, [], ends), raise_failures=False) as sim:
        dialog = sim.peer("web", accepts=[WITH_CANCEL]).begin_dialog("shop", WITH_CANCEL)
        dialog.send(OldOrder(n=1))
        sim.run()
        assert errors_to(sim, "web") == [-9615]
        other = sim.peer("web").begin_dialog("shop", WITH_CANCEL)
        other.send(Cancel(n=1))
        sim.run()
        assert errors_to(sim, "web") == [-9615, -8498]
        assert [it.reason for it in sim.dead_letters("shop")] == [letters.BREACH] * 2
        sim.check_invariants()


def test_a_policy_may_skip_what_does_not_fit() -> None:
    seen: list[Any] = []
    with Simulation(shop(OLD, seen, PoisonPolicy(then=Then.SKIP)), raise_failures=False) as sim:
        dialog = sim.peer("web", accepts=[WITH_CANCEL]).begin_dialog("shop", WITH_CANCEL)
        dialog.send(Cancel(n=1))
        dialog.send(OldOrder(n=2))
        sim.run()
        assert seen == [OldOrder(n=2)]
        sim.check_invariants()


def test_bytes_that_no_release_could_send_break_the_dialog() -> None:
    with Simulation(shop(OLD, []), raise_failures=False) as sim:
        conversation = records.drawn(sim)
        sim.peer("stranger")
        records.post(sim, records.message(records.first_of(sim, conversation, "shop", "Trade"), 0, "Order", b"{"))
        sim.run()
        assert [it.reason for it in sim.dead_letters("shop")] == [letters.BREACH]
        assert errors_to(sim, "stranger") == [-9615]


def test_a_type_of_this_side_breaks_the_dialog() -> None:
    """No release of the peer may send it."""
    with Simulation(shop(OLD, []), raise_failures=False) as sim:
        conversation = records.drawn(sim)
        sim.peer("stranger")
        records.post(
            sim, records.message(records.first_of(sim, conversation, "shop", "Trade"), 0, "Receipt", b'{"n":1}')
        )
        sim.run()
        assert errors_to(sim, "stranger") == [-8457]


def test_old_and_new_bodies_are_handled_by_the_new_release_and_new_ones_by_the_old() -> None:
    seen: list[Any] = []
    with Simulation(shop(NEW, seen)) as sim:
        old = sim.peer("old", accepts=[OLD]).begin_dialog("shop", OLD)
        new = sim.peer("new", accepts=[NEW]).begin_dialog("shop", NEW)
        old.send(OldOrder(n=1))
        new.send(NewOrder(n=2, currency="CHF"))
        sim.run()
        assert sorted(seen, key=lambda it: it.n) == [NewOrder(n=1, currency="EUR"), NewOrder(n=2, currency="CHF")]
        sim.deploy(shop(OLD, seen))
        new.send(NewOrder(n=3, currency="CHF"))
        sim.run()
        assert seen[-1] == OldOrder(n=3)
        sim.check_invariants()


def test_an_upgrade_that_fails_holds_the_message() -> None:
    service = Service("shop", accepts=[NEW], ignores=[NewOrder])

    @service.upgrade(NewOrder, 1)
    def broken(old: Any) -> Any:
        raise LookupError("no currency")

    with Simulation(service, raise_failures=False) as sim:
        sim.peer("web", accepts=[OLD]).begin_dialog("shop", OLD).send(OldOrder(n=1))
        sim.run()
        (held,) = sim.parked("shop")
        assert "cannot be upgraded to version 2: LookupError: no currency" in held.failure


def test_when_all_dialogs_of_a_peer_do_not_fit_they_wait_for_the_next_release_without_an_operator() -> None:
    seen: list[Any] = []
    settings = WorkerSettings(
        patience=timedelta(0),
        revocation=timedelta(0),
        deaths=1_000_000,
        brake=Brake(dialogs=5, probe=timedelta(seconds=1)),
    )
    with Simulation(shop(CHANGED, seen), raise_failures=False, settings=settings, partitions=1) as sim:
        for number in range(20):
            sim.peer("web", accepts=[OLD]).begin_dialog("shop", OLD).send(OldOrder(n=number))
        sim.run()
        assert len([it for it in sim.dead_letters("shop") if it.reason == letters.UNFIT]) < 6
        sim.deploy(shop(NEW, seen))
        sim.advance(timedelta(minutes=1))
        assert len(seen) > 14


def test_the_reply_to_a_client_that_does_not_fit_ends_its_request() -> None:
    """A client's service has no operator, and its next run may have another contract."""
    strict: list[bool] = []

    class Moody(BaseModel):
        n: int

        @field_validator("n")
        @classmethod
        def fits(cls, n: int) -> int:
            if strict:
                raise ValueError("not any more")
            return n

    contract = Contract("Ask", sent_by_initiator=[OldOrder], sent_by_target=[Moody])
    service = Service("shop", accepts=[contract])

    @service.on(OldOrder)
    def handle(body: OldOrder, dialog: Dialog) -> None:
        dialog.send(Moody(n=body.n))
        strict.append(True)

    with local(service) as client, pytest.raises(PeerError, match="not any more"):
        client.request("shop", contract, OldOrder(n=1), reply=Moody, timeout=timedelta(minutes=2)).result()


class OldTally(BaseModel):
    seen: int = 0


class NewTally(BaseModel):
    seen: int = 0
    last: int = -1


def tallying(state: type[BaseModel], version: int = 1, how: str = "read") -> Service[Any]:
    """A release of the shop that counts orders. Its handler reads the state, replaces or deletes it without a look, or catches what it gets."""
    service: Service[Any] = Service("shop", accepts=[OLD], state=state, state_version=version)

    @service.on(OldOrder)
    def count(order: OldOrder, dialog: Dialog[Any]) -> None:
        if how == "replace":
            dialog.group.state = state(seen=100)
        elif how == "delete":
            dialog.group.delete_state()
        elif how == "catch":
            with contextlib.suppress(Exception):
                dialog.group.state.seen += 1
        else:
            dialog.group.state.seen += 1
            if state is NewTally:
                dialog.group.state.last = order.n

    for older in range(1, version):
        service.upgrade_state(older)(lambda old: old)
    return service


def test_an_older_release_keeps_the_fields_of_state_that_it_does_not_know() -> None:
    with Simulation(tallying(NewTally)) as sim:
        dialog = sim.peer("web", accepts=[OLD]).begin_dialog("shop", OLD)
        for release in (tallying(NewTally), tallying(OldTally), tallying(NewTally)):
            sim.deploy(release)
            read = sim.state("shop", dialog.id, begun_by="web")
            assert read is None or read.value.seen > 0
            dialog.send(OldOrder(n=7))
            sim.run()
        sim.deploy(tallying(OldTally))
        dialog.send(OldOrder(n=8))
        sim.run()
        sim.deploy(tallying(NewTally))
        found = sim.state("shop", dialog.id, begun_by="web")
        assert found is not None
        assert found.value == NewTally(seen=4, last=7)


def test_an_older_release_that_replaces_the_state_keeps_what_it_does_not_know() -> None:
    """Also if it has read no state of any group before."""
    with Simulation(tallying(NewTally)) as sim:
        dialog = sim.peer("web", accepts=[OLD]).begin_dialog("shop", OLD)
        dialog.send(OldOrder(n=7))
        sim.run()
        sim.deploy(tallying(OldTally, how="replace"))
        dialog.send(OldOrder(n=8))
        sim.run()
        sim.deploy(tallying(NewTally))
        found = sim.state("shop", dialog.id, begun_by="web")
        assert found is not None
        assert found.value == NewTally(seen=100, last=7)


@pytest.mark.parametrize("how", ["replace", "delete", "catch"])
def test_state_of_a_newer_version_is_left_alone_whatever_a_handler_does(how: str) -> None:
    with Simulation(tallying(NewTally, 2), raise_failures=False) as sim:
        dialog = sim.peer("web", accepts=[OLD]).begin_dialog("shop", OLD)
        dialog.send(OldOrder(n=1))
        sim.run()
        sim.deploy(tallying(OldTally, how=how))
        dialog.send(OldOrder(n=2))
        sim.advance(timedelta(minutes=2))
        sim.run()
        (waits,) = sim.parked("shop")
        assert "stored state has version 2" in waits.failure
        assert not sim.dead_letters("shop")
        sim.deploy(tallying(NewTally, 2))
        sim.advance(timedelta(minutes=2))
        sim.run()
        found = sim.state("shop", dialog.id, begun_by="web")
        assert found is not None
        assert found.value == NewTally(seen=2, last=2)
