"""Answers to bad input that cannot be delivered, and errors that must not be answered with errors."""

from datetime import timedelta
from random import Random

import pytest

from conversations.protocol import rows
from conversations.protocol.envelope import Envelope, Extras, FenceOutcome, Kind
from conversations.protocol.topics import COMMANDS, QUEUE
from conversations.testing.reading import state_of
from tests.bad_input.support.forging import stranger
from tests.bad_input.support.logs import Memory
from tests.bad_input.support.outcomes import order
from tests.bad_input.test_wire import counts, known, place, receipts

__all__ = ["place"]


def delayed(place: Memory) -> list[bytes]:
    return [key for table in state_of(place.sim.broker, "shop") for key in table if key.startswith(rows.DELAYED)]


@pytest.mark.parametrize("crash", [False, True])
def test_an_answer_to_a_service_whose_topics_are_gone_is_sent_when_they_are_back(place: Memory, crash: bool) -> None:
    """The error waits as a row, even across a restart. Dialogs of other services go on."""
    healthy, target = known(place, 1), stranger(place.now(), Random(2))
    place.sim.broker.create_service("lost", 2)
    gone = {name: place.sim.broker.topics.pop(name) for name in list(place.sim.broker.topics) if ".lost." in name}
    place.throw("shop", QUEUE, [target.record(target.prefixed(from_service="lost", contract="Gossip"))])
    place.throw("web", COMMANDS, [order(healthy, 1)])
    place.sim.run()
    assert len(delayed(place)) == 1
    assert receipts(place, healthy) == [0, 1]
    if crash:
        place.sim.crash("shop")
        place.sim.run()
    place.sim.broker.topics.update(gone)
    place.sim.advance(timedelta(minutes=2))
    assert [envelope.code for envelope in place.sent("lost")] == [-8408]
    assert delayed(place) == []


def test_an_answer_nobody_takes_is_forgotten_with_its_dialog(place: Memory) -> None:
    """Rows for a service that never comes back are deleted. They have no message, so no event reports them."""
    target = stranger(place.now(), Random(2))
    place.sim.broker.create_service("lost", 2)
    for name in [name for name in place.sim.broker.topics if ".lost." in name]:
        del place.sim.broker.topics[name]
    place.throw("shop", QUEUE, [target.record(target.prefixed(from_service="lost", contract="Gossip"))])
    place.sim.run()
    assert len(delayed(place)) == 1
    for _ in range(4):
        place.sim.advance(timedelta(hours=1))
        known(place, Random(place.now()).randrange(1 << 30))  # log time passes
    assert delayed(place) == []
    assert place.events("UNDELIVERED") == []


def test_what_is_never_answered_with_an_error_comes_to_rest(place: Memory) -> None:
    """Both sides get errors, acknowledgements and RESENDs in unknown conversations, and send no answer. Each FENCE has one: a FENCED."""
    targets = [stranger(place.now(), Random(number)) for number in range(5)]
    kinds = (Kind.ERROR, Kind.ACK, Kind.RESEND, Kind.FENCE, Kind.FENCED)

    def said(kind: Kind, number: int) -> Envelope:
        answer = Extras(fence=FenceOutcome(3, 3, "CLOSED", False)) if kind is Kind.FENCED else None
        return targets[number].said(kind, code=-8462 if kind in (Kind.ERROR, Kind.FENCE) else 0, extras=answer)

    for from_initiator, service, peer in [(True, "shop", "web"), (False, "web", "shop")]:
        for number, kind in enumerate(kinds):
            envelope = said(kind, number)
            envelope.prefix.from_initiator, envelope.prefix.to_service, envelope.prefix.from_service = (
                from_initiator, service, peer
            )  # fmt: skip
            place.throw(service, QUEUE, [targets[number].record(envelope)] * 3)
    before = counts(place)
    place.sim.run()
    place.sim.advance(timedelta(hours=1))
    assert counts(place) == before | {"web": before["web"] + 3}
