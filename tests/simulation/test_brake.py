"""A release that fails on everything: the worker goes on one by one, gives nothing up, and recovers by itself."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from conversations import Brake, Dialog, GiveUp, Limits, PoisonPolicy, RetryLater, Service, Then, WorkerSettings
from conversations.protocol.command import Action
from conversations.protocol.topics import partition_of
from conversations.testing import PeerDialog, Simulation
from tests.simulation.support.services import ECHO, Say
from tests.simulation.test_decisions import by_hand, events
from tests.simulation.test_parking import SECOND, Moody, texts

BRAKE = Brake(dialogs=5, share=0.5)
SETTINGS = WorkerSettings(patience=timedelta(0), revocation=timedelta(0), deaths=1_000_000, brake=BRAKE)
STRICT = PoisonPolicy(delays=[timedelta(0)] * 3, then=Then.END_DIALOG)


class Deployed:
    """A service whose release is broken until it is mended; it knows what it handled and how often it was tried."""

    def __init__(self, policy: PoisonPolicy = STRICT) -> None:
        self.broken = True
        self.tried = 0
        self.service: Service[dict[str, Any]] = Service("moody", accepts=[ECHO], poison=[policy])

        @self.service.on(Say)
        def say(body: Say, dialog: Dialog) -> None:
            self.tried += 1
            if self.broken and not body.text.startswith("good"):
                raise KeyError("score")
            dialog.send(body)


def talk(sim: Simulation, count: int, *said: str, peer: str = "web") -> list[PeerDialog]:
    dialogs = [sim.peer(peer).begin_dialog("moody", ECHO) for _ in range(count)]
    for dialog in dialogs:
        for text in said:
            dialog.send(Say(text=text))
    sim.run()
    return dialogs


def test_a_broken_deploy_does_not_dead_letter_the_day() -> None:
    deployed = Deployed()
    with Simulation(deployed.service, raise_failures=False, settings=SETTINGS) as sim:
        dialogs = talk(sim, 200, "a", "b")
        given_up = len(sim.dead_letters("moody"))
        assert given_up <= 2 * BRAKE.dialogs, "those that failed before it was noticed"
        (event,) = events(sim, "BRAKE_ON")
        assert event["dialogs"] == BRAKE.dialogs
        tried = deployed.tried
        sim.advance(60 * SECOND)
        assert len(sim.dead_letters("moody")) == given_up
        assert deployed.tried - tried == 60, "one a second"
        assert events(sim, "BRAKE_OFF") == []
        deployed.broken = False
        sim.advance(1 * SECOND)
        assert len(events(sim, "BRAKE_OFF")) == 1
        well = [dialog for dialog in dialogs if dialog.error is None]
        assert len(well) >= 200 - given_up
        assert all(texts(dialog) == ["a", "b"] for dialog in well)
        assert sim.parked("moody") == []
        sim.check_invariants()


def test_a_message_that_an_operator_gives_back_is_tried_at_once_and_turns_the_brake_off() -> None:
    deployed = Deployed()
    slow = replace(SETTINGS, brake=replace(BRAKE, probe=timedelta(hours=1)))
    with Simulation(deployed.service, raise_failures=False, settings=slow) as sim:
        talk(sim, 20, "a")
        first, second, *_ = [it for it in sim.parked("moody") if not it.held]
        tried = deployed.tried
        sim.decide(first, by_hand(Action.RETRY))
        sim.run()
        assert deployed.tried == tried + 1, "the brake stays on, and the other messages wait"
        assert events(sim, "BRAKE_OFF") == []
        assert [event["outcome"] for event in events(sim, "RETURNED")] == ["failed"]
        deployed.broken = False
        sim.decide(second, by_hand(Action.RETRY))
        sim.run()
        assert len(events(sim, "BRAKE_OFF")) == 1
        assert sim.parked("moody") == []
        sim.check_invariants()


def test_of_many_that_an_operator_gives_back_at_once_the_brake_lets_one_through() -> None:
    deployed = Deployed()
    slow = replace(SETTINGS, brake=replace(BRAKE, probe=timedelta(hours=1)))
    with Simulation(deployed.service, raise_failures=False, settings=slow, partitions=1) as sim:
        talk(sim, 40, "a")
        tried = deployed.tried
        for it in [it for it in sim.parked("moody") if not it.held][:20]:
            sim.decide(it, by_hand(Action.RETRY))
        sim.run()
        assert deployed.tried == tried + 1
        assert len(events(sim, "RESOLVED")) == 20
        deployed.broken = False
        sim.decide(next(it for it in sim.parked("moody") if not it.held), by_hand(Action.RETRY))
        sim.run()
        assert sim.parked("moody") == []
        sim.check_invariants()


def test_a_redrive_of_a_release_that_is_still_broken_tries_few_messages_until_the_brake_is_on() -> None:
    deployed = Deployed(PoisonPolicy(delays=[], then=Then.HOLD))
    slow = replace(SETTINGS, batch=5, brake=replace(BRAKE, probe=timedelta(hours=1)))
    with Simulation(deployed.service, raise_failures=False, settings=slow, partitions=1) as sim:
        for _ in range(20):  # so slowly that the brake stays off
            talk(sim, 3, "a")
            sim.advance(timedelta(minutes=10))
        held, tried = sim.parked("moody"), deployed.tried
        assert (len(held), events(sim, "BRAKE_ON")) == (60, [])
        for it in held:
            sim.decide(it, by_hand(Action.RETRY))
        sim.run()
        assert deployed.tried - tried == BRAKE.dialogs + 1, "until the brake is on, and one that it lets through"
        deployed.broken = False
        sim.advance(timedelta(hours=2))
        outcomes = [event["outcome"] for event in events(sim, "RETURNED")]
        assert (outcomes.count("handled"), outcomes.count("failed")) == (60 - BRAKE.dialogs - 1, BRAKE.dialogs + 1)
        sim.check_invariants()


def test_some_failing_dialogs_among_many_good_ones_are_no_reason() -> None:
    deployed = Deployed()
    with Simulation(deployed.service, raise_failures=False, settings=SETTINGS) as sim:
        for _ in range(10):
            talk(sim, 4, "good", "good", "good")
            talk(sim, 1, "bad")
        assert events(sim, "BRAKE_ON") == []
        assert len(sim.dead_letters("moody")) == 10


def test_one_that_succeeds_ends_it_whatever_the_others_do() -> None:
    deployed = Deployed()
    with Simulation(deployed.service, raise_failures=False, settings=SETTINGS) as sim:
        talk(sim, 10, "bad")
        assert len(events(sim, "BRAKE_ON")) == 1
        (good,) = talk(sim, 1, "good")
        assert texts(good) == [], "it waits its turn"
        sim.advance(30 * SECOND)
        assert texts(good) == ["good"]
        assert len(events(sim, "BRAKE_OFF")) >= 1


def test_a_restart_begins_without_the_brake_and_loses_nothing() -> None:
    deployed = Deployed()
    with Simulation(deployed.service, raise_failures=False, settings=SETTINGS) as sim:
        dialogs = talk(sim, 50, "a", "b")
        deployed.broken = False
        sim.crash("moody")
        sim.run()
        well = [dialog for dialog in dialogs if dialog.error is None]
        assert len(well) >= 40
        assert all(texts(dialog) == ["a", "b"] for dialog in well)
        sim.check_invariants()


def test_a_queue_that_is_off_is_not_tried() -> None:
    deployed = Deployed()
    with Simulation(deployed.service, raise_failures=False, settings=SETTINGS) as sim:
        talk(sim, 50, "a")
        sim.turn_queue("moody", on=False)
        sim.run()
        tried = deployed.tried
        deployed.broken = False
        sim.advance(60 * SECOND)
        assert deployed.tried == tried
        sim.turn_queue("moody", on=True)
        sim.advance(2 * SECOND)
        assert sim.parked("moody") == []
        sim.check_invariants()


def test_without_a_brake_everything_is_given_up_on() -> None:
    deployed = Deployed()
    with Simulation(deployed.service, raise_failures=False, settings=replace(SETTINGS, brake=None)) as sim:
        talk(sim, 50, "a")
        assert len(sim.dead_letters("moody")) == 50


def test_later_is_no_failure() -> None:
    moody = Moody()
    with Simulation(moody.service, raise_failures=False, settings=SETTINGS) as sim:
        talk(sim, 20, "a later")
        assert events(sim, "BRAKE_ON") == []


def test_no_dialog_breaks_and_input_pauses_while_it_is_on() -> None:
    deployed = Deployed()
    few = replace(SETTINGS, batch=20, limits=Limits(parked_messages=5, parked_bytes=20_000))
    with Simulation(deployed.service, raise_failures=False, partitions=1, settings=few) as sim:
        dialogs = talk(sim, 30, "a")
        sim.advance(40 * SECOND)
        for number in range(20):
            for dialog in dialogs:
                if dialog.error is None:
                    dialog.send(Say(text=str(number)))
            sim.run()
        (partition,) = sim.worker("moody").partitions.values()
        assert partition.input.paused
        well = [dialog for dialog in dialogs if dialog.error is None]
        assert len(well) >= 20
        deployed.broken = False
        sim.advance(5 * SECOND)
        assert all(texts(dialog) == ["a", *map(str, range(20))] for dialog in well)
        assert partition.parking.counted_bytes == 0
        sim.check_invariants()


@pytest.mark.parametrize("many", [False, True])
def test_one_that_asks_to_be_called_later_has_had_its_turn(many: bool) -> None:
    deployed, asked = Deployed(), []
    service: Service[dict[str, Any]] = Service(
        "moody", accepts=[ECHO], poison=[PoisonPolicy(delays=[], then=Then.HOLD)]
    )

    @service.on(Say)
    def say(body: Say, dialog: Dialog) -> None:
        if deployed.broken:
            raise KeyError("score")
        asked.append(body.text)
        if len(asked) == 1:
            later = RetryLater(timedelta(hours=1))
            raise BaseExceptionGroup("both", [later, GiveUp("no")]) if many else later
        dialog.send(body)

    with Simulation(service, raise_failures=False, partitions=1, settings=SETTINGS) as sim:
        dialogs = talk(sim, 20, "a")
        deployed.broken = False
        sim.advance(10 * SECOND)
        assert sum(texts(dialog) == ["a"] for dialog in dialogs) >= 10
        assert len(events(sim, "BRAKE_OFF")) == 1


def test_timers_that_succeed_count_too() -> None:
    service: Service[dict[str, Any]] = Service("moody", accepts=[ECHO], poison=[STRICT])

    @service.on(Say)
    def say(body: Say, dialog: Dialog) -> None:
        if body.text == "bad":
            raise KeyError("score")
        dialog.set_timer(SECOND)

    @service.on_timer()
    def ring(dialog: Dialog) -> None:
        dialog.set_timer(SECOND)

    with Simulation(service, raise_failures=False, settings=SETTINGS) as sim:
        talk(sim, 20, "ring")
        sim.advance(10 * SECOND)
        talk(sim, 1, "bad")
        sim.advance(5 * SECOND)
        talk(sim, 10, "bad")
        assert events(sim, "BRAKE_ON") == []


def test_messages_are_tried_although_timers_of_every_partition_fail() -> None:
    """As many partitions as there are kinds of what waits: each has its turn for either."""
    broken = [True]
    service: Service[dict[str, Any]] = Service("moody", accepts=[ECHO], poison=[STRICT])

    @service.on(Say)
    def say(body: Say, dialog: Dialog) -> None:
        if body.text == "ring":
            dialog.set_timer(SECOND)
        elif broken:
            raise KeyError("score")

    @service.on_timer()
    def ring(dialog: Dialog) -> None:
        raise KeyError("bell")

    with Simulation(service, raise_failures=False, partitions=2, settings=SETTINGS) as sim:
        dialogs = talk(sim, 60, "ring")
        sim.advance(2 * SECOND)
        assert len(events(sim, "BRAKE_ON")) == 1
        first, second = sim.worker("moody").partitions.values()
        assert first.parking.retries
        assert second.parking.retries
        here = next(it for it in dialogs if partition_of(it.id.encode(), 2) == 0 and it.error is None)
        here.send(Say(text="a"))
        sim.run()
        broken.clear()
        sim.advance(10 * SECOND)
        assert len(events(sim, "BRAKE_OFF")) >= 1
        sim.check_invariants()


def in_partition(dialogs: list[PeerDialog], number: int) -> list[PeerDialog]:
    return [dialog for dialog in dialogs if partition_of(dialog.id.encode(), 2) == number]


def sent(sim: Simulation, *services: str) -> None:
    """Let what these services say arrive, and nobody take it."""
    for service in services * 10:
        sim.worker(service).step()


def test_an_unclean_start_is_made_good_although_a_peer_stays_braked() -> None:
    """Only what is from before the start, and waits, keeps its partition under suspicion."""
    deployed = Deployed()
    with Simulation(deployed.service, raise_failures=False, partitions=2, settings=SETTINGS) as sim:
        well, loud = talk(sim, 20), talk(sim, 60, peer="other")
        for number in range(20):
            for dialog in in_partition(well, 0):
                dialog.send(Say(text=f"good {number}"))
        for dialog in in_partition(loud, 1):
            dialog.send(Say(text="bad"))
        sent(sim, "web", "other")
        sim.crash("moody")
        worker = sim.worker("moody")
        while len(worker.partitions) < 2:
            worker.step()
        for dialog in in_partition(loud, 0):
            dialog.send(Say(text="bad"))
        sent(sim, "other")
        sim.run()
        assert len(events(sim, "BRAKE_ON")) == 1
        first, second = (worker.partitions[number] for number in range(2))
        assert any(park.waits_its_turn for park in first.parking.parks.values())
        assert first.work.suspicion is None
        assert first.progress.row.unclean_starts == 0
        assert second.work.suspicion is not None, "what waits there may end the process"
        deployed.broken = False
        sim.advance(2 * SECOND)
        assert second.work.suspicion is None
        sim.check_invariants()


def test_what_arrives_behind_suspects_is_taken_and_leaves_the_worker_at_rest() -> None:
    """It is announced with those before it; once it is taken, nothing of it is left that others would wait for."""
    deployed = Deployed()
    with Simulation(deployed.service, raise_failures=False, partitions=1, settings=SETTINGS) as sim:
        well, loud = talk(sim, 20), talk(sim, 60, peer="other")
        for dialog in loud[:30]:
            dialog.send(Say(text="bad"))
        for number in range(20):
            for dialog in well:
                dialog.send(Say(text=f"good {number}"))
        sent(sim, "web", "other")
        sim.crash("moody")
        worker = sim.worker("moody")
        while not worker.partitions:
            worker.step()
        for dialog in loud[30:]:
            dialog.send(Say(text="bad"))
        sent(sim, "other")
        sim.run()
        assert worker.partitions[0].work.suspicion is not None
        assert not worker.busy()
        assert len(texts(well[0])) == 20
        sim.check_invariants()


def test_one_peer_brakes_its_own_messages_alone() -> None:
    """However many of one peer fail: what others say is handled at once, and one of them that fails as well is given up on."""
    deployed = Deployed()
    with Simulation(deployed.service, raise_failures=False, settings=SETTINGS) as sim:
        for number in range(10):
            talk(sim, 20, "bad", peer="other")
            dialogs = talk(sim, 2, "good", "good")
            assert [texts(dialog) for dialog in dialogs] == [["good", "good"]] * 2
            if number % 3 == 0:
                (failed,) = talk(sim, 1, "bad")
                assert failed.error is not None
            sim.advance(30 * SECOND)
        assert [event["peer"] for event in events(sim, "BRAKE_ON")] == ["other"]
        assert events(sim, "BRAKE_OFF") == []
        sim.check_invariants()


def test_many_peers_that_fail_are_braked_together_and_recover_together() -> None:
    """What all of them have in common is this service: none is given as much room as if it were alone."""
    deployed, peers = Deployed(), [f"peer-{number}" for number in range(10)]
    with Simulation(deployed.service, raise_failures=False, settings=SETTINGS) as sim:
        dialogs = [dialog for peer in peers for dialog in talk(sim, 10, "a", peer=peer)]
        given_up = len(sim.dead_letters("moody"))
        assert given_up <= 3 * BRAKE.dialogs
        assert sorted(event["peer"] for event in events(sim, "BRAKE_ON")) == peers
        deployed.broken = False
        sim.advance(2 * SECOND)
        assert sum(texts(dialog) == ["a"] for dialog in dialogs) == 100 - given_up
        assert len(events(sim, "BRAKE_OFF")) == 10
        sim.check_invariants()


def test_one_peer_recovers_while_another_never_does() -> None:
    """Each is tried by itself: thousands that wait of one do not come before those of the other."""
    deployed = Deployed()
    with Simulation(deployed.service, raise_failures=False, settings=SETTINGS) as sim:
        talk(sim, 300, "bad", peer="other")
        dialogs = talk(sim, 20, "a")
        assert len(events(sim, "BRAKE_ON")) == 2
        tried, deployed.broken = deployed.tried, True
        for dialog in dialogs:
            if dialog.error is None:
                dialog.send(Say(text="good"))
        late = talk(sim, 1, "good")
        sim.advance(30 * SECOND)
        assert texts(late[0]) == ["good"]
        assert [event["peer"] for event in events(sim, "BRAKE_OFF")] == ["web"]
        assert deployed.tried - tried >= 30
        sim.check_invariants()


def test_one_peer_that_is_braked_stops_the_queue_for_nobody_else() -> None:
    """At the limit its own dialogs break, new ones too; all of what it said is kept, and others go on."""
    deployed = Deployed()
    few = replace(SETTINGS, batch=20, limits=Limits(parked_bytes=20_000))
    with Simulation(deployed.service, raise_failures=False, partitions=1, settings=few) as sim:
        assert [texts(dialog) for dialog in talk(sim, 1, "good")] == [["good"]]
        (partition,) = sim.worker("moody").partitions.values()
        loud = talk(sim, 10, "bad", peer="other")
        for number in range(30):
            for dialog in [it for it in loud if it.error is None]:
                dialog.send(Say(text=f"{number} {'x' * 100}"))
            loud += talk(sim, 10, "bad", peer="other")
            assert [texts(dialog) for dialog in talk(sim, 1, "good")] == [["good"]]
            assert partition.parking.bytes < 2 * few.limits.parked_bytes
        assert events(sim, "QUEUE_PAUSED") == []
        assert not partition.input.paused
        assert [event["peer"] for event in events(sim, "BRAKE_ON")] == ["other"]
        broken = [dialog.error.code for dialog in loud if dialog.error is not None]
        assert len(broken) > BRAKE.dialogs
        assert -8462 in broken
        sim.check_invariants()


def test_a_peer_with_an_open_dialog_is_not_stopped_by_another_after_a_restart() -> None:
    """What its messages come to is not known then: nothing says that they fail."""
    deployed = Deployed()
    few = replace(SETTINGS, batch=20, limits=Limits(parked_bytes=20_000))
    with Simulation(deployed.service, raise_failures=False, partitions=1, settings=few) as sim:
        (quiet,) = talk(sim, 1, "good")
        sim.crash("moody")
        sim.run()
        talk(sim, 300, "bad", peer="other")
        (partition,) = sim.worker("moody").partitions.values()
        assert not partition.input.paused
        quiet.send(Say(text="good again"))
        sim.run()
        assert texts(quiet) == ["good", "good again"]
        sim.check_invariants()


def test_a_queue_that_pauses_is_told_of_once_and_when_it_goes_on() -> None:
    """Also where another peer's messages fail as well: not one of them is to blame then, and none of their dialogs breaks."""
    deployed = Deployed()
    few = replace(SETTINGS, batch=20, limits=Limits(parked_bytes=20_000))
    with Simulation(deployed.service, raise_failures=False, partitions=1, settings=few) as sim:
        talk(sim, 1, "good")
        talk(sim, 20, "bad")
        talk(sim, 20, "bad", peer="other")
        given_up = len(sim.dead_letters("moody"))
        talk(sim, 200, "bad", peer="other")
        sim.advance(20 * SECOND)
        (partition,) = sim.worker("moody").partitions.values()
        assert partition.input.paused
        (event,) = events(sim, "QUEUE_PAUSED")
        assert event["parked_bytes"] > few.limits.parked_bytes
        assert events(sim, "QUEUE_RESUMED") == []
        deployed.broken = False
        sim.advance(5 * SECOND)
        assert len(events(sim, "QUEUE_RESUMED")) == len(events(sim, "QUEUE_PAUSED"))
        assert not partition.input.paused
        assert len(sim.dead_letters("moody")) == given_up
        sim.check_invariants()
