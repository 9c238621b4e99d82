"""Simulation of whole services in one thread: the real worker and codec, a log in memory, and a clock that the test moves."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from typing import Any

from conversations.bodies import codec_of
from conversations.config import WorkerSettings
from conversations.errors import DeclarationError, LocalError, UnknownService
from conversations.feeds import FeedCounts
from conversations.group_state import GroupState, read_state
from conversations.memory.clock import ManualClock
from conversations.memory.feeding import MemoryFeeder, append_plain
from conversations.memory.group_states import MemoryGroupStates
from conversations.poison import postponed
from conversations.protocol import rows
from conversations.protocol.admission import check_error, check_key, micros
from conversations.protocol.command import Action, Switch, encode_command, to_partition
from conversations.protocol.contract import Contract
from conversations.protocol.endpoint import NEVER
from conversations.protocol.parked import Decision, Parked, parked, resolution
from conversations.protocol.publications import Headers, Text, publication
from conversations.protocol.topics import DECISIONS, transmission_topic
from conversations.reader import Reader
from conversations.sealing import Seals
from conversations.service import Service, as_services
from conversations.testing import bounds, invariants, reading
from conversations.testing.broker import DECIDED, FAR, FaultyBroker
from conversations.testing.faults import LATER, Chance, Faults
from conversations.testing.peer import Peer
from conversations.testing.process_clock import ProcessClock
from conversations.testing.reading import DeadLetter, PublishedRecord
from conversations.testing.runner import Runner
from conversations.testing.wire import Wire
from conversations.worker import Worker

log = logging.getLogger("conversations.testing")

START = datetime(2026, 1, 1, tzinfo=UTC)
PARTITIONS = 3
ANY = 1_000_000
"""Value of the setting ``deaths``. No message causes the simulated deaths. So the value is so high that deaths never end the attempts."""
ENDLESS = 100_000
"""Number of rounds after which a run fails if it has not come to rest."""
GLANCE = 100
"""Number of rounds between two checks of the invariants during a run."""
DEEPEST = 2
"""Maximum number of workers that stand still at the same time.

While one worker stands still, other workers do steps, and one of these workers may stand still too.
"""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Simulation(AbstractContextManager["Simulation"]):
    """Services on a log in memory, with a clock that the test moves. The same arguments give the same run.

    Args:
        services: the services under test.
        now: time at which the clock starts.
        faults: probabilities of faults; without it there are no faults.
        raise_failures: if True, ``run`` raises the failure of a handler: its exception, or the error if its state cannot be kept.
            ``GiveUp`` is raised, too. ``RetryLater`` is no failure, and is never raised. If False, the policy of the message is applied.
        partitions: number of queue partitions of every service.
        settings: settings of every worker.
        workers: number of workers of every service.
        far: names of services that live on another cluster than the others. Records between the two clusters may be lost (``Faults.lose``).

    Raises:
        DeclarationError: a service has no handler for a message type that it may receive, or is no ``Service``. Two services have one
            name. Or ``now`` is no time with a time zone.
    """

    def __init__(
        self,
        *services: Service[Any],
        now: datetime = START,
        faults: Faults | None = None,
        raise_failures: bool = True,
        partitions: int = PARTITIONS,
        settings: WorkerSettings | None = None,
        workers: int = 1,
        far: Collection[str] = (),
    ) -> None:
        self.clock = ManualClock(_micros_of(now))
        self.chance = Chance(faults)
        # No handler runs in another thread, so a step need not wait for handlers.
        self.settings = settings or WorkerSettings(patience=timedelta(0), revocation=timedelta(0), deaths=ANY)
        self.broker = FaultyBroker(self.clock, self.chance, self.settings.periods)
        self.log_clock_there = ProcessClock(self.clock, self.chance)
        """The clock of the brokers of the other cluster."""
        self.there = FaultyBroker(self.log_clock_there, self.chance, self.settings.periods, self.broker.ledger)
        """The broker of the other cluster, with the services ``far``."""
        self._far = frozenset(far)
        for broker in self.brokers:
            broker.seals = None if self.settings.keys is None else Seals(self.settings.keys)
            broker.create_topic(transmission_topic(broker.namespace, FAR), partitions)
        self.wire = Wire(self.broker, self.there, self.chance)
        """The wire between the clusters."""
        self._invariants = invariants.Invariants(self.brokers, self.settings.limits.held_messages)
        self._partitions = partitions
        self._workers = workers
        self._raise_failures = raise_failures
        self._failures: list[BaseException] = []
        self._runners: dict[str, list[Runner]] = {}
        self._feeders: dict[str, list[MemoryFeeder]] = {}
        self._rounds = self._depth = 0
        self._told_missing: set[str] = set()
        self._peers: dict[str, Peer] = {}
        for service in as_services("Simulation", services):
            self.deploy(service)

    def __exit__(self, *exc: object) -> None:
        """Stop every worker cleanly."""
        self.chance.active = False
        self._pass_time_limits()
        for runner in self._everyone():
            runner.close()

    @property
    def brokers(self) -> tuple[FaultyBroker, ...]:
        """The brokers of both clusters."""
        return self.broker, self.there

    def broker_of(self, service: str) -> FaultyBroker:
        """Return the broker of the cluster on which a service lives."""
        return self.there if service in self._far else self.broker

    # -- who takes part -------------------------------------------------------------------------------------

    def deploy(self, service: Service[Any]) -> None:
        """Run a service. If a service with this name runs already, its workers are stopped first. Its log and state stay."""
        runners = self._runners.get(service.name)
        here = self.broker_of(service.name)
        other = self.broker if here is self.there else self.there
        here.create_service(service.name, self._partitions, service.declaration().retries)
        other.add_route(service.name, FAR, self._partitions)
        for topic in (*service.publishes, *service.feeds):
            here.create_topic(topic, self._partitions)
        self._feeders[service.name] = [
            MemoryFeeder(here, service.name, feed, self.settings.limits.record_body, self.failed)
            for feed in service.feeds.values()
        ]
        if runners is None:
            self._runners[service.name] = [Runner(self, service, slot) for slot in range(self._workers)]
            return
        for runner in runners:
            runner.close()
        for runner in runners:
            runner.replace(service)

    def peer(self, service: str, *, accepts: Sequence[Contract] = ()) -> Peer:
        """Return the scripted service with this name; make it on first use."""
        peer = self._peers.get(service)
        if peer is None:
            known = {c.name: c for runner in self._everyone() for c in runner.service.accepts.values()}
            peer = self._peers[service] = Peer(self, service, accepts, list(known.values()))
        else:
            peer.accept(accepts)
        return peer

    def worker(self, service: str, number: int = 0) -> Worker:
        """Return a present worker of the service, for example to read its counts.

        Raises:
            LocalError: there is no such service or worker.
        """
        return self._runner(service, number).worker

    def _runner(self, service: str, number: int = 0) -> Runner:
        if not isinstance(service, str):
            raise LocalError(f"a simulation takes the name of a service, not {service!r:.80}")
        found = self._runners.get(service)
        if found is None:
            known = ", ".join(sorted(self._runners)) or "none"
            raise LocalError(f"no service {service!r} takes part in this simulation; there are: {known}")
        if not 0 <= number < len(found):
            raise LocalError(
                f"service {service!r} has no worker {number}, only workers from 0 to {len(found) - 1}: "
                "Simulation(..., workers=N) sets their number"
            )
        return found[number]

    def _everyone(self) -> list[Runner]:
        return [runner for runners in self._runners.values() for runner in runners]

    # -- time passes ------------------------------------------------------------------------------------------

    def run(self) -> int:
        """Let the workers do steps until none has anything to do now. Return how much was done, 0 if there was nothing to do.

        Raises:
            AssertionError: the workers do not come to rest.
            BaseException: a handler's failure, unless ``raise_failures=False``. ``RetryLater`` is no failure.
        """
        self.chance.renew()
        return self._run()

    def _run(self) -> int:
        done = 0
        for _ in range(ENDLESS):
            moved = self._round()
            self._raise_failure()
            # Late records and hanging transactions may give the workers more to do.
            if not moved and not sum(it.release() for it in self.brokers) and not self._pass_time_limits():
                if not self._pass_hold():
                    self._warn_of_missing()
                    return done
                moved = 1
            done += moved
        raise AssertionError(f"the services are still busy after {ENDLESS} rounds without time passing")

    def _pass_hold(self) -> bool:
        """If receipts wait for other work, and there is no other work, let their time pass. Return False if none wait."""
        until = min((runner.held_until() for runner in self._everyone()), default=NEVER)
        if until == NEVER:
            return False
        self.clock.advance(max(until - self.clock.now(), 0))
        return True

    def _warn_of_missing(self) -> None:
        """Warn of each service that does not take part although others look for it. A failed test shows the warning."""
        missing = set[str]().union(*(it.sought for it in self.brokers)) - self._runners.keys()
        for broker in self.brokers:
            broker.sought.clear()
        for name in sorted(missing - self._told_missing):
            log.warning(
                "no service %r takes part in this simulation, and others look for it: give it to Simulation(...), "
                "or script it with sim.peer(%r, accepts=[...])", name, name,
            )  # fmt: skip
        self._told_missing |= missing

    def _round(self) -> int:
        runners = self._everyone()
        if self.chance.active:
            self.chance.random.shuffle(runners)
        moved = sum(feeder.step() for feeders in self._feeders.values() for feeder in feeders)
        for runner in runners:
            if self.chance.happens(self.chance.faults.crash / 4):
                runner.crash()
                moved += 1
            moved += runner.step()
        moved += self.wire.step()
        now = self.clock.now()
        # Look for more work after all workers have done a step, because a worker may have given up a partition for another worker.
        moved += sum(runner.busy() or runner.next_deadline() <= now for runner in runners)
        moved += self._pass_time_limits(DECIDED)
        self._rounds += 1
        if self.chance.active and not self._rounds % GLANCE:
            self._check(at_rest=False)
        return moved

    def _pass_time_limits(self, probability: float = 1.0) -> int:
        """Decide hanging transactions and remove dead members of both clusters, each with this probability. Return the total number."""
        return sum(it.pass_time_limits(probability) for it in self.brokers)

    def meanwhile(self) -> None:
        """Let the other workers do a few steps while one worker stands still within its step."""
        if self._depth >= DEEPEST:
            return
        self._depth += 1
        try:
            for _ in range(self.chance.random.randrange(1, 4)):
                for runner in self._everyone():
                    if not runner.stepping:
                        runner.step()
        finally:
            self._depth -= 1

    def advance(self, by: timedelta) -> int:
        """Let time pass, and run at every deadline on the way. Return how much was done.

        Raises:
            LocalError: ``by`` is negative.
        """
        until = self.clock.now() + micros(by, "advance")
        done = self.run()
        while (now := self.clock.now()) < until:
            runners = self._everyone()
            soonest = min((runner.next_deadline() for runner in runners), default=NEVER)
            stride = now + self.settings.periods.tick_after if any(runner.remembers() for runner in runners) else NEVER
            self.clock.advance(max(min(soonest, stride, until) - now, 0))
            self.chance.renew(LATER)
            done += self._run()
        return done

    def crash(self, service: str, number: int = 0) -> None:
        """Kill a worker of a service between two steps, and start another. Memory is lost, the log stays.

        Raises:
            LocalError: there is no such service or worker.
        """
        self._runner(service, number).crash()

    def set_clock_off(self, service: str, by: timedelta, number: int = 0) -> None:
        """Set the clock of a worker's machine ahead of the true time by this much. A negative value sets it behind.

        Raises:
            LocalError: there is no such service or worker.
        """
        self._runner(service, number).clock.set_off(by)

    def failed(self, failure: BaseException) -> None:
        """Note the failure of a handler. ``run`` raises it, unless ``raise_failures=False``, or the handler asked to be called later."""
        if postponed(failure) is not None:
            return
        if isinstance(failure, UnknownService):
            failure.add_note("In a simulation: give the service to Simulation(...), or script it with sim.peer(...).")
        self._failures.append(failure)

    def _raise_failure(self) -> None:
        failures, self._failures = self._failures, []
        if failures and self._raise_failures:
            raise failures[0]

    # -- results ------------------------------------------------------------------------------------------------

    def dead_letters(self, service: str) -> list[DeadLetter]:
        """Return the dead letters of a service, oldest first in each partition.

        Raises:
            LocalError: there is no such service.
        """
        name = self._runner(service).service.name
        return reading.dead_letters(self.broker_of(name), name)

    def feed(self, topic: str, key: Text | None, value: Text | None, *, headers: Headers | None = None) -> None:
        """Append a record to a plain topic, as another program does. In the next ``run`` it begins a dialog; see ``Service.from_topic``.

        A record without a key goes to any partition. Texts become UTF-8.

        Raises:
            LocalError: no service of this simulation reads the topic, or an argument has a wrong type (9615).
            BodyTooLarge: the record has more than 1,000,000 bytes (8459).
        """
        append_plain(self._broker_with(topic), topic, publication(topic, key, value, headers))

    def feed_counts(self, service: str, topic: str) -> FeedCounts:
        """Return how many records of a topic began a dialog, were skipped or became dead letters, since the service was deployed.

        Raises:
            LocalError: there is no such service, or it does not read the topic.
        """
        feeders = self._feeders[self._runner(service).service.name]
        found = next((feeder for feeder in feeders if feeder.feed.topic == topic), None)
        if found is None:
            raise LocalError(f"service {service!r} does not read from {topic!r:.80}")
        return found.counts

    def published(self, topic: str) -> list[PublishedRecord]:
        """Return the committed records of a plain topic, oldest first in each partition. The topic has as many partitions as a service.

        Raises:
            LocalError: no service of this simulation publishes to the topic.
        """
        known = sorted({name for runner in self._everyone() for name in runner.service.publishes})
        if topic not in known:
            raise LocalError(f"no service publishes to {topic!r:.80}; there are: {', '.join(known) or 'none'}")
        return reading.published(self._broker_with(topic), topic)

    def _broker_with(self, topic: str) -> FaultyBroker:
        """Return the broker of the cluster with a plain topic."""
        return self.there if topic in self.there.topics else self.broker

    def state(self, service: str, group: str, *, begun_by: str | None = None) -> GroupState | None:
        """Return the committed state of a conversation group; None if it has none. The arguments are those of ``Client.state``.

        Raises:
            LocalError: there is no such service, or ``group`` is not a valid key.
        """
        check_key(group)
        found = self._runner(service).service
        return read_state(MemoryGroupStates(self.broker_of(service), service), found.state, group, begun_by)

    def reader(self, service: str) -> Reader[Any]:
        """Return a reader for the dialogs of a service. In a simulation time stands still: use ``dialog`` after ``run``, and not ``wait``.

        Raises:
            LocalError: there is no such service.
        """
        found = self._runner(service).service
        return Reader.over(found, MemoryGroupStates(self.broker_of(service), service), self.settings.periods)

    def parked(self, service: str) -> list[Parked]:
        """Return the failed messages, and the failed handlers without a message, that wait for an attempt or for a decision.

        Raises:
            LocalError: there is no such service.
        """
        tables = reading.state_of(self.broker_of(service), self._runner(service).service.name)
        return [it for number, table in enumerate(tables) for it in parked(table, service, number)]

    def decide(
        self, it: Parked, action: str | Decision, *, body: object = None, code: int = 0, description: str = ""
    ) -> None:
        """Decide about a parked message, as an operator does: ``sim.decide(sim.parked("orders")[0], "retry")``.

        The decision takes effect in the next ``run``.

        Args:
            it: an element of ``parked``.
            action: ``"retry"``, ``"edit"`` (try again with another body), ``"skip"``, or ``"end"`` (end the dialog with an error).
            body: the new body, only for ``"edit"``: an object of the message's class, or the bytes of a body.
            code: positive code of the error, only for ``"end"``.
            description: text of the error, only for ``"end"``.

        Raises:
            LocalError: an argument is not valid.
            NotInContract, WrongDirection, InvalidBody: the body does not fit the message type.
        """
        if not isinstance(it, Parked):
            raise LocalError(f'decide takes an element of sim.parked("..."), not {it!r:.80}')
        if not isinstance(action, Decision):
            action = self._decision(it, action, body, code, description)
        command = resolution(it, action, self.chance.random.randbytes(16), self.clock.now())
        self.broker_of(it.service).append_keyed(it.service, DECISIONS, it.key.encode(), encode_command(command))

    def _decision(self, it: Parked, action: str, body: object, code: int, description: str) -> Decision:
        found = next((each for each in Action if each.lower() == str(action).lower()), None)
        if found is None:
            known = ", ".join(repr(each.lower()) for each in Action)
            raise LocalError(f"an operator decides {known}, not {action!r:.80}")
        if (body is not None) != (found is Action.EDIT):
            raise LocalError(
                'only the decision "edit" takes a body, and it needs one: sim.decide(it, "edit", body=...)'
            )
        if found is Action.END:
            check_error(code, description)
        if body is not None and not isinstance(body, bytes):
            side = self.worker(it.service).context.sides[it.contract, it.initiator]
            body = codec_of(side.contract.outgoing(body, it.what, not it.initiator)).encode(body)
        return Decision(found, "operator", "test", body if isinstance(body, bytes) else b"", code, description)

    def turn_queue(self, service: str, *, on: bool, by: str = "operator", reason: str = "test") -> None:
        """Turn the queue of a service on or off in every partition, as an operator does. This takes effect in the next ``run``.

        Raises:
            LocalError: there is no such service.
        """
        self._runner(service)
        for number in range(self._partitions):
            where, number_of_command = (number, self._partitions), self.chance.random.randbytes(16)
            command = to_partition(where, Switch(on, reason), by, number_of_command, self.clock.now())
            self.broker_of(service).append_keyed(service, DECISIONS, command.key.encode(), encode_command(command))

    def open_dialogs(self) -> list[str]:
        """Return the ids of dialogs that are not over on both sides."""
        return sorted({
            invariants.name_of(identity[:16])
            for service in self._runners
            for identity, found in reading.endpoints(self.broker_of(service), service).items()
            if not isinstance(found, rows.Tombstone)
        })  # fmt: skip

    def check_invariants(self) -> None:
        """Check the invariants that must hold whenever the services are at rest.

        Raises:
            AssertionError: an invariant does not hold. The message has the number of the invariant, and the facts.
        """
        self._check(at_rest=True)
        for runner in self._everyone():
            bounds.check_at_rest(runner.worker)

    def check_forgotten(self) -> None:
        """Check that no worker has anything of its dialogs in memory, after every dialog is over and its tombstones are deleted.

        Raises:
            AssertionError: a worker still keeps something; the message names it.
        """
        for runner in self._everyone():
            bounds.check_forgotten(runner.worker)

    def _check(self, *, at_rest: bool) -> None:
        sides = {name: runners[0].worker.context.sides for name, runners in self._runners.items()}
        self._invariants.check(sides, at_rest=at_rest)


def _micros_of(now: object) -> int:
    if not isinstance(now, datetime) or now.tzinfo is None:
        raise DeclarationError(
            f"now is a datetime with a time zone, for example datetime(2026, 1, 1, tzinfo=UTC), not {now!r:.80}"
        )
    return (now - _EPOCH) // timedelta(microseconds=1)
