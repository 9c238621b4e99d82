"""A side that an operator's command ends or cleans up: each of its records is sent, handled, or in a letter with its bytes."""

from typing import Any

import pytest

from conversations import Dialog, PeerError, Service
from conversations.protocol import rows
from conversations.protocol.command import (
    Cleanup,
    Command,
    End,
    EndWithError,
    Operation,
    Report,
    encode_command,
    topic_for,
)
from conversations.protocol.envelope import Envelope, Kind, Prefix
from conversations.protocol.identifiers import uuid_text
from conversations.protocol.topics import QUEUE, service_topic
from conversations.testing import Simulation
from conversations.testing.reading import endpoints, state_of
from tests.simulation.support import records
from tests.simulation.support.services import ECHO, Say
from tests.simulation.test_decisions import HOLD, events, letters_of
from tests.simulation.test_parking import SECOND
from tests.simulation.test_parking_traps import message, outcomes, stranger

COMMAND = b"c" * 16


def listener() -> Service[dict[str, Any]]:
    """A service that fails when told "fail", answers when told "answer", and whose handler of errors always fails."""
    service: Service[dict[str, Any]] = Service("moody", accepts=[ECHO], poison=[HOLD])

    @service.on(Say)
    def say(body: Say, dialog: Dialog) -> None:
        if body.text == "fail":
            raise ValueError(body.text)
        if body.text == "answer":
            dialog.send(body)

    @service.on_error()
    def broken(why: PeerError, dialog: Dialog) -> None:
        raise ValueError("on_error")

    return service


def ask(sim: Simulation, conversation: bytes, key: str, *operations: Operation, initiator: bool = False) -> None:
    """Ask the service as an operator does."""
    command = Command(COMMAND, conversation, initiator, key, "", "ada", sim.clock.now(), (*operations, Report()))
    sim.broker.append_keyed("moody", topic_for(command), key.encode(), encode_command(command))
    sim.run()


def with_all(sim: Simulation) -> Prefix:
    """A dialog in which 0 is handled, 1 is held by its policy, 2 waits behind it, 3 is missing, and 4 and 5 arrived early."""
    prefix = stranger(sim)
    for number, text in ((0, "a"), (1, "fail"), (2, "c"), (4, "e"), (5, "f")):
        records.post(sim, message(prefix, number, text))
    sim.run()
    return prefix


def kept(sim: Simulation) -> list[bytes]:
    """Return the kinds of the rows that keep records."""
    kinds = (rows.HELD, rows.DELAYED, rows.WAITING, rows.PARKED, rows.PARK, rows.RETRY)
    return [key[:1] for table in state_of(sim.broker, "moody") for key in table if key[:1] in kinds]


def test_a_cleanup_keeps_the_bytes_of_all_that_waits() -> None:
    with Simulation(listener(), raise_failures=False, partitions=1) as sim:
        prefix = with_all(sim)
        assert sorted(kept(sim)) == [b"F", b"H", b"H", b"R", b"R"]
        said = len(records.queued(sim, "stranger"))
        ask(sim, prefix.conversation_id, prefix.reply_key, Cleanup())
        assert [it for it in outcomes(sim) if it[1] != "handler-failed"] == [
            (1, "parked-at-end"), (2, "parked-at-end"), (4, "held-at-end"), (5, "held-at-end"),
        ]  # fmt: skip
        assert kept(sim) == []
        assert {it.kind for it in records.queued(sim, "stranger")[said:]} <= {Kind.ACK}, "the peer is told of no end"
        said = len(records.queued(sim, "stranger"))
        (tombstone,) = endpoints(sim.broker, "moody").values()
        assert isinstance(tombstone, rows.Tombstone)
        assert (tombstone.dead_lettered, tombstone.accepted) == (4, 5)
        records.post(sim, message(prefix, 3, "d"))
        records.post(sim, message(prefix, 4, "e"))
        sim.run()
        assert outcomes(sim)[-1] == (3, "after-end")
        answers = records.queued(sim, "stranger")[said:]
        assert [(it.kind, it.code) for it in answers] == [(Kind.ERROR, -8462)], "told when it sends more, and once"
        sim.check_invariants()


@pytest.mark.parametrize("broken", [True, False])
def test_an_end_by_a_command_leaves_no_record_that_arrived_early(broken: bool) -> None:
    """The end closes this side at once, if the peer has broken the dialog. If not, the peer's answer closes it."""
    with Simulation(listener(), raise_failures=False, partitions=1) as sim:
        prefix = stranger(sim)
        for number, text in ((0, "a"), (2, "c")):
            records.post(sim, message(prefix, number, text))
        sim.run()
        if broken:
            records.post(sim, Envelope(prefix, Kind.ERROR, -1, -1, code=-8462, description="x"))
            sim.run()
        ask(sim, prefix.conversation_id, prefix.reply_key, End() if broken else EndWithError(5, "No."))
        if not broken:
            records.post(sim, Envelope(prefix, Kind.ERROR, -1, 0, code=7, description="x"))
            sim.run()
        assert [it for it in outcomes(sim) if it[0] > 0] == [(2, "held-at-end")]
        assert kept(sim) == []
        sim.check_invariants()


def test_letters_name_the_operator_and_the_command() -> None:
    with Simulation(listener(), raise_failures=False, partitions=1) as sim:
        prefix = with_all(sim)
        ask(sim, prefix.conversation_id, prefix.reply_key, Cleanup())
        written = [it for it in letters_of(sim) if it["dl.reason"] in (b"parked-at-end", b"held-at-end")]
        by = {(it["dl.decided-by"], it["dl.decided-why"]) for it in written}
        assert by == {(b"ada", f"command {uuid_text(COMMAND)}".encode())}
        (done,) = events(sim, "COMMAND_DONE")
        assert (done["by"], done["command"]) == ("ada", uuid_text(COMMAND))


def test_messages_that_wait_for_their_destination_are_dead_letters_after_a_cleanup() -> None:
    with Simulation(listener(), partitions=1) as sim:
        prefix = stranger(sim)
        sim.broker.forbidden.add(service_topic(sim.broker.namespace, "stranger", QUEUE))
        records.post(sim, message(prefix, 0, "answer"))
        sim.run()
        waits = kept(sim).count(rows.DELAYED)
        assert waits
        ask(sim, prefix.conversation_id, prefix.reply_key, Cleanup())
        (tombstone,) = endpoints(sim.broker, "moody").values()
        assert isinstance(tombstone, rows.Tombstone)
        assert kept(sim).count(rows.DELAYED) < waits
        letters = [it for it in sim.dead_letters("moody") if it.reason == "undeliverable"]
        assert [(it.sequence, it.is_uncertain) for it in letters] == [(0, False)]
        sim.broker.forbidden.clear()
        sim.advance(60 * SECOND)
        assert kept(sim) == []
        assert [it for it in records.queued(sim, "stranger") if it.kind is Kind.MESSAGE] == []
