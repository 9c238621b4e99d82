"""Random failures, policies, delays, restarts, decisions, switched queues and late duplicates, beside an oracle of what is allowed."""

from collections import Counter
from datetime import timedelta
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from conversations import Brake, Dialog, PoisonPolicy, RetryLater, Service, Then, WorkerSettings
from conversations.protocol.command import Action
from conversations.protocol.topics import DEAD_LETTER, service_topic
from conversations.testing import PeerDialog, Simulation
from conversations.testing.reading import visible
from conversations.worker import letters
from tests.simulation import records
from tests.simulation.services import ECHO, Say
from tests.simulation.test_decisions import by_hand
from tests.simulation.test_parking import texts

SECOND = timedelta(seconds=1)
POLICIES = st.builds(
    PoisonPolicy,
    delays=st.lists(st.sampled_from([timedelta(0), 5 * SECOND, 60 * SECOND]), max_size=3),
    then=st.sampled_from(Then),
)
NAMES = "abc"
REMEMBERED = 3_000 * 1_000_000
"""Microseconds after which what is repeated may be of a dialog that nobody remembers: it is refused, and kept once more."""


class Oracle:
    """What each dialog may have answered: all that was sent, but for what waits, and for what has a letter; in order, once."""

    def __init__(self, sim: Simulation) -> None:
        self.sim = sim
        self.sent: dict[str, list[str]] = {}

    def check(self, dialog: PeerDialog) -> None:
        """Compare what a dialog answered with what was sent on it."""
        kept, waits = self.kept(dialog.id), self.waits_from(dialog.id)
        allowed = [text for number, text in enumerate(self.sent[dialog.id]) if number not in kept and number < waits]
        assert texts(dialog) == allowed, (texts(dialog), allowed, kept, waits)

    def kept(self, conversation: str) -> set[int]:
        """Numbers whose letter settles them, each once."""
        topic = service_topic(self.sim.broker.namespace, "moody", DEAD_LETTER)
        found = Counter(
            int(headers[letters.SEQUENCE])
            for record in visible(self.sim.broker, topic)
            if letters.HELD not in (headers := dict(record.headers() or ()))
            and headers.get(letters.CONVERSATION, b"").decode() == conversation
            and headers.get(letters.MESSAGE_TYPE)
        )
        assert all(count == 1 for count in found.values()), found
        return set(found)

    def waits_from(self, conversation: str) -> int:
        """The number of the message that its dialog waits behind; beyond all when it does not wait."""
        numbers = [it.number for it in self.sim.parked("moody") if it.conversation == conversation and it.number >= 0]
        return min(numbers, default=1 << 62)


class PoisonMachine(RuleBasedStateMachine):
    """One service whose messages fail as often as they say, and operators who do anything at any time."""

    @initialize(policies=st.lists(POLICIES, min_size=1, max_size=1), brake=st.booleans(), workers=st.integers(1, 2))
    def start(self, policies: list[PoisonPolicy], brake: bool, workers: int) -> None:
        self.tries: Counter[str] = Counter()
        self.mended = False
        service: Service[dict[str, Any]] = Service("moody", accepts=[ECHO], poison=policies)
        service.on(Say)(self.say)
        few = Brake(dialogs=2, share=0) if brake else None
        limits = WorkerSettings(patience=timedelta(0), revocation=timedelta(0), deaths=1_000_000, brake=few)
        self.sim = Simulation(service, raise_failures=False, partitions=2, settings=limits, workers=workers)
        self.began = self.sim.clock.now()
        self.oracle = Oracle(self.sim)
        peer = self.sim.peer("web")
        self.dialogs = [peer.begin_dialog("moody", ECHO, lifetime=timedelta(days=999)) for _ in NAMES]
        self.oracle.sent = {dialog.id: [] for dialog in self.dialogs}

    def say(self, body: Say, dialog: Dialog) -> None:
        """Fail as often as the text says; "later" asks to be called later, once."""
        self.tries[body.text] += 1
        how = body.text.partition(" ")[2]
        dialog.send(body)
        if how == "later" and self.tries[body.text] == 1:
            raise RetryLater(7 * SECOND)
        if how.isdigit() and self.tries[body.text] <= int(how) and not self.mended:
            raise ValueError(body.text)

    @rule(which=st.integers(0, 2), how=st.sampled_from(["0", "0", "1", "2", "6", "later"]), run=st.booleans())
    def send(self, which: int, how: str, run: bool) -> None:
        dialog = self.dialogs[which]
        if dialog.error is not None or dialog.ended:
            return
        sent = self.oracle.sent[dialog.id]
        sent.append(f"{NAMES[which]}{len(sent)} {how}")
        dialog.send(Say(text=sent[-1]))
        if run:
            self.sim.run()

    @rule(by=st.sampled_from([1, 6, 61, 3_600]))
    def advance(self, by: int) -> None:
        self.sim.advance(by * SECOND)

    @rule()
    def crash(self) -> None:
        self.sim.crash("moody")

    @rule(on=st.booleans())
    def turn_queue(self, on: bool) -> None:
        self.sim.turn_queue("moody", on=on)

    @rule()
    def repeat_everything(self) -> None:
        """Late duplicates of all there ever was, as long as dialogs that are over are remembered."""
        if self.sim.clock.now() - self.began < REMEMBERED:
            records.replay(self.sim, "moody")

    @precondition(lambda self: bool(self.sim.parked("moody")))
    @rule(which=st.integers(0, 9), action=st.sampled_from(Action), twice=st.booleans())
    def decide(self, which: int, action: Action, twice: bool) -> None:
        self.sim.run()
        waiting = self.sim.parked("moody")
        if not waiting:
            return
        it = waiting[which % len(waiting)]
        sent = self.oracle.sent[it.conversation]
        edited = sent[it.number].partition(" ")[0] + "e 0"
        body = Say(text=edited).model_dump_json().encode()
        for _ in range(1 + twice):
            self.sim.decide(it, by_hand(action, body=body if action is Action.EDIT else b"", code=5, description="x"))
        self.sim.run()
        after = {again.conversation: again for again in self.sim.parked("moody")}.get(it.conversation)
        if action is Action.EDIT and (after is None or after.number != it.number or after.body == body):
            sent[it.number] = edited

    @invariant()
    def what_was_answered_is_what_is_allowed(self) -> None:
        self.sim.run()
        for dialog in self.dialogs:
            self.oracle.check(dialog)
        self.sim.check_invariants()

    def teardown(self) -> None:
        if not hasattr(self, "sim"):
            return
        self.mended = True
        for _ in range(3):
            self.sim.turn_queue("moody", on=True)
            self.sim.advance(timedelta(hours=2))
            for it in self.sim.parked("moody"):
                self.sim.decide(it, by_hand(Action.RETRY))
            self.sim.run()
        assert self.sim.parked("moody") == []
        self.what_was_answered_is_what_is_allowed()


TestPoisonMachine = PoisonMachine.TestCase
TestPoisonMachine.settings = settings(
    max_examples=150, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
