"""Laws of what a handler holds: wrong requests raise at once, right ones take effect when it returns."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from conversations import Contract, Dialog, PeerError, Service, WorkerSettings
from conversations.config import Limits
from conversations.errors import (
    BodyTooLarge,
    DialogEnded,
    InvalidBody,
    LocalError,
    NotInContract,
    UnknownContract,
    WrongDirection,
)
from conversations.testing import PeerDialog, Simulation


class Ask(BaseModel):
    text: str = ""


class Answer(BaseModel):
    number: int = 0


SALES = Contract("Sales", sent_by_initiator=[Ask], sent_by_target=[Answer])
ORDERS = Contract("Orders", sent_by_initiator=[Ask], sent_by_target=[Answer])
UNKNOWN = Contract("Unknown", sent_by_initiator=[Ask])
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SMALL = WorkerSettings(patience=timedelta(0), revocation=timedelta(0), limits=Limits(body_bytes=40))

Deed = Callable[[Dialog], object]


def run(deed: Deed, *, on_timer: Deed = lambda _: None) -> tuple[Simulation, PeerDialog]:
    """Let a handler of service "shop" do something with its dialog."""
    shop = Service("shop", accepts=[SALES], initiates=[ORDERS], ignores=[Answer])

    @shop.on(Ask)
    def ask(body: Ask, dialog: Dialog) -> None:
        deed(dialog)

    @shop.on_timer()
    def timer(dialog: Dialog) -> None:
        on_timer(dialog)

    sim = Simulation(shop, now=NOW, settings=SMALL)
    sim.peer("store", accepts=[ORDERS])
    applicant = sim.peer("web").begin_dialog("shop", SALES)
    applicant.send(Ask())
    sim.run()
    return sim, applicant


def refuse(kind: type[LocalError], code: int) -> Callable[[Callable[[Dialog], object]], Deed]:
    def wrap(deed: Callable[[Dialog], object]) -> Deed:
        def checked(dialog: Dialog) -> None:
            with pytest.raises(kind) as refused:
                deed(dialog)
            assert refused.value.code == code
            dialog.send(Answer(number=1))

        return checked

    return wrap


REFUSED: list[tuple[type[LocalError], int, Deed]] = [
    (WrongDirection, 8432, lambda d: d.group.begin_dialog("store", ORDERS).send(Answer())),
    (WrongDirection, 8434, lambda d: d.send(Ask())),
    (NotInContract, 8431, lambda d: d.send(3)),
    (NotInContract, 8431, lambda d: d.send(Answer(), type="Nothing")),
    (InvalidBody, 9615, lambda d: d.send(Answer().model_copy(update={"number": "x"}))),
    (BodyTooLarge, 8459, lambda d: d.group.begin_dialog("store", ORDERS).send(Ask(text="x" * 40))),
    (LocalError, 8419, lambda d: d.end_with_error(0, "zero")),
    (LocalError, 8419, lambda d: d.end_with_error(-3, "negative")),
    (LocalError, 8419, lambda d: d.end_with_error(True, "no number")),
    (LocalError, 8422, lambda d: d.end_with_error(3, "")),
    (UnknownContract, 8425, lambda d: d.group.begin_dialog("store", UNKNOWN)),
    (LocalError, 8411, lambda d: d.group.begin_dialog("store", ORDERS, lifetime=timedelta(0))),
    (LocalError, 8412, lambda d: d.group.begin_dialog("no such", ORDERS)),
    (LocalError, 0, lambda d: d.set_timer(timedelta(seconds=-1))),
    (LocalError, 0, lambda d: d.set_timer(5)),  # type: ignore[arg-type]  # what somebody in a hurry writes
]


def test_a_timer_that_would_never_fire_is_refused() -> None:
    """8410: the lifetime ends before the timer is due, or at the same time. A dialog that this handler began has a lifetime, too."""
    hour = timedelta(hours=1)

    def set_timers(dialog: Dialog) -> None:
        mine = dialog.group.begin_dialog("store", ORDERS, lifetime=hour, related=False)
        for it, after in ((mine, hour), (mine, 2 * hour), (dialog, timedelta.max)):
            with pytest.raises(LocalError) as refused:
                it.set_timer(after)
            assert refused.value.code == 8410
        mine.send(Ask())
        mine.set_timer(hour - timedelta(microseconds=1))
        dialog.send(Answer(number=1))

    sim, applicant = run(set_timers)
    assert applicant.received() == [Answer(number=1)]
    assert len(sim.peer("store").dialogs()) == 1
    sim.check_invariants()


@pytest.mark.parametrize(("kind", "code", "deed"), REFUSED)
def test_a_wrong_request_raises_at_once_and_changes_nothing(kind: type[LocalError], code: int, deed: Deed) -> None:
    """With Service Broker's number; the dialog goes on as if nothing had been asked."""
    sim, applicant = run(refuse(kind, code)(deed))
    assert applicant.received() == [Answer(number=1)]
    assert len(sim.peer("store").dialogs()) == 0
    sim.check_invariants()


def test_a_dialog_that_was_ended_in_this_handler_is_over_for_it() -> None:
    """8429 for sending, 8427 for ending again, 8458 for a timer; before anything is committed."""
    codes: list[int] = []

    def deed(dialog: Dialog) -> None:
        dialog.send(Answer(number=1))
        dialog.end()
        assert not dialog.is_open
        verbs: list[Callable[[], object]] = [
            lambda: dialog.send(Answer()),
            dialog.end,
            lambda: dialog.end_with_error(1, "x"),
            lambda: dialog.set_timer(timedelta(1)),
        ]
        for verb in verbs:
            with pytest.raises(DialogEnded) as refused:
                verb()
            codes.append(refused.value.code)

    sim, applicant = run(deed)
    assert codes == [8429, 8427, 8427, 8458]
    assert applicant.received() == [Answer(number=1)]
    assert applicant.ended
    assert sim.open_dialogs() == []


def test_an_error_drops_what_the_same_handler_meant_to_send() -> None:
    """END WITH ERROR: only the error goes."""

    def deed(dialog: Dialog) -> None:
        dialog.send(Answer())
        dialog.end_with_error(5, "changed my mind")

    _, applicant = run(deed)
    assert applicant.received() == []
    assert isinstance(applicant.error, PeerError)
    assert applicant.error.code == 5


def test_a_description_is_cut_at_service_brokers_limit() -> None:
    """3000 characters."""
    _, applicant = run(lambda dialog: dialog.end_with_error(5, "x" * 4000))
    assert applicant.error is not None
    assert len(applicant.error.description) == 3000


def test_facts_about_the_dialog_and_the_message() -> None:
    """Ids are the same for both sides and every delivery; times are those of the step."""
    seen: list[Any] = []

    def deed(dialog: Dialog) -> None:
        message = dialog.message
        seen.append((dialog.id, dialog.contract, dialog.peer, dialog.is_initiator, dialog.is_open, dialog.attempt))
        seen.append((message.id, message.type, message.sequence, message.from_service, message.attempt))
        seen.append((message.sent_at, dialog.now, message.expires_at))

    _, applicant = run(deed)
    assert seen == [
        (applicant.id, "Sales", "web", False, True, 1),
        (f"{applicant.id}:i:0", "Ask", 0, "web", 1),
        (NOW, NOW, NOW + timedelta(days=1)),
    ]


def test_there_is_no_message_in_a_timer() -> None:
    """Asking for one says why there is none."""
    seen: list[str] = []

    def on_timer(dialog: Dialog) -> None:
        with pytest.raises(LocalError, match="timer"):
            _ = dialog.message.id
        seen.append(dialog.id)

    sim, applicant = run(lambda dialog: dialog.set_timer(timedelta(seconds=5)), on_timer=on_timer)
    sim.advance(timedelta(seconds=5))
    assert seen == [applicant.id]


def test_a_timer_may_be_moved_and_cancelled() -> None:
    """A dialog has one; the last word counts."""
    fired: list[datetime] = []

    def deed(dialog: Dialog) -> None:
        if dialog.message.sequence == 0:
            dialog.set_timer(timedelta(seconds=5))
            dialog.set_timer(timedelta(seconds=9))
        else:
            dialog.cancel_timer()

    sim, applicant = run(deed, on_timer=lambda dialog: fired.append(dialog.now))
    sim.advance(timedelta(seconds=30))
    assert fired == [NOW + timedelta(seconds=9)]
    applicant.send(Ask())
    sim.advance(timedelta(seconds=30))
    assert fired == [NOW + timedelta(seconds=9)]


def test_a_group_has_the_dialog_that_opened_it_and_those_begun_in_it() -> None:
    """In this order; those that are over are not among them."""
    seen: list[list[str]] = []

    def deed(dialog: Dialog) -> None:
        seen.append([d.contract for d in dialog.group.dialogs()])
        seen.append([d.contract for d in dialog.group.dialogs(ORDERS)])
        assert dialog.group.opened_by.id == dialog.id
        assert dialog.group.key == dialog.id
        dialog.group.begin_dialog("store", ORDERS).send(Ask())

    sim, applicant = run(deed)
    applicant.send(Ask())
    sim.run()
    sim.peer("store").dialogs()[0].end()
    sim.run()
    applicant.send(Ask())
    sim.run()
    assert seen == [["Sales"], [], ["Sales", "Orders"], ["Orders"], ["Sales", "Orders"], ["Orders"]]


def test_a_group_may_end_as_a_whole() -> None:
    """Every dialog of it hears the error, one begun a moment ago too; those that ended here are left alone."""

    def deed(dialog: Dialog) -> None:
        group = dialog.group
        group.begin_dialog("store", ORDERS).send(Ask(text=str(dialog.message.sequence)))
        if dialog.message.sequence == 1:
            group.end_with_error(9, "all over")

    sim, applicant = run(deed)
    applicant.send(Ask())
    sim.run()
    assert applicant.error is not None
    assert [d.error is not None and d.error.code for d in sim.peer("store").dialogs()] == [9]
    assert sim.open_dialogs() == []
    sim.check_invariants()


def test_state_is_shared_by_the_group_and_kept_when_the_handler_returns() -> None:
    """What it is at the end is committed; replacing it is as good as changing it."""

    def deed(dialog: Dialog) -> None:
        dialog.group.state["count"] = dialog.group.state.get("count", 0) + 1
        dialog.group.state = {**dialog.group.state, "again": True}
        dialog.send(Answer(number=dialog.group.state["count"]))

    sim, applicant = run(deed)
    applicant.send(Ask())
    sim.run()
    assert applicant.received() == [Answer(number=1), Answer(number=2)]
