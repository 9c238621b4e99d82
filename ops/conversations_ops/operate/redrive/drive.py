"""Carries out a redrive plan by commands to the owners of the dialogs: a few letters first, then the rest at a limited rate."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import NamedTuple

from conversations.config import Kafka
from conversations.kafka.appending import append
from conversations.kafka.commands import CommandProducer
from conversations.kafka.follow import Follower
from conversations.kafka.offsets import ends_of, partitions_of
from conversations.protocol.command import encode_command
from conversations.protocol.events import (
    CommandRefused,
    Event,
    RedriveCounts,
    RedriveEnded,
    RedriveEvent,
    RedriveProgress,
    RedriveStarted,
    RedriveStop,
    Returned,
    encode_tool_event,
)
from conversations.protocol.identifiers import uuid_text
from conversations.protocol.parked import Decision, Parked, resolution
from conversations.protocol.topics import DECISIONS, events_topic
from conversations_ops.operate.commands import await_all
from conversations_ops.operate.events import understood
from conversations_ops.operate.notes import note
from conversations_ops.operate.redrive.journal import Entry, Journal, TakenOver
from conversations_ops.operate.redrive.outcomes import OF_EVENT, End, Outcome, Outcomes
from conversations_ops.operate.redrive.plan import Plan, PlannedLetter
from conversations_ops.operate.redrive.selection import group_of
from conversations_ops.operate.state import PATIENCE as READING

PATIENCE = 60.0
"""Seconds that a run waits for the next answer. Then the run ends."""
PROGRESS = 2.0
"""Seconds between two progress events."""
TOGETHER = 0.05
"""Letters of so many seconds are given back together, so that a high rate does not wait for the journal at each letter."""
MANY = 500
"""Maximum number of letters that are given back together."""


class Stop(NamedTuple):
    """Who lets a run end, and why."""

    by: str
    reason: str


class Drive:
    """One run of a plan.

    Args:
        kafka: the cluster and namespace.
        plan: the letters, and the pace.
        journal: outcomes of earlier runs; this run adds its outcomes.
        decision: who asked for the redrive, and why.
        find: returns the messages that are parked now.
        tell: called after new outcomes, with the number of letters for each outcome.
    """

    def __init__(
        self,
        kafka: Kafka,
        plan: Plan,
        journal: Journal,
        decision: Decision,
        find: Callable[[], Iterable[Parked]],
        tell: Callable[[dict[str, int]], None],
    ) -> None:
        self.kafka, self.plan, self.decision = kafka, plan, decision
        self._journal, self._find, self._tell = journal, find, tell
        self.outcomes = Outcomes({it.letter: Outcome.OPEN for it in plan.letters})
        self._known: Mapping[str, Entry] = {}
        """What earlier runs have written."""
        self._commands: dict[str, str] = {}
        """Letter of each command, by the id of the command."""
        self._found: Mapping[str, Parked] = {}
        self._stopped: Stop | None = None
        self._news = self._told = time.monotonic()

    def run(self) -> End:
        """Carry out the plan, and return how the run ended.

        Raises:
            LogError: Kafka cannot be read or written.
        """
        try:
            self._journal.begin(self.decision.by, self.decision.reason, _now())
            self._recall()
            return self._run()
        except TakenOver:
            return End.TAKEN_OVER

    def _recall(self) -> None:
        """Take what earlier runs have written."""
        entries = self._journal.history.entries
        self._known = {letter: entries.get(letter, Entry(Outcome.OPEN)) for letter in self.outcomes}
        self.outcomes = Outcomes({letter: entry.outcome for letter, entry in self._known.items()})
        self._commands = {entry.command: letter for letter, entry in self._known.items() if entry.command}

    def _run(self) -> End:
        services = sorted({it.service for it in self.plan.letters})
        topic = events_topic(self.kafka.namespace)
        with ExitStack() as stack:
            # If an earlier run sent commands, read all events, because answers may have come after the earlier run ended.
            since = None if self._commands else ends_of(self.kafka, partitions_of(self.kafka, [topic]))
            self._follower = stack.enter_context(Follower(self.kafka, [topic], since=since))
            self._producers = {service: CommandProducer(self.kafka, service, DECISIONS) for service in services}
            for producer in self._producers.values():
                stack.callback(producer.close)
            if self._commands:
                self._take(understood(self._follower.to_the_end(READING)), stops=False)
            self._compare()
            self._publish(partial(RedriveStarted, letters=len(self.plan.letters)))
            end = End.STOPPED
            try:
                end = self._drive()
            except TakenOver:
                end = End.TAKEN_OVER
            except BaseException as error:
                self._stopped = Stop(self.decision.by, f"the run was interrupted ({type(error).__name__})")
                raise
            else:
                self._note_mended(end)
            finally:
                if end is not End.TAKEN_OVER:  # the other run tells how the redrive goes on
                    self._publish_end(end)
        return end

    def _note_mended(self, end: End) -> None:
        about = group_of(self.plan.selector)
        number = self.outcomes.number
        if end is End.DONE and about is not None and number(Outcome.HANDLED) and not number(Outcome.BACK):
            note(self.kafka, about, self.decision.by, f"{self.plan.redrive}: {self.decision.reason}", mended=True)

    @property
    def stopped(self) -> Stop | None:
        """Who let the run end, and why; None if nobody did."""
        return self._stopped

    def halt(self) -> None:
        """Let the run end soon, as if it were asked to stop, because its process ends. Another thread may call this."""
        self._stopped = self._stopped or Stop(self.decision.by, "the process of the run ended")

    def _drive(self) -> End:
        if not self._await_sent():
            return End.CANARY_FAILED
        left = iter([it for it in self.plan.letters if self.outcomes[it.letter] is Outcome.OPEN])
        proven = self.outcomes.number(Outcome.HANDLED)
        for it in left:
            if proven >= self.plan.care.canary:
                return self._rest([it, *left])
            outcome = self._try_one(it)
            if self._stopped:
                return End.STOPPED
            if outcome is Outcome.BACK:
                return End.CANARY_FAILED
            if not outcome.final:
                return End.NO_NEWS
            proven += outcome is Outcome.HANDLED
        return self._rest([])

    def _await_sent(self) -> bool:
        """Wait for the answers to commands of an earlier run. Return False if a canary letter failed."""
        before = sum(it.outcome is Outcome.BACK for it in self._known.values())
        while self.outcomes.number(Outcome.SENT) and not self._stopped and self._has_news():
            self._look(0.1)
        failed = self.outcomes.number(Outcome.BACK) - before
        return not failed or self.outcomes.number(Outcome.HANDLED) >= self.plan.care.canary

    def _try_one(self, letter: PlannedLetter) -> Outcome:
        self._give([letter])
        while not self.outcomes[letter.letter].final and not self._stopped and self._has_news():
            self._look(0.1)
        return self.outcomes[letter.letter]

    def _rest(self, letters: Sequence[PlannedLetter]) -> End:
        pause, due = 1 / self.plan.care.rate, time.monotonic()
        together = max(1, min(MANY, int(self.plan.care.rate * TOGETHER)))
        for at in range(0, len(letters), together):
            some = letters[at : at + together]
            while (wait := due - time.monotonic()) > 0 and not self._stopped:
                self._look(min(wait, 0.1))
            if self._stopped:
                return End.STOPPED
            due = max(due, time.monotonic()) + pause * len(some)
            self._give(some)
            self._look(0)
        while self.outcomes.number(Outcome.SENT) and not self._stopped:
            if not self._has_news():
                return End.NO_NEWS
            self._look(0.1)
        return End.STOPPED if self._stopped else End.DONE

    def _has_news(self) -> bool:
        return time.monotonic() - self._news < PATIENCE

    # -- giving back -------------------------------------------------------------------------------------------------

    def _compare(self) -> None:
        """Read the parked messages, and record the letters that changed after the plan was made. Changed letters are not given back."""
        self._found = {it.letter: it for it in self._find() if it.letter in self.outcomes}
        gone: dict[str, Outcome] = {}
        for letter in self.plan.letters:
            it = self._found.get(letter.letter)
            changed = it is None or not it.held or it.ticket != letter.ticket
            if changed and self.outcomes[letter.letter] is Outcome.OPEN:
                gone[letter.letter] = Outcome.CHANGED
            elif not changed and self.outcomes[letter.letter] is Outcome.SENT:
                # The letter is unchanged, so the earlier command is lost or still on its way. Give the letter back again.
                # Both commands have the same ticket, so only one of them takes effect.
                self.outcomes.note(letter.letter, Outcome.OPEN)
        self._record(gone)

    def _give(self, letters: Iterable[PlannedLetter]) -> None:
        found = [self._found[it.letter] for it in letters if self.outcomes[it.letter] is Outcome.OPEN]
        commands = {it.letter: resolution(it, self.decision, os.urandom(16), _now()) for it in found}
        names = {letter: uuid_text(command.command_id) for letter, command in commands.items()}
        self._journal.send(names)
        self._commands |= {name: letter for letter, name in names.items()}
        # All letters of a key are appended together, and have one future, because a future costs 28 us.
        together: dict[tuple[str, str], list[bytes]] = {}
        for it in found:
            self.outcomes.note(it.letter, Outcome.SENT)
            together.setdefault((it.service, it.key), []).append(encode_command(commands[it.letter]))
        await_all(
            [self._producers[service].append_async(key.encode(), values) for (service, key), values in together.items()]
        )
        self._news = time.monotonic()

    # -- outcomes ---------------------------------------------------------------------------------------------------

    def _look(self, timeout: float) -> None:
        self._take(understood(self._follower.poll(timeout)), stops=True)
        if time.monotonic() - self._told >= PROGRESS:
            self._publish(RedriveProgress)

    def _take(self, events: Iterable[Event], *, stops: bool) -> None:
        heard: dict[str, Outcome] = {}
        for event in events:
            if isinstance(event, RedriveStop) and event.redrive == self.plan.redrive:
                self._stopped = self._stopped or (Stop(event.by, event.reason) if stops else None)
            elif isinstance(event, Returned | CommandRefused):
                letter = self._commands.get(event.command)
                outcome = OF_EVENT.get(event.outcome) if isinstance(event, Returned) else Outcome.CHANGED
                if letter is not None and outcome is not None and not self.outcomes[letter].final:
                    heard.setdefault(letter, outcome)
        self._record(heard)

    def _record(self, outcomes: Mapping[str, Outcome]) -> None:
        if not outcomes:
            return
        for letter, outcome in outcomes.items():
            self.outcomes.note(letter, outcome)
        self._journal.note(outcomes)
        self._news = time.monotonic()
        self._tell(self.outcomes.counts())

    def _publish(self, event: Callable[[str, int, str, str, Mapping[str, int]], RedriveCounts]) -> None:
        self._told = time.monotonic()
        by, reason = self.decision.by, self.decision.reason
        _publish(self.kafka, event(self.plan.redrive, _now(), by, reason, self.outcomes.counts()))

    def _publish_end(self, end: End) -> None:
        """Tell the end. After a stop, it has the name and the reason of who stopped the run."""
        started = Stop(self.decision.by, self.decision.reason)
        by, why = self._stopped if self._stopped and end is End.STOPPED else started
        counts = self.outcomes.counts()
        _publish(self.kafka, RedriveEnded(self.plan.redrive, _now(), by, why, counts, end.value))


def _now() -> int:
    return time.time_ns() // 1_000


def _publish(kafka: Kafka, event: RedriveEvent) -> None:
    append(kafka, events_topic(kafka.namespace), [(event.redrive.encode(), encode_tool_event(event))])


def stop(kafka: Kafka, redrive: str, by: str, reason: str) -> None:
    """Ask a redrive to stop. The redrive may run on any machine.

    Raises:
        LogError: Kafka did not accept the event.
    """
    _publish(kafka, RedriveStop(redrive, _now(), by, reason))
