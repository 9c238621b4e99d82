"""Laws of readers: a view tells the committed truth about one side, what it waits for, and what was refused."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from conversations import Contract, Dialog, LocalError, PoisonPolicy, RequestTimeout, Service, Status, Then
from conversations.client_dialog import ClientDialog
from conversations.config import Kafka
from conversations.dialog_view import DialogView
from conversations.local import LocalClient, MemoryCommands
from conversations.testing import Simulation


class Ask(BaseModel):
    text: str = ""


class Answer(BaseModel):
    text: str = ""


class Seen(BaseModel):
    handles: list[str] = []


SALES = Contract("Sales", sent_by_initiator=[Ask], sent_by_target=[Answer], lifetime=None)


def web() -> Service[dict[str, Any]]:
    service = Service("web", initiates=[SALES])

    @service.on(Answer)
    def answered(body: Answer, dialog: Dialog) -> None:
        dialog.group.state["answer"] = body.text

    return service


def shop(policy: PoisonPolicy | None = None) -> Service[Seen]:
    """A service that keeps the handle of each dialog, fails for "bad", and breaks the dialog for "worse"."""
    service = Service("shop", accepts=[SALES], state=Seen, poison=[policy] if policy else [])

    @service.on(Ask)
    def asked(body: Ask, dialog: Dialog[Seen]) -> None:
        dialog.group.state.handles.append(dialog.handle)
        if body.text == "bad":
            raise ValueError("no")
        if body.text == "worse":
            dialog.end_with_error(1409, "Sold out.")
        if body.text == "bye":
            dialog.send(Answer(text="bye"))
            dialog.end()

    return service


class Desk:
    """A simulation with a client of each service."""

    def __init__(self, policy: PoisonPolicy | None = None) -> None:
        self.services: dict[str, Service[Any]] = {"web": web(), "shop": shop(policy)}
        self.sim = Simulation(*self.services.values(), raise_failures=False, now=datetime.now(UTC))

    def client(self, service: str) -> LocalClient:
        return LocalClient(
            self.services[service], Kafka("memory"), MemoryCommands(self.sim.broker, service), broker=self.sim.broker
        )

    def ask(self, *texts: str) -> ClientDialog:
        with self.client("web").begin_dialog("shop", SALES) as dialog:
            for text in texts:
                dialog.send(Ask(text=text))
        return dialog

    def view(self, handle: str, service: str = "web") -> DialogView[Any]:
        return self.sim.reader(service).dialog(handle)


def test_a_dialog_is_seen_only_after_its_command_is_carried_out() -> None:
    desk = Desk()
    dialog = desk.ask("hello")
    before = desk.view(dialog.id)
    assert (before.status, before.sent.sequenced, before.is_over) == (Status.NOT_SEEN_YET, 0, False)
    assert "a worker of 'web'" in str(before.waiting_for)
    desk.sim.run()
    view = desk.view(dialog.id)
    assert (view.status, view.contract, view.peer) == (Status.OPEN, "Sales", "shop")
    assert view.sent == (1, 0, 1, 0)
    assert view.waiting_for == "'shop' to acknowledge 1 of 1"
    desk.sim.advance(timedelta(seconds=1))
    assert desk.view(dialog.id).sent == (1, 0, 0, 1)
    assert desk.view(dialog.id).waiting_for is None
    (handle,) = desk.sim.state("shop", dialog.id, begun_by="web").value.handles  # type: ignore[union-attr]
    there = desk.view(handle, "shop")
    assert (handle, there.status, there.received) == (f"{dialog.id}:target", Status.OPEN, (1, 1, 0, 0))
    assert there.state.handles == [handle]


def test_a_client_of_the_service_that_accepted_a_dialog_speaks_on_it() -> None:
    desk = Desk()
    dialog = desk.ask("hello")
    desk.sim.run()
    with desk.client("shop").dialog(f"{dialog.id}:target") as mine:
        mine.send(Answer(text="from a web hook"))
        mine.end()
    desk.sim.run()
    view = desk.view(dialog.id)
    assert (view.status, view.state, view.error) == (Status.ENDED, {"answer": "from a web hook"}, None)
    assert view.sent == (1, 0, None, None), "what was acknowledged is not kept after the end"
    assert desk.view(f"{dialog.id}:target", "shop").status is Status.ENDED
    desk.sim.check_invariants()


def test_a_command_for_a_dialog_that_was_never_accepted_is_refused_and_claims_nothing() -> None:
    """The first message decides the group of this side, although a command for it came before."""
    desk = Desk()
    desk.sim.run()
    dialog = desk.ask("hello")
    handle = f"{dialog.id}:target"
    with desk.client("shop").dialog(handle) as mine:
        mine.send(Answer())
    for _ in range(3):
        desk.sim.worker("web").step()  # the message is in the queue of shop, and its worker takes up both in one step
    desk.sim.run()
    assert [it.code for it in desk.view(handle, "shop").refused] == [8426]
    with desk.client("shop").dialog(handle) as mine:
        mine.send(Answer(text="now"))
    desk.sim.run()
    assert desk.view(dialog.id).state == {"answer": "now"}
    assert desk.view(handle, "shop").state.handles == [handle]
    assert desk.sim.state("shop", dialog.id, begun_by="web") is not None, (
        "the group belongs to the service that began the dialog"
    )


def test_a_refused_command_is_in_the_view_of_its_side() -> None:
    desk = Desk()
    unknown = LocalClient.new_id()
    with desk.client("web").dialog(unknown) as dialog:
        dialog.send(Ask())
    desk.sim.run()
    view = desk.view(unknown)
    assert view.status is Status.NOT_SEEN_YET
    assert [(it.code, "no such dialog" in it.text) for it in view.refused] == [(8426, True)]
    assert desk.view(f"{unknown}:target").refused == ()


def test_failed_says_with_which_error_also_after_the_end() -> None:
    desk = Desk()
    dialog = desk.ask("worse")
    desk.sim.run()
    view = desk.view(dialog.id)
    assert view.status is Status.FAILED
    assert view.error is not None
    assert view.error.code == 1409


@pytest.mark.parametrize(
    ("then", "delays", "waits"),
    [
        (Then.HOLD, [], "an operator to decide about a message of the peer: ValueError: no"),
        (Then.HOLD, [timedelta(hours=1)], "another attempt at a message of the peer at 20"),
        (Then.DISABLE_QUEUE, [], "the queue to be on"),
    ],
)
def test_a_parked_message_is_told_on_its_side_and_acknowledged_on_the_other(
    then: Then, delays: list[timedelta], waits: str
) -> None:
    desk = Desk(PoisonPolicy(delays=delays, then=then))
    dialog = desk.ask("fine", "bad", "fine")
    desk.sim.run()
    desk.sim.advance(timedelta(seconds=10))
    there = desk.view(f"{dialog.id}:target", "shop")
    assert there.received == (3, 1, 2, 0)
    assert str(there.waiting_for).startswith(waits)
    assert desk.view(dialog.id).sent == (3, 0, 0, 3)


def test_messages_for_a_destination_that_takes_none_are_delayed() -> None:
    desk = Desk()
    with desk.client("web").begin_dialog("nobody", SALES, wait_for_service=True) as dialog:
        dialog.send(Ask())
        dialog.send(Ask())
    desk.sim.run()
    view = desk.view(dialog.id)
    assert view.sent == (2, 2, 0, 0)
    assert view.waiting_for == "the queue of 'nobody' to accept records (2 delayed)"


def test_a_dialog_is_forgotten_when_its_rows_are_gone_or_it_cannot_begin_any_more() -> None:
    desk = Desk()
    dialog, never = desk.ask("bye"), LocalClient.new_id()
    desk.sim.run()
    desk.sim.advance(timedelta(seconds=10))
    assert desk.view(dialog.id).status is Status.ENDED
    desk.sim.advance(timedelta(hours=2))
    assert desk.view(dialog.id).status is Status.FORGOTTEN
    assert desk.view(never).status is Status.NOT_SEEN_YET
    desk.sim.advance(timedelta(days=3))
    assert [desk.view(handle).status for handle in (dialog.id, never)] == [Status.FORGOTTEN] * 2


def test_waiting_for_a_view_ends_with_it_or_says_how_the_dialog_stands() -> None:
    desk = Desk()
    dialog = desk.ask("hello")
    reader = desk.sim.reader("web")
    desk.sim.run()
    seen = reader.wait(dialog.id, timeout=timedelta(0), until=lambda view: view.status is Status.OPEN).result()
    assert seen.status is Status.OPEN
    with pytest.raises(RequestTimeout, match="the dialog is open: 1 sent") as late:
        reader.wait(dialog.id, timeout=timedelta(0)).result()
    assert late.value.acknowledged is False
    desk.sim.advance(timedelta(seconds=1))
    with pytest.raises(RequestTimeout, match="1 acknowledged") as late:
        reader.wait(dialog.id, timeout=timedelta(0)).result()
    assert late.value.acknowledged is True


def test_what_names_no_dialog_is_refused() -> None:
    desk = Desk()
    for handle in ("", "x:target", "no-uuid@key"):
        with pytest.raises(LocalError):
            desk.view(handle)
