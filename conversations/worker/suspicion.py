"""Finding the record that kills the process: after an unclean start, earlier records run only once announced.

A start is unclean when the partition was not given back in order. Then the last process may have died of one of its records. All
records from before the start are **suspect**. A suspect is **announced** before it is decoded (``taking``), and again before it is carried
out: its name is written into the partition's row, and committed.

    suspect --> wanted --commit begins--> flying --committed--> allowed --it has its turn--> finished
                                                                   |
                                                                   '-- the process dies: its name is found in the row

The next process finds the names. A record that was announced when a process died has its turn **alone**: no other suspect of the process
runs beside it (``stage``). A death alone is charged to it. After ``settings.deaths`` such deaths it is given up on without being tried,
by its policy. Should processes die even of that, it is set aside.

Records that arrive after the start are not suspect. They run as always, and pay one comparison.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from conversations.errors import ProcessDied
from conversations.ports import Record
from conversations.protocol.partition_row import PartitionRow
from conversations.worker.active import Item, Lane
from conversations.worker.stage import Stage
from conversations.worker.taking import Taking, first_of
from conversations.worker.taking import name_of as name_of_untaken

TOGETHER = 64
"""How many are announced at a time, while none of them is known to have been there when a process died."""


class Suspicion:
    """What of a partition may run after an unclean start."""

    def __init__(self, row: PartitionRow, stage: Stage, limit: int) -> None:
        self._row, self._stage, self._limit = row, stage, limit
        self.left = 0
        """Suspects that have not had their turn."""
        self.alone = False
        """The announced record has its turn alone."""
        self.taking = Taking()
        self.unspilled: set[Lane] = set()
        """Lanes that wait for their turn, and got something since they were last kept as rows."""
        self._waiting: deque[Lane] = deque()
        self._wanted: dict[str, Lane] = {}
        """To be announced with the next commit."""
        self._flying: dict[str, Lane] = {}
        """Announced by the commit under way."""
        self._coming: list[Lane] = []
        """Whose head may run now."""
        self._allowed: set[str] = set()
        """Announced, and not finished."""
        if row.process != stage.process:
            for name in row.announced:
                row.deaths[name] = row.deaths.get(name, 0) + row.alone
        row.announce([], alone=False)
        row.hand_over(stage.process)
        stage.enter(self)

    @property
    def busy(self) -> bool:
        """Something is announced, or about to be."""
        return bool(self._allowed or self._wanted or self._flying or self.taking.busy)

    @property
    def stirring(self) -> bool:
        """The next step has something to do for it."""
        return bool(self._wanted or self._coming or self._waiting or self.taking.busy or self.taking.commands)

    def go_alone(self) -> None:
        """The next announced record has its turn alone in the process."""
        self.alone = True

    def mark(self, item: Item) -> None:
        """Put an item under suspicion."""
        item.doubt()
        self.left += 1

    def take_unspilled(self) -> set[Lane]:
        """Take out the lanes that wait, and got something since they were last kept as rows."""
        unspilled, self.unspilled = self.unspilled, set()
        return unspilled

    # -- records nobody has looked into --------------------------------------------------------------------------------

    def may_take(self, record: Record) -> bool:
        """Say whether a record from before the start may be decoded."""
        return name_of_untaken(record) in self.taking.allowed

    def killed_untaken(self, record: Record) -> str:
        """Say why a record is not decoded at all, because too many processes died of it; empty for all others."""
        deaths = self._row.deaths.get(name_of_untaken(record), 0)
        return f"{deaths} processes died while it was taken, and nothing else" if deaths >= self._limit else ""

    def taken(self, record: Record, *, waits: bool) -> None:
        """A record was decoded, and waits in its lane, or was set aside; deaths of it are remembered until it is settled."""
        name = name_of_untaken(record)
        self.taking.allowed.discard(name)
        if not waits:
            self._row.deaths.pop(name, None)
        if not self.busy:
            self.alone = False

    def invite_records(self, *waiting: Sequence[Record]) -> None:
        """Let those records that wait longest be announced; each sequence is in the order of its topic."""
        if self.taking.busy or self._has_loner():
            return
        names, alone = first_of(waiting, self._row.deaths, TOGETHER)
        if not names and not self._waiting:
            self._stage.ask_no_more(self)
        elif names and self._stage.admits(self, alone=alone):
            self.taking.want(set(names))

    def _has_loner(self) -> bool:
        """The lane that waits longest is to run alone: with more and more records announced it never could."""
        return bool(self._waiting) and self._waiting[0].items[0].name in self._row.deaths

    # -- a step --------------------------------------------------------------------------------------------------------

    def admit(self, lanes: list[Lane]) -> list[Lane]:
        """Say which lanes to work on now; those with a suspect at their head wait until it is announced."""
        free = []
        for lane in lanes:
            if not lane.items or self.may_run(lane.items[0]):
                free.append(lane)
                continue
            self.unspilled.add(lane)
            if not self._goes_on(lane):
                self._waiting.append(lane)
        self._invite()
        coming, self._coming = self._coming, []
        return free + coming

    def _goes_on(self, lane: Lane) -> bool:
        """Announce the item of a record in the record's place; False when the record has not had its turn.

        It waits for nobody: others wait until its record is finished.
        """
        item = lane.items[0]
        record = item.record
        if record not in self._allowed:
            return False
        self._allowed.discard(record)
        self._row.deaths.pop(record, None)  # it is settled and committed: what kills from here on is what it became
        self._wanted[item.name] = lane
        return True

    def _invite(self) -> None:
        """Let the longest waiting be announced, as far as there is room."""
        while self._waiting:
            lane = self._waiting[0]
            name = lane.items[0].name
            deaths = self._row.deaths.get(name)
            if deaths is not None and deaths > self._limit:
                self._coming.append(self._waiting.popleft())  # it is set aside
                continue
            if len(self._wanted) + len(self._flying) + len(self._allowed) >= TOGETHER:
                return
            if not self._stage.admits(self, alone=deaths is not None):
                return
            self._wanted[name] = self._waiting.popleft()

    def announce(self) -> bool:
        """Bring the row up to date; True when it changed, and is to be committed."""
        self._flying |= self._wanted
        self._wanted = {}
        announced = sorted(self._allowed | self._flying.keys() | self.taking.announced())
        if (announced, self.alone) == (self._row.announced, self._row.alone):
            self.committed()  # named already, for another item of the same name: deadlines of one dialog have one
            return False
        self._row.announce(announced, alone=self.alone)
        return True

    def committed(self) -> None:
        """The row is committed: the records that it names may be taken, or run."""
        self.taking.committed()
        self._allowed |= self._flying.keys()
        self._coming += self._flying.values()
        self._flying = {}

    # -- an item ---------------------------------------------------------------------------------------------------------

    def may_run(self, item: Item) -> bool:
        """Say whether an item may be carried out."""
        return not item.suspect or item.name in self._allowed

    def has_turn(self, item: Item) -> bool:
        """Say whether an item may be looked at: to be carried out, or to be set aside."""
        return self.may_run(item) or self.is_hopeless(item)

    def is_hopeless(self, item: Item) -> bool:
        """Say whether processes died even of giving up on an item."""
        return item.suspect and self._row.deaths.get(item.name, 0) > self._limit

    def doom(self, item: Item) -> ProcessDied | None:
        """Return what an item has failed with that killed too many processes, None for all others."""
        deaths = self._row.deaths.get(item.name, 0) if item.suspect else 0
        if deaths < self._limit:
            return None
        return ProcessDied(f"{deaths} processes died while its handler ran, and nothing else")

    def finished(self, item: Item, *, tried: bool = True) -> None:
        """An item had its turn, and nobody died; one that was not tried keeps its charges."""
        if not item.suspect:
            return
        self.left -= 1
        for name in {item.name, item.record}:  # that of its record until that is settled
            self._allowed.discard(name)
            if tried:
                self._row.deaths.pop(name, None)
        if not self.busy:
            self.alone = False
