"""Random failures, policies, delays, faults, restarts, decisions, mass redrives and late duplicates, beside an oracle of what is allowed."""

from __future__ import annotations

import inspect
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from conversations import Brake, Contract, Dialog, PoisonPolicy, RetryLater, Service, Then, WorkerSettings
from conversations.poison import Subject, hidden_by
from conversations.protocol.command import Action
from conversations.protocol.letters import COMMAND_REFUSED
from conversations.protocol.parked import Parked
from conversations.protocol.topics import partition_of
from conversations.testing import Faults, PeerDialog, Simulation
from conversations_ops.operate.redrive.plan import Care, freeze
from conversations_ops.operate.redrive.selection import Selector
from tests.simulation.support import records
from tests.simulation.support.services import ECHO, UNKEPT_ECHO, Say
from tests.simulation.test_decisions import by_hand
from tests.simulation.test_parking import texts

MICROSECOND, SECOND = timedelta(microseconds=1), timedelta(seconds=1)
FAILURES: dict[str, type[Exception]] = {"KeyError": KeyError, "ValueError": ValueError, "-": AssertionError}
POLICIES = st.builds(
    PoisonPolicy,
    exception=st.sampled_from([None, KeyError, LookupError, ValueError]),
    delays=st.lists(st.sampled_from([timedelta(0), 5 * SECOND, 5 * SECOND, 60 * SECOND]), max_size=3),
    then=st.sampled_from([Then.HOLD, *Then]),
)
SOME, MORE = st.sampled_from([0.0, 0.05]), st.sampled_from([0.0, 0.1])
FAULTS = st.builds(
    Faults, seed=st.integers(0, 1_000), duplicate=MORE, reorder=MORE, crash=MORE, abort=MORE, revoke=MORE, slow=MORE,
    move=SOME, stall=SOME, hang=SOME, survive=st.sampled_from([0.0, 0.5]),
)  # fmt: skip
HOW = st.sampled_from(
    ["0", "1 KeyError", "1 ValueError", "2 ValueError", "6 KeyError", "6 ValueError", "later 7", "later 40"]
)
"""How often a message fails, and with what; or after how many seconds it asks to be called again."""
ACTIONS = st.sampled_from([Action.RETRY, *Action])
NONSENSE = "nonsense"
"""An edit that is no message of its type: it changes nothing."""
DIALOGS = 3
REMEMBERED = 3_000 * 1_000_000
"""Microseconds after which what is repeated may be of a dialog that nobody remembers: it is refused, and kept once more."""
HELD, OFF = 1 << 61, 1 << 62
"""Due when an operator says so, or when its queue is on."""
EXAMPLES = int(os.environ.get("POISON_EXAMPLES", "40"))


@dataclass
class Talk:
    """One dialog as it must be by now: what is settled, and the number that is next, since when, and how often it failed."""

    partition: int
    sent: list[str] = field(default_factory=list)
    handled: list[int] = field(default_factory=list)
    letters: list[int] = field(default_factory=list)
    broken: bool = False
    head: int = 0
    due: int = 0
    failed: int = 0
    seen: int = 0
    """Changes with everything that happens to the head: who decides must know of all of it."""


class Oracle:
    """What policies, operators and time allow, and nothing else: told what happens, it says how far each dialog must be."""

    def __init__(self, policies: Sequence[PoisonPolicy], now: int) -> None:
        self.policies, self.now, self.mended = [*policies, PoisonPolicy()], now, False
        self.talks: dict[str, Talk] = {}
        self.off: set[int] = set()

    def settle(self, until: int) -> None:
        for talk in self.talks.values():  # each goes on alone, as far as it may
            while talk.head < len(talk.sent) and talk.due <= until:
                self._try(talk, max(talk.due, self.now))
        self.now = until

    def _try(self, talk: Talk, at: int) -> None:
        _, fails, kind, after = talk.sent[talk.head].split()
        off, early = talk.partition in self.off, int(after) > at
        talk.seen, talk.failed = talk.seen + 1, talk.failed + (not off and not early)
        policy = next(it for it in self.policies if it.exception is None or issubclass(FAILURES[kind], it.exception))
        if off or early:
            talk.due = OFF if off else int(after)
        elif self.mended or talk.failed > int(fails):
            self._next(talk, talk.handled, at)
        elif talk.failed <= len(policy.delays):
            talk.due = at + policy.delays[talk.failed - 1] // MICROSECOND
        elif policy.then in (Then.SKIP, Then.END_DIALOG):
            self._give_up(talk, policy.then is Then.END_DIALOG, at)
        else:
            talk.due = OFF if policy.then is Then.DISABLE_QUEUE else HELD
            self.off |= {talk.partition} if talk.due == OFF else set()

    def _next(self, talk: Talk, settled: list[int], at: int) -> None:
        settled.append(talk.head)
        talk.head, talk.due, talk.failed = talk.head + 1, at, 0

    def _give_up(self, talk: Talk, ends: bool, at: int) -> None:
        talk.broken = ends
        for _ in range(len(talk.sent) - talk.head if ends else 1):
            self._next(talk, talk.letters, at)

    def decide(self, talk: Talk, looked: tuple[int, int], action: Action) -> None:
        if looked == (talk.head, talk.seen):  # else somebody was faster
            talk.seen, talk.due = talk.seen + 1, self.now
            if action in (Action.SKIP, Action.END):
                self._give_up(talk, action is Action.END, self.now)


def test_the_oracle_is_short_enough_to_be_believed() -> None:
    assert len((inspect.getsource(Talk) + inspect.getsource(Oracle)).splitlines()) <= 60


def applied(policies: Sequence[PoisonPolicy]) -> list[PoisonPolicy]:
    """Leave out those that a service refuses."""
    found: list[PoisonPolicy] = []
    for policy in policies:
        if hidden_by(policy, found, [Subject(ECHO.name, "Say")]) is None:
            found.append(policy)
    return found


def wait_of(it: Parked | None) -> tuple[int, int, int] | None:
    """Say which message waits, how often it failed, and until when."""
    if it is None:
        return None
    return it.number, it.attempts, OFF if it.queue_off else HELD if it.due is None else it.due


class PoisonMachine(RuleBasedStateMachine):
    """One service whose messages fail as often as they say, and operators who do anything at any time."""

    @initialize(
        policies=st.lists(POLICIES, min_size=1, max_size=3), brake=st.sampled_from([False, False, False, True]),
        partitions=st.sampled_from([1, 1, 2, 3]), workers=st.integers(1, 2), faults=st.none() | FAULTS,
        contract=st.sampled_from([ECHO, UNKEPT_ECHO]),
    )  # fmt: skip
    def start(
        self, policies: list[PoisonPolicy], brake: bool, partitions: int, workers: int, faults: Faults | None,
        contract: Contract,
    ) -> None:  # fmt: skip
        policies, self.contract = applied(policies), contract
        # Else it would depend on the order within one moment which dialogs are tried before their queue is off.
        alone = any(policy.then is Then.DISABLE_QUEUE for policy in policies)
        self.partitions = DIALOGS if alone else partitions
        service: Service[dict[str, Any]] = Service("moody", accepts=[ECHO], poison=policies)
        service.on(Say)(self.say)
        self.braked = brake
        few = Brake(dialogs=2, share=0, probe=30 * SECOND) if brake else None
        # Receipts do not wait here: while they wait, the clock moves, and the oracle would need to know of it.
        limits = WorkerSettings(
            patience=timedelta(0), revocation=timedelta(0), deaths=1_000_000, brake=few, hold=timedelta(0)
        )
        self.sim = Simulation(
            service, faults=faults, raise_failures=False, partitions=self.partitions, settings=limits, workers=workers
        )
        self.workers, self.began = workers, self.sim.clock.now()
        self.oracle = Oracle(policies, self.began)
        self.planned: list[tuple[Parked, tuple[int, int]]] = []
        self.dialogs: dict[str, PeerDialog] = {}
        self.open = [self.begin(number if alone else None) for number in range(DIALOGS)]
        """What is spoken on; when one of them is over another takes its place."""

    def begin(self, place: int | None) -> PeerDialog:
        """Begin a dialog, in a certain partition if it must be."""
        while True:
            dialog = self.sim.peer("web").begin_dialog("moody", self.contract, lifetime=timedelta(days=999))
            partition = partition_of(dialog.id.encode(), self.partitions)
            if place in (None, partition):
                self.oracle.talks[dialog.id] = Talk(partition)
                self.dialogs[dialog.id] = dialog
                return dialog

    def say(self, body: Say, dialog: Dialog) -> None:
        """Do what the text says; the same whenever it is run again for the same attempt."""
        _, fails, kind, after = body.text.split()
        dialog.send(body)
        if (wait := int(after) - self.sim.clock.now()) > 0:
            raise RetryLater(wait * MICROSECOND)
        if dialog.message.attempt <= int(fails) and not self.oracle.mended:
            raise FAILURES[kind](body.text)

    def text(self, name: str, how: str) -> str:
        """Write down what a message does: its name, how often it fails and with what, and not before when."""
        fails, _, kind = how.partition(" ")
        if fails == "later":
            return f"{name} 0 - {self.sim.clock.now() + int(kind) * 1_000_000}"
        return f"{name} {fails} {kind or '-'} 0"

    @rule(several=st.lists(st.tuples(st.integers(0, DIALOGS - 1), HOW), min_size=1, max_size=6))
    def send(self, several: list[tuple[int, str]]) -> None:
        for which, how in several:
            self.send_one(which, how)

    def send_one(self, which: int, how: str) -> None:
        if self.open[which].error is not None:
            self.open[which] = self.begin(self.oracle.talks[self.open[which].id].partition)
        dialog = self.open[which]
        sent = self.oracle.talks[dialog.id].sent
        sent.append(self.text(str(len(sent)), how))
        dialog.send(Say(text=sent[-1]))

    @rule(by=st.sampled_from([1, 2, 6, 20, 61, 3_600]))
    def advance(self, by: int) -> None:
        self.sim.advance(by * SECOND)

    @rule(worker=st.integers(0, 1))
    def crash(self, worker: int) -> None:
        self.sim.crash("moody", worker % self.workers)

    @rule(on=st.sampled_from([True, True, True, False]))
    def turn_queue(self, on: bool) -> None:
        self.sim.turn_queue("moody", on=on)
        self.oracle.off = set() if on else set(range(self.partitions))
        for talk in self.oracle.talks.values():
            talk.due = self.oracle.now if on and talk.due == OFF else talk.due

    @rule(which=st.integers(0, DIALOGS))
    def repeat(self, which: int) -> None:
        """Late duplicates of all there ever was of a dialog, or of everything as long as dialogs that are over are remembered."""
        if which == DIALOGS and self.sim.clock.now() - self.began < REMEMBERED:
            records.replay(self.sim, "moody")
        elif which < DIALOGS and self.open[which].error is None:
            records.replay(self.sim, "moody", self.open[which].id)

    @precondition(lambda self: bool(self.sim.parked("moody")))
    @rule(which=st.integers(0, 9), action=ACTIONS, edited=HOW | st.just(NONSENSE), twice=st.booleans())
    def decide(self, which: int, action: Action, edited: str, twice: bool) -> None:
        waiting = self.sim.parked("moody")
        it = waiting[which % len(waiting)]
        talk = self.oracle.talks[it.conversation]
        body, before, refused = b"", talk.sent[it.number], self.refused()
        if action is Action.EDIT and edited == NONSENSE:
            self.sim.decide(it, by_hand(action, body=b"{}"))
            return
        if action is Action.EDIT:
            talk.sent[it.number] = self.text(f"{it.number}e", edited)
            body = Say(text=talk.sent[it.number]).model_dump_json().encode()
        looked = talk.head, talk.seen
        for _ in range(1 + twice):
            self.sim.decide(it, by_hand(action, body=body, code=5, description="x"))
            self.oracle.decide(talk, looked, action)
        self.sim.run()
        if self.braked and self.refused() > refused + twice:  # an attempt came first, which only the brake knows
            talk.sent[it.number] = before

    def refused(self) -> int:
        """Return how many decisions were refused."""
        return sum(it.reason == COMMAND_REFUSED for it in self.sim.dead_letters("moody"))

    @precondition(lambda self: bool(self.sim.parked("moody")))
    @rule()
    def plan_redrive(self) -> None:
        waiting = self.sim.parked("moody")
        chosen = {it.letter for it in freeze(waiting, Selector(), Care(max_returns=1_000))[0]}
        talks = ((it, self.oracle.talks[it.conversation]) for it in waiting if it.letter in chosen)
        self.planned = [(it, (talk.head, talk.seen)) for it, talk in talks]

    @precondition(lambda self: bool(self.planned))
    @rule(some=st.integers(1, DIALOGS))
    def redrive(self, some: int) -> None:
        """Give back some of what was planned, once more perhaps, whatever became of it since: what changed is left alone."""
        for it, looked in self.planned[:some]:
            self.sim.decide(it, by_hand(Action.RETRY))
            self.oracle.decide(self.oracle.talks[it.conversation], looked, Action.RETRY)

    @invariant()
    def every_dialog_is_as_far_as_it_may_be_and_nothing_is_lost(self) -> None:
        self.sim.run()
        self.oracle.settle(self.sim.clock.now())
        parked = {it.conversation: it for it in self.sim.parked("moody")}
        for dialog in self.dialogs.values():
            talk, it = self.oracle.talks[dialog.id], parked.get(dialog.id)
            handled, letters = self.settled(dialog.id)
            waiting = [] if it is None else list(range(it.number, it.number + it.behind + 1))
            assert sorted(handled + letters + waiting) == list(range(len(talk.sent))), (handled, letters, waiting)
            assert handled == sorted(handled)
            answers, said = [talk.sent[number] for number in handled], texts(dialog)
            assert said == (answers[: len(said)] if dialog.error else answers), "an error may overtake answers"
            if not self.braked:  # while the brake is on, whose turn it is, and when, is left to it
                assert (handled, letters) == (talk.handled, sorted(talk.letters))
                assert (dialog.error is not None) is talk.broken
                assert wait_of(it) == (None if talk.head == len(talk.sent) else (talk.head, talk.failed, talk.due))
        self.sim.check_invariants()

    def settled(self, conversation: str) -> tuple[list[int], list[int]]:
        """Numbers that were handled, as their transactions were committed, and those that a letter of either side settles."""
        ledger, name = self.sim.broker.ledger, UUID(conversation).bytes
        found = [it for step in ledger.steps for it in step.letters if it.conversation == name and not it.to_initiator]
        handled = [it.number for it in ledger.handled if it.service == "moody" and it.conversation == name]
        return handled, sorted(it.number for it in found)

    def teardown(self) -> None:
        if not hasattr(self, "sim"):
            return
        self.oracle.mended = True
        for _ in range(3):
            self.turn_queue(on=True)
            self.advance(by=7_200)
            for number in range(len(self.sim.parked("moody"))):
                self.decide(number, Action.RETRY, "0", twice=False)
            self.every_dialog_is_as_far_as_it_may_be_and_nothing_is_lost()
        assert self.sim.parked("moody") == []


TestPoisonMachine = pytest.mark.timeout(400 + 5 * EXAMPLES)(PoisonMachine.TestCase)
TestPoisonMachine.settings = settings(
    max_examples=EXAMPLES, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
