"""Carries out a redrive plan by commands to the owners of the dialogs: a few letters first, then the rest at a limited rate."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from enum import StrEnum
from functools import partial

from conversations.config import Kafka
from conversations.errors import LogError, NotAccepted
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
from conversations.protocol.parked import NEEDED, Decision, Parked, resolution
from conversations.protocol.topics import events_topic
from conversations_ops.operate.events import understood
from conversations_ops.operate.parked import parked_in
from conversations_ops.operate.redrive.journal import Entry, Journal
from conversations_ops.operate.redrive.outcomes import OF_EVENT, Outcome, count
from conversations_ops.operate.redrive.plan import Plan, PlannedLetter
from conversations_ops.operate.state import PATIENCE as READING
from conversations_ops.operate.state import tables

PATIENCE = 60.0
"""Seconds that a run waits for the next answer. Then the run ends."""
PROGRESS = 2.0
"""Seconds between two progress events."""


class End(StrEnum):
    """How a redrive ended."""

    DONE = "done"
    STOPPED = "stopped"
    CANARY_FAILED = "canary failed"
    NO_NEWS = "no news"
    """No answer: the service does not run, its queue is off, or the handler asked for a later attempt."""


class Drive:
    """One run of a plan.

    Args:
        kafka: the cluster and namespace.
        plan: the letters, and the pace.
        journal: outcomes of earlier runs; this run adds its outcomes.
        decision: who asked for the redrive, and why.
        tell: called after each new outcome, with the number of letters for each outcome.
    """

    def __init__(
        self, kafka: Kafka, plan: Plan, journal: Journal, decision: Decision, tell: Callable[[dict[str, int]], None]
    ) -> None:
        self.kafka, self.plan, self.decision = kafka, plan, decision
        self._journal, self._tell = journal, tell
        done = journal.read()
        known = {it.letter: done.get(it.letter, Entry(Outcome.OPEN)) for it in plan.letters}
        self.outcomes = {letter: entry.outcome for letter, entry in known.items()}
        self._known = dict(self.outcomes)
        self._commands = {entry.command: letter for letter, entry in known.items() if entry.command}
        """Letter of each command, by the id of the command."""
        self._found: dict[str, Parked] = {}
        self._stopped = False
        self._news = self._told = time.monotonic()

    def run(self) -> End:
        """Carry out the plan, and return how the run ended.

        Raises:
            LogError: Kafka cannot be read or written.
        """
        services = sorted({it.service for it in self.plan.letters})
        topic = events_topic(self.kafka.namespace)
        with ExitStack() as stack:
            # If an earlier run sent commands, read all events, because answers may have come after the earlier run ended.
            since = None if self._commands else ends_of(self.kafka, partitions_of(self.kafka, [topic]))
            self._follower = stack.enter_context(Follower(self.kafka, [topic], since=since))
            self._producers = {service: CommandProducer(self.kafka, service) for service in services}
            for producer in self._producers.values():
                stack.callback(producer.close)
            if self._commands:
                self._take(understood(self._follower.to_the_end(READING)), stops=False)
            self._find(services)
            self._publish(partial(RedriveStarted, letters=len(self.plan.letters)))
            end = End.STOPPED
            try:
                end = self._drive()
            finally:
                self._publish(partial(RedriveEnded, end=end.value))
        return end

    def halt(self) -> None:
        """Let the run end soon, as if it were asked to stop. Another thread may call this."""
        self._stopped = True

    def _drive(self) -> End:
        if not self._await_sent():
            return End.CANARY_FAILED
        left = iter([it for it in self.plan.letters if self.outcomes[it.letter] is Outcome.OPEN])
        proven = sum(it is Outcome.HANDLED for it in self.outcomes.values())
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
        before = sum(it is Outcome.BACK for it in self._known.values())
        while any(it is Outcome.SENT for it in self.outcomes.values()) and not self._stopped and self._has_news():
            self._look(0.1)
        failed = sum(it is Outcome.BACK for it in self.outcomes.values()) - before
        return not failed or sum(it is Outcome.HANDLED for it in self.outcomes.values()) >= self.plan.care.canary

    def _try_one(self, letter: PlannedLetter) -> Outcome:
        self._give(letter)
        while not self.outcomes[letter.letter].final and not self._stopped and self._has_news():
            self._look(0.1)
        return self.outcomes[letter.letter]

    def _rest(self, letters: Sequence[PlannedLetter]) -> End:
        pause, due = 1 / self.plan.care.rate, time.monotonic()
        for letter in letters:
            while (wait := due - time.monotonic()) > 0 and not self._stopped:
                self._look(min(wait, 0.1))
            if self._stopped:
                return End.STOPPED
            due = max(due, time.monotonic()) + pause
            self._give(letter)
            self._look(0)
        while any(it is Outcome.SENT for it in self.outcomes.values()) and not self._stopped:
            if not self._has_news():
                return End.NO_NEWS
            self._look(0.1)
        return End.STOPPED if self._stopped else End.DONE

    def _has_news(self) -> bool:
        return time.monotonic() - self._news < PATIENCE

    # -- giving back -------------------------------------------------------------------------------------------------

    def _find(self, services: Iterable[str]) -> None:
        """Read the parked messages, and record the letters that changed after the plan was made. Changed letters are not given back."""
        for service in services:
            for number, table in tables(self.kafka, service, NEEDED).items():
                self._found |= {it.letter: it for it in parked_in(table, self.kafka, service, number)}
        for letter in self.plan.letters:
            it = self._found.get(letter.letter)
            changed = it is None or not it.held or it.ticket != letter.ticket
            if changed and self.outcomes[letter.letter] is Outcome.OPEN:
                self._record(letter.letter, Outcome.CHANGED)
            elif not changed and self.outcomes[letter.letter] is Outcome.SENT:
                # The letter is unchanged, so the earlier command is lost or still on its way. Give the letter back again.
                # Both commands have the same ticket, so only one of them takes effect.
                self.outcomes[letter.letter] = Outcome.OPEN

    def _give(self, letter: PlannedLetter) -> None:
        it = self._found.get(letter.letter)
        if it is None or self.outcomes[letter.letter] is not Outcome.OPEN:
            return
        command = resolution(it, self.decision, os.urandom(16), _now())
        name = uuid_text(command.command_id)
        self._commands[name] = letter.letter
        self.outcomes[letter.letter] = Outcome.SENT
        self._journal.note(letter.letter, Outcome.SENT, name)
        try:
            self._producers[it.service].append(it.key.encode(), encode_command(command))
        except NotAccepted as error:
            self._journal.note(letter.letter, Outcome.OPEN)
            raise LogError(str(error)) from error
        self._news = time.monotonic()

    # -- outcomes ---------------------------------------------------------------------------------------------------

    def _look(self, timeout: float) -> None:
        self._take(understood(self._follower.poll(timeout)), stops=True)
        if time.monotonic() - self._told >= PROGRESS:
            self._publish(RedriveProgress)

    def _take(self, events: Iterable[Event], *, stops: bool) -> None:
        for event in events:
            if isinstance(event, RedriveStop) and event.redrive == self.plan.redrive:
                self._stopped = self._stopped or stops
            elif isinstance(event, Returned | CommandRefused):
                self._hear(event)

    def _hear(self, event: Returned | CommandRefused) -> None:
        letter = self._commands.get(event.command)
        outcome = OF_EVENT.get(event.outcome) if isinstance(event, Returned) else Outcome.CHANGED
        if letter is not None and outcome is not None and not self.outcomes[letter].final:
            self._record(letter, outcome)

    def _record(self, letter: str, outcome: Outcome) -> None:
        self.outcomes[letter] = outcome
        self._journal.note(letter, outcome)
        self._news = time.monotonic()
        self._tell(count(self.outcomes))

    def _publish(self, event: Callable[[str, int, str, str, Mapping[str, int]], RedriveCounts]) -> None:
        self._told = time.monotonic()
        by, reason = self.decision.by, self.decision.reason
        _publish(self.kafka, event(self.plan.redrive, _now(), by, reason, count(self.outcomes)))


def _now() -> int:
    return time.time_ns() // 1_000


def _publish(kafka: Kafka, event: RedriveEvent) -> None:
    append(kafka, events_topic(kafka.namespace), [(event.redrive.encode(), encode_tool_event(event))])


def stop(kafka: Kafka, redrive: str, by: str, reason: str) -> None:
    """Ask a redrive to stop. The redrive may run on any machine.

    Raises:
        LogError: Kafka did not accept the event, there is no such redrive, or the redrive has ended.
    """
    last = next(iter(events_of(kafka, redrive)[-1:]), None)
    if last is None or isinstance(last, RedriveEnded):
        raise LogError(f"{redrive} does not run" if last is not None else f"there is no redrive {redrive}")
    _publish(kafka, RedriveStop(redrive, _now(), by, reason))


def events_of(kafka: Kafka, redrive: str) -> list[RedriveEvent]:
    """Return all events about a redrive so far.

    Raises:
        LogError: the events cannot be read.
    """
    return [event for event in all_events(kafka) if event.redrive == redrive]


def all_events(kafka: Kafka) -> list[RedriveEvent]:
    """Return the events about all redrives of a namespace so far.

    Raises:
        LogError: the events cannot be read.
    """
    with Follower(kafka, [events_topic(kafka.namespace)]) as follower:
        found = understood(follower.to_the_end(PATIENCE))
    return [event for event in found if isinstance(event, RedriveEvent)]
