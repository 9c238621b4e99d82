"""Letters that no dialog waits for are open until somebody closes them."""

from datetime import timedelta

import pytest

from conversations import PoisonPolicy, Then
from conversations.protocol import rows
from conversations.protocol.command import Settle, Source, encode_command, to_partition, topic_for
from conversations.protocol.topics import COMMANDS
from conversations.testing import Simulation
from conversations.testing.reading import state_of
from tests.simulation.support.services import ECHO, UNKEPT_ECHO, Say
from tests.simulation.test_decisions import events
from tests.simulation.test_parking import Moody

END = PoisonPolicy(delays=[], then=Then.END_DIALOG)


def open_letters(sim: Simulation) -> list[tuple[str, int]]:
    (table,) = state_of(sim.broker, "moody")
    return sorted(rows.letter_source(key) for key in table if key.startswith(rows.LETTER))


def settle(sim: Simulation, *offsets: int, topic: str = "QUEUE", outcome: str = "discarded") -> None:
    operation = Settle(tuple(Source(topic, offset) for offset in offsets), outcome, "test")
    command = to_partition((0, 1), operation, "me", sim.chance.random.randbytes(16), sim.clock.now())
    sim.broker.append_keyed("moody", topic_for(command), command.key.encode(), encode_command(command))
    sim.run()


def ended(sim: Simulation) -> None:
    """The first of three messages ends the dialog: all three become letters."""
    dialog = sim.peer("web").begin_dialog("moody", UNKEPT_ECHO)
    for text in ("a 9", "b", "c"):
        dialog.send(Say(text=text))
    sim.run()
    assert dialog.error is not None


def test_letters_are_open_until_they_are_closed_once() -> None:
    moody = Moody(END)
    with Simulation(moody.service, raise_failures=False, partitions=1) as sim:
        ended(sim)
        opened = open_letters(sim)
        assert [topic for topic, _ in opened] == ["queue"] * 3
        first, second, third = (offset for _, offset in opened)
        settle(sim, first, third)
        assert open_letters(sim) == [("queue", second)]
        (event,) = events(sim, "SETTLED")
        assert event["letters"] == [f"moody.queue-0-{first}", f"moody.queue-0-{third}"]
        assert (event["by"], event["reason"], event["outcome"]) == ("me", "test", "discarded")
        settle(sim, second, third)
        assert open_letters(sim) == [("queue", second)], "all or none"
        (refused,) = events(sim, "COMMAND_REFUSED")
        assert f"moody.queue-0-{third}" in refused["why"]
        assert len(sim.dead_letters("moody")) == 4, "bytes stay in the topic; a refused decision is kept too"
        sim.crash("moody")
        settle(sim, second)
        assert open_letters(sim) == []


@pytest.mark.parametrize("then", [Then.HOLD, Then.DISABLE_QUEUE])
def test_what_a_dialog_waits_behind_is_no_letter_of_its_own(then: Then) -> None:
    moody = Moody(PoisonPolicy(delays=[], then=then))
    with Simulation(moody.service, raise_failures=False, partitions=1) as sim:
        sim.peer("web").begin_dialog("moody", ECHO).send(Say(text="a 9"))
        sim.run()
        assert open_letters(sim) == []
        assert len(sim.parked("moody")) == 1


def test_noise_is_a_letter_too_and_all_are_forgotten_with_their_topic() -> None:
    moody = Moody(END)
    with Simulation(moody.service, raise_failures=False, partitions=1) as sim:
        sim.broker.append_keyed("moody", COMMANDS, b"k", b"garbage")
        ended(sim)
        assert {topic for topic, _ in open_letters(sim)} == {"commands", "queue"}
        sim.advance(timedelta(days=91))
        sim.peer("web").begin_dialog("moody", ECHO).send(Say(text="d"))
        sim.advance(timedelta(minutes=1))
        assert open_letters(sim) == []
