"""One simulation with the two services, and the dialogs that its patterns have begun."""

from __future__ import annotations

from collections import Counter
from contextlib import AbstractContextManager
from datetime import timedelta
from random import Random
from uuid import UUID

from conversations import Contract, WorkerSettings
from conversations.ports import Out
from conversations.protocol import rows
from conversations.protocol.command import (
    Begin,
    Cleanup,
    Operation,
    Report,
    Reuse,
    Send,
    Tick,
    encode_command,
    pool_id,
    to_partition,
    topic_for,
)
from conversations.protocol.command import Command as Asked
from conversations.protocol.endpoint import SECOND
from conversations.protocol.envelope import Kind
from conversations.protocol.topics import QUEUE, STATE, service_topic
from conversations.testing import Faults, Simulation
from conversations.testing.reading import state_of, visible
from conversations.testing.said import said
from tests.leaks.services import TALK, Services
from tests.simulation.support import records

SERVICES = ("caller", "desk")
PARTITIONS = 3
CRASHES = 0.3
"""Probability that a service's worker dies after a pattern."""
SETTINGS = WorkerSettings(patience=timedelta(0), revocation=timedelta(0), deaths=1_000_000, brake=None)
"""Without the brake, which would keep back the attempts when many dialogs fail at once."""
SLOW = 0.02
"""Probability that a handler returns in a later step, so that its message waits as a row."""


class World(AbstractContextManager["World"]):
    """One simulation. The same seed gives the same run."""

    def __init__(self, seed: int) -> None:
        self.services = Services()
        self.random = Random(f"leaks {seed}")
        self.sim = Simulation(
            self.services.caller,
            self.services.desk,
            faults=Faults(seed=seed, slow=SLOW),
            settings=SETTINGS,
            raise_failures=False,
            partitions=PARTITIONS,
        )
        self.patterns: dict[bytes, str] = {}
        """For each conversation that a pattern began, the pattern's name."""
        self.pattern = ""
        """Name of the pattern that begins dialogs now."""

    def __exit__(self, *exc: object) -> None:
        """Stop the workers."""
        self.sim.__exit__(*exc)

    # -- what clients and operators do ------------------------------------------------------------------------------

    def begin(self, contract: Contract, *operations: Operation, group: str = "", key: str = "") -> UUID:
        """Let a client of the caller begin a dialog with the desk. It takes effect in the next ``run``."""
        conversation = records.drawn(self.sim, self.random.getrandbits(62))
        self.patterns[conversation.bytes] = self.pattern
        lives = contract.lives(0)
        begin = Begin("desk", contract.name, -1 if lives is None else 0, group)
        records.command(self.sim, "caller", conversation, begin, *operations, key=key)
        return conversation

    def pool(self, key: str, *sends: Send) -> None:
        """Let a client of the caller send for a key of a pool. Each command gets a dialog of its own, which is replaced after a minute."""
        group, reuse = f"pool:{key}", Reuse("desk", TALK.name, max_age=60 * SECOND, max_messages=1)
        number = self.random.randbytes(16)
        asked = Asked(number, pool_id(group), True, group, "", "ada", self.sim.clock.now(), (reuse, *sends))
        self.sim.broker.append_keyed("caller", topic_for(asked), group.encode(), encode_command(asked))

    def ask(self, conversation: UUID, *operations: Operation) -> None:
        """Let a client of the caller speak on its dialog."""
        records.command(self.sim, "caller", conversation, *operations)

    def ask_desk(self, conversation: UUID, *operations: Operation) -> None:
        """Let a client or an operator of the desk act on the desk's side of a dialog."""
        self._command("desk", conversation, *operations)

    def clean_up(self, service: str, conversation: UUID) -> None:
        """Let an operator close one side without telling the other."""
        self._command(service, conversation, Cleanup(), Report())

    def _command(self, service: str, conversation: UUID, *operations: Operation) -> None:
        name = str(conversation)
        number = self.random.randbytes(16)
        asked = Asked(
            number, conversation.bytes, service == "caller", name, "", "ada", self.sim.clock.now(), operations
        )
        self.sim.broker.append_keyed(service, topic_for(asked), name.encode(), encode_command(asked))

    # -- what goes wrong --------------------------------------------------------------------------------------------

    def lose(self, to: str, *numbers: int, kinds: tuple[Kind, ...] = (Kind.MESSAGE,)) -> None:
        """Stop records to a service: of these kinds, and of these numbers if some are given. ``records.pass_all`` ends it."""
        topic = service_topic(self.sim.broker.namespace, to, QUEUE)

        def check(out: Out) -> bool:
            if out.topic != topic:
                return False
            conversation, _, kind, number = said(out.value)
            return conversation in self.patterns and kind in kinds and (not numbers or number in numbers)

        self.sim.broker.stop = check

    def crash_by_chance(self) -> None:
        """Let workers die, so that the next ones know only the rows."""
        for service in SERVICES:
            if self.random.random() < CRASHES:
                self.sim.crash(service)
        self.sim.run()

    # -- what is there ----------------------------------------------------------------------------------------------

    def calls(self, what: str) -> int:
        """Return how often a handler ran."""
        return self.services.calls[what]

    def rows(self, service: str, kind: bytes) -> int:
        """Return the number of a service's rows of one kind."""
        return len(records.rows_of(self.sim, service, kind))

    def kinds_written(self) -> Counter[str]:
        """Return the number of keys of each kind that were ever written to the state topics."""
        found: Counter[str] = Counter()
        for service in SERVICES:
            topic = service_topic(self.sim.broker.namespace, service, STATE)
            keys = {record.key() or b"" for record in visible(self.sim.broker, topic)}
            found.update(key[:1].decode() for key in keys)
        return found

    def left(self) -> list[str]:
        """Describe each row that a state table has, except the rows of the partition itself."""
        return [
            f"{service}, partition {number}: row {key[:1].decode()} {self._of(key)}"
            for service in SERVICES
            for number, table in enumerate(state_of(self.sim.broker, service))
            for key in table
            if key not in (rows.PARTITION, rows.DECIDED)
        ]

    def _of(self, key: bytes) -> str:
        conversation = key[1:17]
        if key[:1] in (rows.GROUP, rows.COMMAND, rows.LETTER, rows.WAITING, rows.SUCCESSION):
            return repr(key[1:])
        return f"of {self.name_of(conversation)}"

    def name_of(self, conversation: bytes) -> str:
        """Return the id of a conversation and the name of its pattern."""
        return f"{UUID(bytes=conversation)} ({self.patterns.get(conversation, 'begun by a handler or a resend')})"

    def say(self, text: str) -> Send:
        """Return the operation that sends a message."""
        return Send("Say", "application/json", b'{"text":"%b"}' % text.encode())

    def tick(self) -> None:
        """Let log time pass in each partition, by a tick such as a worker writes while its queue is idle and tombstones wait."""
        for service in SERVICES:
            for number in range(PARTITIONS):
                where, name = (number, PARTITIONS), self.random.randbytes(16)
                command = to_partition(where, Tick(), service, name, self.sim.clock.now())
                self.sim.broker.append_keyed(service, topic_for(command), command.key.encode(), encode_command(command))
        self.sim.run()
