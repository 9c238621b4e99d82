"""Plays one seed of the matrix: the dialog of its cell, with faults, from its first message until nothing moves any more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from random import Random
from typing import Any

from conversations import Service, WorkerSettings
from conversations.ports import Out
from conversations.protocol import rows
from conversations.protocol.command import (
    Begin,
    Cleanup,
    Command,
    End,
    EndWithError,
    Operation,
    Report,
    Send,
    encode_command,
    topic_for,
)
from conversations.protocol.contract import Resend
from conversations.protocol.envelope import Kind
from conversations.protocol.states import State
from conversations.protocol.topics import QUEUE, service_topic
from conversations.testing import Faults, Simulation
from conversations.testing.reading import endpoints
from conversations.testing.said import said
from tests.simulation.support import records
from tests.simulation.support.matrix import sums
from tests.simulation.support.matrix.cells import Cell, Finish, First, Wait, cell_of
from tests.simulation.support.matrix.services import CONTRACTS, LIFETIME, SECOND, services

SETTINGS = WorkerSettings(patience=timedelta(0), revocation=timedelta(0), deaths=1_000_000, brake=None)
"""Without the brake, which has tests of its own."""
RATES = ("duplicate", "reorder", "crash", "abort", "revoke", "slow", "move", "stall", "hang", "overlap", "refuse")
CALM = timedelta(minutes=3)
"""Longer than all pauses between two attempts of anything."""
ASKED = timedelta(minutes=12)
"""Longer than an initiator asks what its peer has accepted."""
ROUNDS = 6
"""More than the generations of a dialog: as often is what is left open ended at the end of a run, and is waited for what is delayed."""
WAITING = frozenset({State.DISCONNECTED_OUTBOUND, State.FENCING, State.FENCING_OUTBOUND, State.SETTLING})
"""States in which a side waits for its peer's answer."""
SIDES = {"caller": "i", "desk": "t"}


@lru_cache(1)
def shared() -> tuple[Service[Any], Service[Any]]:
    """Return the services of this process."""
    return services()


@dataclass
class Played:
    """What one seed came to."""

    handled: int
    letters: int


def play(seed: int, *, alone: bool = False) -> Played:
    """Play one seed. ``alone`` is one worker for each service, and no faults but those of the cell.

    Raises:
        AssertionError: an invariant or a sum does not hold. A note has the cell, and the command that repeats the seed.
    """
    cell = cell_of(seed)
    try:
        with Run(seed, cell, alone=alone) as run:
            return run.play()
    except BaseException as error:
        error.add_note(f"cell of seed {seed}: {cell}\nagain: {again(seed, alone=alone)}")
        raise


def again(seed: int, *, alone: bool) -> str:
    """Return the command that plays a seed again."""
    return f"python -m tests.simulation.matrix --seeds {seed}-{seed}{' --alone' if alone else ''}"


def faults_of(seed: int, random: Random) -> Faults:
    """Draw up to two kinds of faults. With more of them a run takes longer, and does not find more."""
    kinds = random.sample(RATES, random.choice((0, 1, 1, 2)))
    rates: dict[str, Any] = {kind: random.choice((0.02, 0.1)) for kind in kinds}
    return Faults(seed=seed, survive=random.choice((0.0, 0.0, 0.5)) if "crash" in kinds else 0.0, **rates)


class Run(AbstractContextManager["Run"]):
    """One dialog, from its beginning to its end."""

    def __init__(self, seed: int, cell: Cell, *, alone: bool) -> None:
        self.cell = cell
        self.random = random = Random(f"matrix {seed}")
        self.partitions = random.choice((1, 1, 1, 2))
        faults = Faults(seed=seed) if alone else faults_of(seed, random)
        workers = 1 if alone else random.choice((1, 2))
        self.sim = Simulation(
            *shared(),
            faults=faults,
            workers=workers,
            settings=SETTINGS,
            raise_failures=False,
            partitions=self.partitions,
        )
        self.workers = 0 if alone else workers
        self.conversation = records.drawn(self.sim, random.getrandbits(62))
        self.asked: list[str] = []
        """The texts that commands have asked for."""
        self.discarded: dict[tuple[str, bytes], int] = {}
        """By service and identity: how many envelopes a side says that it has dropped."""

    def __exit__(self, *exc: object) -> None:
        self.sim.__exit__(*exc)

    # -- the course of a run ---------------------------------------------------------------------------------------

    def play(self) -> Played:
        self.begin()
        troubles = self.troubles()
        self.random.shuffle(troubles)
        for trouble in troubles:
            trouble()
            self.moment()
        self.say_more()
        self.finish()
        self.moment()
        self.say_more()
        self.heal()
        self.calm()
        self.check_told()
        if self.cell.limited:
            self.rest(LIFETIME + ASKED)
        self.end_all()
        self.sim.check_invariants()
        return self.check_sums()

    def begin(self) -> None:
        """Begin the dialog; usually its first messages are handled before anything goes wrong."""
        contract = CONTRACTS[self.cell.resend, self.cell.limited]
        begin = Begin("desk", contract.name, 0 if self.cell.limited else -1, "")
        self.ask("caller", begin, *(self.line("caller") for _ in range(self.random.randrange(1, 3))))
        if self.random.random() < 0.9:
            self.sim.run()

    def troubles(self) -> list[Callable[[], None]]:
        """Return what brings the messages into the states of the cell."""
        cell = self.cell
        found: list[Callable[[], None]] = []
        for service, wait in (("desk", cell.to_initiator), ("caller", cell.to_target)):
            if wait is not Wait.NOTHING:
                found.append(lambda service=service, wait=wait: self.let_wait(service, wait))  # type: ignore[misc]
        for service, is_delayed in (("desk", cell.delayed_to_target), ("caller", cell.delayed_to_initiator)):
            if is_delayed:
                found.append(lambda service=service: self.delay(service))  # type: ignore[misc]
        return [*found, self.lose] if cell.breaks else found

    def let_wait(self, sender: str, wait: Wait) -> None:
        """Let a message fail at the peer of a service, and others wait behind it."""
        verb = "hold" if wait is Wait.HELD else self.random.choice(("park", "skip"))
        self.ask(sender, self.line(sender, verb), *(self.line(sender) for _ in range(self.random.randrange(2))))

    def delay(self, service: str) -> None:
        """Let the queue of a service take no records, and let its peer speak."""
        self.sim.broker.forbidden.add(service_topic(self.sim.broker.namespace, service, QUEUE))
        speaker = "caller" if service == "desk" else "desk"
        if self.random.random() < 0.7:
            self.ask(speaker, self.line(speaker))

    def lose(self) -> None:
        """Let a message of the initiator be missing at the target, so long that the target breaks the dialog."""
        topic = service_topic(self.sim.broker.namespace, "desk", QUEUE)

        def is_missing(out: Out) -> bool:
            return out.topic == topic and said(out.value).kind is Kind.MESSAGE

        self.sim.broker.stop = is_missing
        self.ask("caller", self.line("caller"))
        self.sim.run()
        if self.random.random() < 0.5:
            self.sim.broker.stop = lambda _: False
            self.ask("caller", self.line("caller"))
            self.sim.advance(self.random.choice((SECOND, 30 * SECOND)))

    def say_more(self) -> None:
        """Let each side speak, perhaps."""
        for service in SIDES:
            if self.random.random() < 0.4:
                self.ask(service, self.line(service))
        if self.random.random() < 0.5:
            self.moment()

    def finish(self) -> None:
        """Let both sides end the dialog, in the order of the cell."""
        ends = [("caller", self.cell.initiator), ("desk", self.cell.target)]
        if self.cell.first is First.TARGET:
            ends.reverse()
        for service, finish in ends:
            self.finish_of(service, finish)
            if self.cell.first is not First.BOTH:
                self.sim.run()
                self.moment()

    def finish_of(self, service: str, finish: Finish) -> None:
        """Let one side end the dialog: by a command, or by the handler of a message."""
        peer = "desk" if service == "caller" else "caller"
        if finish is Finish.CLEANUP:
            self.ask(service, Cleanup(), Report())
        elif finish is not Finish.NOTHING:
            if self.random.random() < 0.2:
                self.ask(peer, self.line(peer, finish.value))
            else:
                self.ask(service, End() if finish is Finish.END else EndWithError(7, "enough"))

    def heal(self) -> None:
        """Let queues take records again, and missing records arrive. An operator decides, or does not."""
        decision = self.random.choice(("retry", "skip", "end", ""))
        if decision:
            self.sim.run()
            self.decide(decision)
            self.sim.run()
        if decision != "end" and self.may_lose() and self.random.random() < 0.5:
            records.pass_all(self.sim)
        else:
            self.sim.broker.resume()
        self.sim.broker.forbidden.clear()

    def may_lose(self) -> bool:
        """Return True if the missing messages may be lost for good, because the initiator keeps them.

        It does not keep what it sent before an ERROR of its application: the target accepts the ERROR without the messages before it.
        """
        cell = self.cell
        return cell.limited and cell.resend is not Resend.OFF and cell.initiator is not Finish.ERROR

    # -- the end of a run ------------------------------------------------------------------------------------------

    def rest(self, span: timedelta) -> None:
        """Let time pass until nothing moves, and check the invariants."""
        self.sim.advance(span)
        self.note_discarded()
        self.sim.check_invariants()

    def calm(self) -> None:
        """Let the time pass after which every answer has arrived. A queue may refuse by chance, a few times in a row, what was delayed."""
        for _ in range(ROUNDS):
            self.rest(CALM)
            if not any(records.rows_of(self.sim, service, rows.DELAYED) for service in SIDES):
                return

    def check_told(self) -> None:
        """Check that no side waits for an answer of its peer, unless a handler or an operator must act first."""
        waiting = {
            bytes(key[1:18])
            for service in SIDES
            for kind in (rows.PARK, rows.RETRY)
            for key in records.rows_of(self.sim, service, kind)
        }
        for service in SIDES:
            for identity, found in endpoints(self.sim.broker, service).items():
                if isinstance(found, rows.Tombstone) or found.state not in WAITING:
                    continue
                if {identity, rows.other_side(identity)} & waiting:
                    continue
                raise AssertionError(
                    f"invariant 7 (no silent end): {service} waits in state {found.state.name}, and nobody will answer"
                )

    def end_all(self) -> None:
        """Let operators decide about everything that failed, and end all sides that are open. Then all dialogs must be over."""
        for _ in range(ROUNDS):
            if not self.sim.open_dialogs():
                break
            self.decide("skip")
            self.sim.run()
            for service in SIDES:
                for identity, found in endpoints(self.sim.broker, service).items():
                    if not isinstance(found, rows.Tombstone) and found.state not in WAITING:
                        self.command(service, identity[:16], End())
            self.sim.advance(CALM)
        if self.sim.open_dialogs():
            self.sim.advance(ASKED)
        left = [
            f"{service} in state {found.state.name}"
            for service in SIDES
            for found in endpoints(self.sim.broker, service).values()
            if not isinstance(found, rows.Tombstone)
        ]
        if left:
            raise AssertionError(f"invariant 7 (no silent end): both sides have ended, and dialogs are open: {left}")
        self.note_discarded()

    def check_sums(self) -> Played:
        """Check the sums of all messages."""
        places = sums.Places(self.sim.broker)
        dropped: Counter[str] = Counter()
        for (service, _), count in self.discarded.items():
            dropped[SIDES[service]] += count
        sums.check(places, self.asked, dropped)
        return Played(sum(map(len, places.handled.values())), sum(places.letters.values()) + len(places.uncertain))

    def note_discarded(self) -> None:
        """Note the counts of both sides, because a tombstone may be forgotten before the run ends."""
        for service in SIDES:
            for identity, found in endpoints(self.sim.broker, service).items():
                self.discarded[service, identity] = found.discarded

    # -- what clients and operators do ----------------------------------------------------------------------------

    def line(self, service: str, verb: str = "") -> Send:
        """Return the operation that sends the next message of a side."""
        text = f"{SIDES[service]}{len(self.asked)} {verb or self.random.choice(('quiet', 'quiet', 'answer'))}"
        self.asked.append(text)
        return Send("Line", "application/json", b'{"text":"%b"}' % text.encode())

    def ask(self, service: str, *operations: Operation) -> None:
        """Let a client or an operator act on a side of the dialog."""
        self.command(service, self.conversation.bytes, *operations)

    def command(self, service: str, conversation: bytes, *operations: Operation) -> None:
        """Append a command. All dialogs of a run have the key of the first."""
        key = str(self.conversation)
        command = Command(
            self.random.randbytes(16),
            conversation,
            service == "caller",
            key,
            "",
            service,
            self.sim.clock.now(),
            operations,
        )
        self.sim.broker.append_keyed(service, topic_for(command), key.encode(), encode_command(command))

    def decide(self, decision: str) -> None:
        """Let an operator decide about everything that failed and waits."""
        for service in SIDES:
            for it in self.sim.parked(service):
                code, why = (5, "No.") if decision == "end" else (0, "")
                self.sim.decide(it, decision, code=code, description=why)

    def moment(self) -> None:
        """Let a little happen: nothing, a run, some time, or a death."""
        drawn = self.random.random()
        if drawn < 0.3:
            return
        if drawn > 0.9 and self.workers:
            self.sim.crash(self.random.choice(tuple(SIDES)), self.random.randrange(self.workers))
        self.sim.run()
        if drawn > 0.7:
            self.sim.advance(self.random.choice((SECOND / 2, 7 * SECOND)))
