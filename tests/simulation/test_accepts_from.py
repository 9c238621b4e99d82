"""A service that accepts dialogs from some services only: ``Service(accepts_from=[...])``."""

from typing import Any

import pytest

from conversations import DeclarationError, Dialog, PeerError, Service
from conversations.protocol.endpoint import Endpoint
from conversations.protocol.release_changes import changes
from conversations.testing import Simulation
from conversations.testing.reading import endpoints
from conversations_ops.cli.declarations import _summary, _text
from tests.simulation.support.services import ECHO, Say


def desk(**more: Any) -> tuple[Service[dict[str, Any]], list[str]]:
    heard: list[str] = []
    service: Service[dict[str, Any]] = Service("desk", accepts=[ECHO], **more)

    @service.on(Say)
    def say(body: Say, dialog: Dialog[dict[str, Any]]) -> None:
        heard.append(f"{dialog.peer}: {body.text}")

    return service, heard


def caller(name: str) -> tuple[Service[dict[str, Any]], list[PeerError]]:
    """A service that begins a dialog with the desk for each message that it gets, and knows its errors."""
    errors: list[PeerError] = []
    service: Service[dict[str, Any]] = Service(name, accepts=[ECHO], initiates=[ECHO])

    @service.on(Say)
    def say(body: Say, dialog: Dialog[dict[str, Any]]) -> None:
        dialog.group.begin_dialog("desk", ECHO, related=False).send(body)

    @service.on_error(ECHO)
    def broken(error: PeerError, dialog: Dialog[dict[str, Any]]) -> None:
        errors.append(error)

    return service, errors


def test_only_the_named_services_may_begin_dialogs() -> None:
    service, heard = desk(accepts_from=["bank", "till"])
    bank, of_bank = caller("bank")
    shop, of_shop = caller("shop")
    with Simulation(service, bank, shop, partitions=2) as sim:
        for name in ("bank", "shop"):
            sim.peer("web").begin_dialog(name, ECHO).send(Say(text="hello"))
        sim.run()
        assert heard == ["bank: hello"]
        assert of_bank == []
        (error,) = of_shop
        assert error.code == -8494
        assert error.description == "The service desk accepts no dialogs from shop."
        known = endpoints(sim.broker, "desk").values()
        assert [it.peer for it in known if isinstance(it, Endpoint)] == ["bank"]
        sim.check_invariants()


def test_without_the_list_every_service_may() -> None:
    service, heard = desk()
    shop, errors = caller("shop")
    with Simulation(service, shop, partitions=1) as sim:
        sim.peer("web").begin_dialog("shop", ECHO).send(Say(text="hello"))
        sim.run()
    assert (heard, errors) == (["shop: hello"], [])


def test_a_dialog_that_has_begun_goes_on_after_a_release_that_accepts_its_peer_no_more() -> None:
    service, heard = desk()
    with Simulation(service, partitions=1) as sim:
        dialog = sim.peer("shop").begin_dialog("desk", ECHO)
        dialog.send(Say(text="one"))
        sim.run()
        service.accepts_from = frozenset({"bank"})
        sim.crash("desk")
        dialog.send(Say(text="two"))
        sim.peer("shop").begin_dialog("desk", ECHO).send(Say(text="three"))
        sim.run()
    assert heard == ["shop: one", "shop: two"]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            {"accepts_from": "bank"},
            r"accepts_from takes a list of names of services: accepts_from=\['bank'\], with brackets",
        ),
        ({"accepts_from": []}, "accepts_from is empty, so nobody could begin a dialog"),
        ({"accepts_from": ["no name"]}, "service"),
        ({"accepts_from": [7]}, "service"),
        ({"accepts_from": ["bank"], "accepts": []}, "has accepts_from, and accepts no contract"),
    ],
)
def test_a_wrong_list_is_refused_at_the_declaration(given: dict[str, Any], says: str) -> None:
    with pytest.raises(DeclarationError, match=says):
        Service("desk", **{"accepts": [ECHO], **given})


def test_an_argument_that_does_not_exist_is_refused() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'acepts_from'"):
        Service("desk", accepts=[ECHO], acepts_from=["bank"])  # type: ignore[call-overload]


def test_the_list_is_in_the_catalog_and_a_narrower_one_is_a_change_to_tell() -> None:
    before, after = desk()[0], desk(accepts_from=["till", "bank"])[0]
    assert "accepts_from" not in before.declaration().entry(1)
    entry = after.declaration().entry(1)
    assert entry["accepts_from"] == ["bank", "till"]
    assert changes(before.declaration().entry(1), entry) == [
        "accepts_from is new: new dialogs from services other than bank, till are refused (-8494)"
    ]
    fewer = desk(accepts_from=["bank"])[0].declaration().entry(1)
    assert changes(entry, fewer) == ["till is not in accepts_from any more, so its new dialogs are refused (-8494)"]
    assert changes(fewer, entry) == changes(entry, before.declaration().entry(1)) == []
    assert "  accepts dialogs only from bank, till" in _text(_summary(after)).splitlines()
    assert "only from" not in _text(_summary(before))
