"""A topic that refuses a record, or everything: one dialog ends with it, or those that go there wait; the others go on."""

from datetime import timedelta
from typing import Any

import pytest

from conversations import BodyTooLarge, Dialog, PeerError, Service
from conversations.protocol import codes, letters, rows
from conversations.protocol.envelope import decode
from conversations.protocol.topics import COMMANDS, DEAD_LETTER, QUEUE, STATE, events_topic, service_topic
from conversations.testing import PeerDialog, Simulation, reading
from tests.simulation.support.services import ECHO, NOTICES, Heard, Say
from tests.simulation.test_decisions import events
from tests.support.metrics import page_of

LARGE = "x" * 5_000
HOUR = timedelta(hours=1)


class Parrot:
    """Says what it hears, and notes what broke its dialogs."""

    def __init__(self) -> None:
        self.errors: list[tuple[str, int]] = []
        self.service = Service("parrot", accepts=[ECHO])
        self.service.on(Say)(self.say)
        self.service.on_error(ECHO)(self.broken)

    def say(self, body: Say, dialog: Dialog) -> None:
        dialog.send(body)

    def broken(self, error: PeerError, dialog: Dialog) -> None:
        self.errors.append((dialog.id, error.code))


def topic(sim: Simulation, service: str, kind: str) -> str:
    return service_topic(sim.broker.namespace, service, kind)


def begin(sim: Simulation, *said: str, peer: str = "web") -> PeerDialog:
    dialog = sim.peer(peer).begin_dialog("parrot", ECHO)
    for text in said:
        dialog.send(Say(text=text))
    return dialog


def heard(dialog: PeerDialog) -> list[str]:
    return [body.text for body in dialog.received() if isinstance(body, Say)]


def delayed(sim: Simulation) -> list[bytes]:
    return [key for table in reading.state_of(sim.broker, "parrot") for key in table if key[:1] == rows.DELAYED]


def test_one_answer_that_its_destination_does_not_take_ends_its_dialog_alone() -> None:
    """The others to the same destination are answered; its bytes are kept, both sides are told why."""
    parrot = Parrot()
    with Simulation(parrot.service) as sim:
        sim.peer("web")
        sim.broker.limits[topic(sim, "web", QUEUE)] = 4_000
        before, bad, after = begin(sim, "a", "b"), begin(sim, "c", LARGE, "d"), begin(sim, "e")
        sim.run()
        assert (heard(before), heard(bad), heard(after)) == (["a", "b"], ["c"], ["e"])
        assert parrot.errors == [(bad.id, codes.TOO_LARGE.number)]
        assert bad.error is not None
        assert bad.error.code == codes.TOO_LARGE.number
        kept = [letter for letter in sim.dead_letters("parrot") if letter.reason == letters.UNDELIVERABLE]
        assert [Say.model_validate_json(decode(letter.value).body).text for letter in kept] == [LARGE, "d"]
        assert {letter.conversation for letter in kept} == {bad.id}
        (event,) = events(sim, "UNDELIVERABLE")
        assert (event["conversation"], event["code"], event["envelopes"]) == (bad.id, codes.TOO_LARGE.number, 2)
        assert delayed(sim) == []
        again = begin(sim, "f")
        sim.run()
        assert heard(again) == ["f"]


def test_what_is_said_before_a_refused_dialog_has_its_turn_does_not_go_ahead() -> None:
    """Its destination is well, but what it says now comes after what can never arrive."""
    parrot = Parrot()
    with Simulation(parrot.service) as sim:
        sim.peer("web")
        sim.broker.limits[topic(sim, "web", QUEUE)] = 4_000
        bad = begin(sim, LARGE)
        while not delayed(sim):
            sim.worker("web").step()
            sim.worker("parrot").step()
        bad.send(Say(text="d"))
        sim.worker("web").step()
        sim.run()
        assert heard(bad) == []
        kept = [letter for letter in sim.dead_letters("parrot") if letter.reason == letters.UNDELIVERABLE]
        assert [Say.model_validate_json(decode(letter.value).body).text for letter in kept] == [LARGE, "d"]


def test_what_was_refused_ends_its_dialog_also_after_a_crash() -> None:
    """The refused envelope is a row before anything else is done about it."""
    parrot = Parrot()
    with Simulation(parrot.service) as sim:
        sim.peer("web")
        sim.broker.limits[topic(sim, "web", QUEUE)] = 4_000
        bad = begin(sim, LARGE)
        worker = sim.worker("parrot")
        while not delayed(sim):
            sim.worker("web").step()
            worker.step()
        assert parrot.errors == []
        sim.crash("parrot")
        sim.run()
        assert parrot.errors == [(bad.id, codes.TOO_LARGE.number)]
        assert delayed(sim) == []


def test_a_destination_that_may_not_be_written_to_delays_its_dialogs_and_then_breaks_them() -> None:
    """Whoever sends in the name of a service that this one has no right on stops nobody else."""
    parrot = Parrot()
    with Simulation(parrot.service) as sim:
        for name in ("web", "forbidden"):
            sim.peer(name)
        sim.broker.forbidden.add(topic(sim, "forbidden", QUEUE))
        bad, good = begin(sim, "a", peer="forbidden"), begin(sim, "b")
        sim.run()
        assert (heard(good), heard(bad), len(delayed(sim))) == (["b"], [], 1)
        sim.advance(HOUR - timedelta(minutes=5))
        assert (parrot.errors, len(delayed(sim))) == ([], 1)
        sim.advance(timedelta(minutes=10))
        assert parrot.errors == [(bad.id, codes.NOT_PERMITTED.number)]
        (letter,) = sim.dead_letters("parrot")
        assert (letter.reason, letter.code) == (letters.UNDELIVERABLE, codes.NOT_PERMITTED.number)
        (event,) = events(sim, "UNDELIVERABLE")
        assert event["why"] == f"WRITE on topic {topic(sim, 'forbidden', QUEUE)} is missing"


def test_a_right_that_is_given_in_time_delivers_what_waited() -> None:
    parrot = Parrot()
    with Simulation(parrot.service) as sim:
        sim.peer("web")
        sim.broker.forbidden.add(topic(sim, "web", QUEUE))
        dialog = begin(sim, "a", "b")
        sim.advance(timedelta(minutes=30))
        sim.broker.forbidden.clear()
        sim.advance(timedelta(minutes=40))
        assert (heard(dialog), parrot.errors) == (["a", "b"], [])


def test_events_that_cannot_be_written_stop_no_work(caplog: pytest.LogCaptureFixture) -> None:
    """They are lines of the log instead."""
    parrot = Parrot()
    with Simulation(parrot.service) as sim:
        sim.peer("web")
        sim.broker.limits[topic(sim, "web", QUEUE)] = 4_000
        sim.broker.forbidden.add(events_topic(sim.broker.namespace))
        bad, good = begin(sim, LARGE), begin(sim, "a")
        sim.run()
        assert (heard(good), parrot.errors) == (["a"], [(bad.id, codes.TOO_LARGE.number)])
    assert '"event": "UNDELIVERABLE"' in caplog.text


@pytest.mark.parametrize("kind", [STATE, DEAD_LETTER])
def test_a_record_that_its_own_topic_does_not_take_sets_its_partition_aside(kind: str) -> None:
    """Nothing can be committed without it: the worker says which limit to raise, and works on in its other partitions."""
    stuffed = Service("stuffed", accepts=[NOTICES])

    @stuffed.on(Heard)
    def take(body: Heard, dialog: Dialog) -> None:
        if kind == DEAD_LETTER:
            raise ValueError(body.text)
        dialog.group.state["text"] = body.text

    with Simulation(stuffed, raise_failures=False) as sim:
        web = sim.peer("web")
        sim.broker.limits[topic(sim, "stuffed", kind)] = 3_000
        for text in (LARGE, *"abcdefgh"):
            web.begin_dialog("stuffed", NOTICES).send(Heard(text=text))
        sim.run()
        worker = sim.worker("stuffed")
        assert len(worker.partitions) == len(sim.broker.queue("stuffed")) - 1
        (event,) = events(sim, "PARTITION_SET_ASIDE")
        assert topic(sim, "stuffed", kind) in event["why"]
        assert "max.message.bytes" in event["why"]
        page = page_of(sim, "stuffed")
        assert page.total("conversations_partitions_set_aside") == 1
        assert page.total("conversations_partitions_open") == page.total("conversations_queue_partitions") - 1


def fan(size: int, parts: int) -> tuple[Service[dict[str, Any]], list[BaseException]]:
    """A service that begins a dialog of its own, which another worker may own, and sends much on it."""
    raised: list[BaseException] = []
    service = Service("fan", accepts=[ECHO], initiates=[NOTICES])

    @service.on(Say)
    def say(body: Say, dialog: Dialog) -> None:
        other = dialog.group.begin_dialog("sink", NOTICES, related=False)
        try:
            for _ in range(parts):
                other.send(Heard(text="x" * size))
        except BodyTooLarge as error:
            raised.append(error)
            raise
        dialog.send(body)

    return service, raised


def test_a_handler_learns_at_once_that_what_it_asks_for_fits_no_command() -> None:
    service, raised = fan(400_000, 3)
    with Simulation(service, raise_failures=False) as sim:
        sim.peer("sink", accepts=[NOTICES])
        sim.peer("web").begin_dialog("fan", ECHO).send(Say(text="a"))
        sim.run()
        assert raised
        assert "(8459)" in str(raised[0])


def test_a_command_that_its_topic_does_not_take_is_a_dead_letter() -> None:
    """The topic has a limit of its own, below that of a command: nothing else of the step is lost with it."""
    service, _ = fan(3_000, 2)
    with Simulation(service) as sim:
        sim.peer("sink", accepts=[NOTICES])
        sim.broker.limits[topic(sim, "fan", COMMANDS)] = 5_000
        dialog = sim.peer("web").begin_dialog("fan", ECHO)
        dialog.send(Say(text="a"))
        sim.run()
        assert heard(dialog) == ["a"]
        (letter,) = sim.dead_letters("fan")
        assert (letter.reason, letter.code) == (letters.COMMAND_REFUSED, 8459)
        (event,) = events(sim, "COMMAND_REFUSED")
        assert topic(sim, "fan", COMMANDS) in event["why"]
