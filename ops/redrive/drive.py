"""Carrying out a redrive plan: through the owners of the dialogs, a few letters first, then the rest at a rate."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from enum import StrEnum
from typing import Any

from conversations.config import Kafka
from conversations.errors import LogError
from conversations.kafka.appending import append
from conversations.kafka.commands import CommandProducer
from conversations.kafka.follow import Follower, ends_of, partitions_of
from conversations.ports import Record
from conversations.protocol import rows
from conversations.protocol.command import Action, encode_command
from conversations.protocol.identifiers import uuid_text
from conversations.protocol.parked import NEEDED, Decision, Parked, parked, resolution, row_key
from conversations.protocol.topics import STATE, events_topic, service_topic
from ops.queries.state import tables
from ops.redrive.journal import Journal
from ops.redrive.outcomes import Outcome, after, count
from ops.redrive.plan import Letter, Plan

PATIENCE = 60.0
"""Seconds without any news of what was given back after which nobody seems to be there."""
PROGRESS = 2.0
"""Seconds between two events that tell how far it is."""
SETTLING = 0.3
"""Seconds for an event that belongs to a row to arrive."""
STARTED, PROGRESSED, STOP, ENDED = "REDRIVE_STARTED", "REDRIVE_PROGRESS", "REDRIVE_STOP", "REDRIVE_ENDED"


class End(StrEnum):
    """How a redrive ended."""

    DONE = "done"
    STOPPED = "stopped"
    CANARY_FAILED = "canary failed"
    NO_NEWS = "no news"
    """Nobody answered: are the services running?"""


class Drive:
    """One run of a plan.

    Args:
        kafka: where.
        plan: what.
        journal: what became of its letters before; goes on being written.
        decision: who asked for it, and why.
        tell: called with the outcomes whenever there are new ones.
    """

    def __init__(
        self, kafka: Kafka, plan: Plan, journal: Journal, decision: Decision, tell: Callable[[dict[str, int]], None]
    ) -> None:
        self.kafka, self.plan, self.decision = kafka, plan, decision
        self._journal, self._tell = journal, tell
        done = journal.read()
        self.outcomes = {it.letter: done.get(it.letter, Outcome.OPEN) for it in plan.letters}
        self._found: dict[str, Parked] = {}
        self._by_row: dict[tuple[str, bytes], Parked] = {}
        self._commands: dict[str, str] = {}
        """Letters by the command that gave them back."""
        self._gave_up: set[str] = set()
        """Conversations their owners gave up on since."""
        self._gone: dict[str, float] = {}
        """Letters whose row is gone, and since when: an event may still say why."""
        self._stopped = False
        self._news = self._told = time.monotonic()

    def run(self) -> End:
        """Carry the plan out as far as it goes.

        Raises:
            LogError: Kafka cannot be read or written.
        """
        services = sorted({it.service for it in self.plan.letters})
        topics = [events_topic(self.kafka.namespace)]
        topics += [service_topic(self.kafka.namespace, service, STATE) for service in services]
        with ExitStack() as stack:
            ends = ends_of(self.kafka, partitions_of(self.kafka, topics))
            self._follower = stack.enter_context(Follower(self.kafka, topics, since=ends))
            self._producers = {service: CommandProducer(self.kafka, service) for service in services}
            for producer in self._producers.values():
                stack.callback(producer.close)
            self._find(services)
            self._publish(STARTED, letters=len(self.plan.letters))
            end = End.STOPPED
            try:
                end = self._drive()
            finally:
                self._publish(ENDED, end=end.value)
        return end

    def _drive(self) -> End:
        open_letters = [it for it in self.plan.letters if self.outcomes[it.letter] is Outcome.OPEN]
        proven = sum(it is Outcome.HANDLED for it in self.outcomes.values())
        left = iter(open_letters)
        for it in left:
            if proven >= self.plan.care.canary:
                return self._rest([it, *left])
            outcome = self._try_one(it)
            if self._stopped:
                return End.STOPPED
            if outcome in (Outcome.BACK, Outcome.SENT):
                return End.CANARY_FAILED if outcome is Outcome.BACK else End.NO_NEWS
            proven += outcome is Outcome.HANDLED
        return End.DONE

    def _try_one(self, letter: Letter) -> Outcome:
        self._give(letter)
        while not self.outcomes[letter.letter].final and not self._stopped and self._has_news():
            self._look(0.1)
        return self.outcomes[letter.letter]

    def _rest(self, letters: Sequence[Letter]) -> End:
        pause, due = 1 / self.plan.care.rate, time.monotonic()
        for letter in letters:
            while (wait := due - time.monotonic()) > 0 and not self._stopped:
                self._look(min(wait, 0.1))
            if self._stopped:
                return End.STOPPED
            due += pause
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
        """Look what is there now; letters that changed since the plan was made are left alone."""
        for service in services:
            for number, table in tables(self.kafka, service, NEEDED).items():
                self._found |= {it.letter: it for it in parked(table, service, number)}
        for letter in self.plan.letters:
            it = self._found.get(letter.letter)
            if self.outcomes[letter.letter] is not Outcome.OPEN:
                continue
            if it is None or not it.held or it.ticket != letter.ticket:
                self._settle(letter.letter, Outcome.CHANGED)
            else:
                self._by_row[it.service, row_key(it)] = it

    def _give(self, letter: Letter) -> None:
        it = self._found.get(letter.letter)
        if it is None or self.outcomes[letter.letter] is not Outcome.OPEN:
            return
        command = resolution(it, self.decision, os.urandom(16), time.time_ns() // 1_000)
        self._commands[uuid_text(command.command_id)] = letter.letter
        self.outcomes[letter.letter] = Outcome.SENT
        self._producers[it.service].append(it.key.encode(), encode_command(command))
        self._news = time.monotonic()

    # -- what came of it ---------------------------------------------------------------------------------------------

    def _look(self, timeout: float) -> None:
        for record in self._follower.poll(timeout):
            if record.topic() == events_topic(self.kafka.namespace):
                self._take_event(json.loads(record.value() or b"{}"))
            else:
                self._take_row(record)
        now = time.monotonic()
        for letter in [letter for letter, since in self._gone.items() if now - since >= SETTLING]:
            del self._gone[letter]
            it = self._found[letter]
            self._settle(letter, after(it, None, 0, it.conversation in self._gave_up))
        if now - self._told >= PROGRESS:
            self._publish(PROGRESSED)

    def _take_event(self, event: dict[str, Any]) -> None:
        name, letter = event.get("event"), self._commands.get(str(event.get("command")))
        if name == STOP and event.get("redrive") == self.plan.redrive:
            self._stopped = True
        elif name == "GAVE_UP":
            self._gave_up.add(str(event.get("conversation")))
        elif name == "COMMAND_REFUSED" and letter is not None:
            self._settle(letter, Outcome.CHANGED)

    def _take_row(self, record: Record) -> None:
        service = record.topic().removeprefix(f"{self.kafka.namespace}.").removesuffix(f".{STATE}")
        it = self._by_row.get((service, record.key() or b""))
        if it is None or self.outcomes[it.letter] is not Outcome.SENT:
            return
        value = record.value()
        if value is None:
            self._gone[it.letter] = time.monotonic()
            return
        outcome = after(it, rows.decode_park(value), time.time_ns() // 1_000, it.conversation in self._gave_up)
        if outcome.final:
            self._settle(it.letter, outcome)

    def _settle(self, letter: str, outcome: Outcome) -> None:
        self.outcomes[letter] = outcome
        self._journal.note(letter, outcome)
        self._news = time.monotonic()
        self._tell(count(self.outcomes))

    def _publish(self, name: str, **facts: object) -> None:
        self._told = time.monotonic()
        publish(self.kafka, name, self.plan.redrive, self.decision, outcomes=count(self.outcomes), **facts)


def publish(kafka: Kafka, name: str, redrive: str, decision: Decision, **facts: object) -> None:
    """Report something about a redrive to the events topic.

    Raises:
        LogError: Kafka did not take it.
    """
    content = {
        "event": name, "redrive": redrive, "at": time.time_ns() // 1_000, "by": decision.by, "reason": decision.reason,
        **facts,
    }  # fmt: skip
    append(kafka, events_topic(kafka.namespace), [(redrive.encode(), json.dumps(content).encode())])


def stop(kafka: Kafka, redrive: str, by: str, reason: str) -> None:
    """Ask a redrive to stop, wherever it runs.

    Raises:
        LogError: Kafka did not take it, or no such redrive runs.
    """
    last = next(iter(events_of(kafka, redrive)[-1:]), None)
    if last is None or last["event"] == ENDED:
        raise LogError(f"{redrive} does not run" if last is not None else f"nothing is known of {redrive}")
    publish(kafka, STOP, redrive, Decision(Action.RETRY, by, reason))


def events_of(kafka: Kafka, redrive: str) -> list[dict[str, Any]]:
    """Return what was reported about a redrive so far.

    Raises:
        LogError: the events cannot be read.
    """
    with Follower(kafka, [events_topic(kafka.namespace)]) as follower:
        found = [json.loads(record.value() or b"{}") for record in follower.to_the_end(PATIENCE)]
    return [event for event in found if event.get("redrive") == redrive]
