"""Lifetimes: a dialog lives at its target no longer than the target's contract says, and its initiator takes over the earlier end."""

from datetime import timedelta

import pytest

from conversations import Contract, LocalError
from conversations.protocol.endpoint import NEVER
from conversations.protocol.rows import Tombstone
from conversations.testing import Simulation
from conversations.testing.reading import endpoints
from tests.simulation.support import records
from tests.simulation.support.services import Say
from tests.simulation.test_ends import stubborn
from tests.simulation.test_resend import Source, Target

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)


def talk(lifetime: timedelta | None, resend: str = "by-hand") -> Contract:
    return Contract("Talk", sent_by_any=[Say], lifetime=lifetime, resend=resend)  # type: ignore[arg-type]


UNSET = Contract("Talk", sent_by_any=[Say])


def ends(sim: Simulation, service: str) -> list[int]:
    """The ends of the lifetimes that a service's rows have."""
    return [it.expires_at for it in endpoints(sim.broker, service).values() if not isinstance(it, Tombstone)]


LONGER = {
    "unlimited": (talk(None), None),
    "a longer contract": (talk(60 * MINUTE), None),
    "a longer dialog": (UNSET, 60 * MINUTE),
    "the default": (UNSET, None),
}
"""What an initiator may choose: its contract, and the lifetime of the dialog."""


@pytest.mark.parametrize("chosen", LONGER)
def test_a_dialog_lives_no_longer_than_the_targets_contract_says(chosen: str) -> None:
    """Both sides end with -8489 at the same time, and nothing is sent for it: the first answer of the target has told the initiator."""
    contract, lifetime = LONGER[chosen]
    service, codes = stubborn(talk(10 * MINUTE))
    with Simulation(service) as sim:
        dialog = sim.peer("web").begin_dialog("stubborn", contract, lifetime=lifetime)
        begun = sim.clock.now()
        dialog.send(Say(text="anybody?"))
        sim.advance(MINUTE)
        (end,) = ends(sim, "stubborn")
        assert begun < end <= begun + 10 * MINUTE // timedelta(microseconds=1) + 1_000_000
        assert ends(sim, "web") == [end]
        sent = len(records.queued(sim, "web")), len(records.queued(sim, "stubborn"))
        sim.advance(8 * MINUTE)
        assert (dialog.ended, codes) == (False, [])
        sim.advance(2 * MINUTE)
        assert dialog.error is not None
        assert (dialog.error.code, codes) == (-8489, [-8489])
        assert (len(records.queued(sim, "web")), len(records.queued(sim, "stubborn"))) == sent
        assert sim.open_dialogs() == []
        sim.check_invariants()


SHORTER: dict[str, tuple[Contract, Contract, timedelta | None, timedelta | None]] = {
    "the target's is unlimited": (talk(60 * MINUTE), talk(None), None, 60 * MINUTE),
    "both are unlimited": (talk(None), talk(None), None, None),
    "the target's contract sets none": (talk(None), UNSET, None, None),
    "the target's contract sets none, and the dialog lives longer than the default": (UNSET, UNSET, 3 * DAY, 3 * DAY),
    "the initiator's is shorter": (talk(60 * MINUTE), talk(10 * DAY), 5 * MINUTE, 5 * MINUTE),
}
"""Contracts of the initiator and of the target, the lifetime that the initiator asks for, and the lifetime that the dialog has."""


@pytest.mark.parametrize("chosen", SHORTER)
def test_a_target_that_sets_no_shorter_lifetime_takes_the_initiators(chosen: str) -> None:
    ours, theirs, asked, lives = SHORTER[chosen]
    service, _ = stubborn(theirs)
    with Simulation(service) as sim:
        dialog = sim.peer("web").begin_dialog("stubborn", ours, lifetime=asked)
        begun = sim.clock.now()
        dialog.send(Say(text="anybody?"))
        sim.advance(MINUTE)
        (end,) = ends(sim, "stubborn")
        assert ends(sim, "web") == [end]
        assert end == NEVER if lives is None else abs(end - begun - lives // timedelta(microseconds=1)) < 1_000_000
        sim.advance(4 * DAY)
        assert dialog.ended is (lives is not None)


def test_a_restart_does_not_move_the_end() -> None:
    """It is counted from the acceptance, also if the worker is started again, and with another lifetime in the contract."""
    service, codes = stubborn(talk(10 * MINUTE))
    with Simulation(service) as sim:
        dialog = sim.peer("web").begin_dialog("stubborn", talk(None))
        dialog.send(Say(text="anybody?"))
        sim.advance(5 * MINUTE)
        (end,) = ends(sim, "stubborn")
        sim.crash("stubborn")
        dialog.send(Say(text="still there?"))
        sim.advance(MINUTE)
        assert ends(sim, "stubborn") == [end]
        renewed, more_codes = stubborn(talk(2 * MINUTE))
        sim.deploy(renewed)
        sim.advance(3 * MINUTE)
        assert (dialog.ended, more_codes) == (False, [])
        sim.advance(2 * MINUTE)
        assert (dialog.ended, codes, more_codes) == (True, [], [-8489])


def test_an_initiator_keeps_the_end_that_its_target_told() -> None:
    """It is in the initiator's row, so it holds after a crash, although no envelope of the target comes again."""
    service, _ = stubborn(talk(10 * MINUTE))
    with Simulation(service) as sim:
        dialog = sim.peer("web").begin_dialog("stubborn", talk(None))
        dialog.send(Say(text="anybody?"))
        sim.advance(MINUTE)
        sim.crash("web")
        heard = len(records.queued(sim, "web"))
        sim.advance(10 * MINUTE)
        assert len(records.queued(sim, "web")) == heard
        assert dialog.error is not None
        assert dialog.error.code == -8489
        assert sim.open_dialogs() == []


def test_what_the_target_has_not_accepted_at_its_end_is_sent_again() -> None:
    """On a new dialog, which the target ends after its own lifetime again. The initiator's contract is unlimited."""
    target, source = Target(talk(5 * MINUTE)), Source(talk(None, "automatic"))
    with Simulation(target.service, source.service) as sim:
        web = sim.peer("web").begin_dialog("source", source.inlet)
        web.send(Say(text="a b"))
        sim.run()
        sim.broker.stop = records.is_to("target", 2, 3)
        web.send(Say(text="c d"))
        sim.run()
        sim.advance(6 * MINUTE)
        sim.broker.resume()
        sim.run()
        assert (target.handled, target.codes, source.codes) == (["a", "b", "c", "d"], [-8489], [])
        sim.advance(3 * MINUTE)
        assert source.codes == []
        sim.advance(3 * MINUTE)
        assert (target.codes, source.codes, source.pending) == ([-8489, -8489], [-8489], [[]])
        assert sim.dead_letters("source") == sim.dead_letters("target") == []
        sim.check_invariants()


def test_what_the_target_has_not_accepted_at_its_end_comes_back() -> None:
    """``on_error`` of the initiator has it, and the target handles nothing after its end."""
    target, source = Target(talk(5 * MINUTE)), Source(talk(None))
    with Simulation(target.service, source.service) as sim:
        web = sim.peer("web").begin_dialog("source", source.inlet)
        web.send(Say(text="a"))
        sim.run()
        sim.broker.stop = records.is_to("target", 1, 2)
        web.send(Say(text="b c"))
        sim.run()
        sim.advance(6 * MINUTE)
        sim.broker.resume()
        sim.run()
        assert (target.handled, source.codes, source.pending) == (["a"], [-8489], [["b", "c"]])
        assert [(it.reason, it.code) for it in sim.dead_letters("source")] == [("undeliverable", -8489)] * 2
        assert sim.dead_letters("target") == []


def test_a_longer_lifetime_than_that_of_the_contract_is_refused_at_once() -> None:
    """8411, with what to change. The target's contract is most often the same object, so the target would end the dialog before."""
    with Simulation(stubborn(talk(10 * MINUTE))[0]) as sim:
        web = sim.peer("web")
        with pytest.raises(
            LocalError, match=r"longer than contract 'Talk' allows: 0:10:00 \(8411\).* in both services"
        ) as raised:
            web.begin_dialog("stubborn", talk(10 * MINUTE), lifetime=timedelta(minutes=10, microseconds=1))
        assert raised.value.code == 8411
        web.begin_dialog("stubborn", talk(10 * MINUTE), lifetime=10 * MINUTE)
        web.begin_dialog("stubborn", talk(None), lifetime=DAY)


def test_rows_of_both_sides_are_gone_after_the_earlier_end() -> None:
    """An unlimited initiator leaves nothing with a target whose lifetime is limited, and nothing stays with the initiator either."""
    service, _ = stubborn(talk(10 * MINUTE))
    with Simulation(service, partitions=1) as sim:
        sim.peer("web").begin_dialog("stubborn", talk(None)).send(Say(text="anybody?"))
        sim.advance(timedelta(hours=3))
        assert endpoints(sim.broker, "web") == endpoints(sim.broker, "stubborn") == {}
