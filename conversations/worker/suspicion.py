"""Suspicion: finds the record that kills the process. After an unclean start, older records are processed only after they are announced.

A start is unclean if the partition was not given back cleanly. Then one of its records may have killed the last process. All records
from before the start are **suspect**. A suspect is **announced** before it is decoded (``taking``), and again before it is carried out:
its name is written into the partition's row, and committed.

    suspect --> wanted --commit begins--> flying --committed--> allowed --it has its turn--> finished
                                                                   |
                                                                   '-- the process dies: its name is found in the row

The next process finds the names. A record that was announced when a process died has its next turn **alone**: no other suspect of the
process runs at the same time (``stage``). If the process dies then, the death is counted for the record. When this
count reaches the setting ``deaths``, the record is given up on by its policy, without a call of its handler. If the process dies even
then, the record is set aside.

Records that arrive after the start are not suspect. They run as usual, at the cost of one comparison.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from conversations.errors import ProcessDied
from conversations.ports import Record
from conversations.protocol.partition_row import PartitionRow
from conversations.worker.active import Item, Lane
from conversations.worker.announcements import Taking, first_of
from conversations.worker.announcements import name_of as name_of_untaken
from conversations.worker.stage import Stage

TOGETHER = 64
"""Maximum number of suspects that are announced at a time. A suspect that was announced when a process died is announced alone."""


class Suspicion:
    """Decides what may run in a partition after an unclean start."""

    def __init__(self, row: PartitionRow, stage: Stage, limit: int) -> None:
        self._row, self._stage, self._limit = row, stage, limit
        self.left = 0
        """Number of suspects that have not had their turn."""
        self.alone = False
        """True while the announced record runs alone."""
        self.taking = Taking()
        self.unspilled: set[Lane] = set()
        """Waiting lanes that got an item after their items were last kept as rows."""
        self._waiting: deque[Lane] = deque()
        self._wanted: dict[str, Lane] = {}
        """Lanes whose head is announced with the next commit. The key is the name of the head."""
        self._flying: dict[str, Lane] = {}
        """Lanes whose head is announced with the commit under way. The key is the name of the head."""
        self._coming: list[Lane] = []
        """Lanes whose head may run now."""
        self._allowed: set[str] = set()
        """Announced names of items and records that have not had their turn."""
        if row.process != stage.process:
            for name in row.announced:
                row.deaths[name] = row.deaths.get(name, 0) + row.alone
        row.announce([], alone=False)
        row.hand_over(stage.process)
        stage.enter(self)

    @property
    def busy(self) -> bool:
        """True if something is announced, or is about to be announced."""
        return bool(self._allowed or self._wanted or self._flying or self.taking.busy)

    @property
    def stirring(self) -> bool:
        """True if the next step has something to do for the suspects."""
        return bool(self._wanted or self._coming or self._waiting or self.taking.busy or self.taking.waits)

    def go_alone(self) -> None:
        """Let the next announced record run alone in the process."""
        self.alone = True

    def mark(self, item: Item) -> None:
        """Put an item under suspicion."""
        item.doubt()
        self.left += 1

    def take_unspilled(self) -> set[Lane]:
        """Return the waiting lanes with an item that is not kept as a row yet; the caller keeps their items as rows now."""
        unspilled, self.unspilled = self.unspilled, set()
        return unspilled

    # -- records that are not decoded yet ------------------------------------------------------------------------------

    def may_take(self, record: Record) -> bool:
        """Return True if a record from before the start is announced, so that it may be decoded."""
        return name_of_untaken(record) in self.taking.allowed

    def killed_untaken(self, record: Record) -> str:
        """If too many processes died while they took only this record, return why it must not be decoded. Else return ""."""
        deaths = self._row.deaths.get(name_of_untaken(record), 0)
        return f"{deaths} processes died while it was taken, and nothing else" if deaths >= self._limit else ""

    def taken(self, record: Record, *, waits: bool) -> None:
        """Note that a record was decoded, or set aside. If it is now a suspect item of a lane (``waits``), keep the count of its deaths."""
        name = name_of_untaken(record)
        self.taking.allowed.discard(name)
        if not waits:
            self._row.deaths.pop(name, None)
        if not self.busy:
            self.alone = False

    def invite_records(self, *waiting: Sequence[Record]) -> None:
        """Ask for the announcement of the records that have waited longest. Each sequence has the records of one topic, in order."""
        if self.taking.busy or self._has_loner():
            return
        names, alone = first_of(waiting, self._row.deaths, TOGETHER)
        if not names and not self._waiting:
            self._stage.ask_no_more(self)
        elif names and self._stage.admits(self, alone=alone):
            self.taking.want(set(names))

    def _has_loner(self) -> bool:
        """Return True if the lane that has waited longest must run alone.

        In this case no records are announced for decoding: while anything is announced, the lane cannot run alone.
        """
        return bool(self._waiting) and self._waiting[0].head.name in self._row.deaths

    # -- a step --------------------------------------------------------------------------------------------------------

    def admit(self, lanes: list[Lane]) -> list[Lane]:
        """Return the lanes to work on now; a lane with a suspect at its head waits until the suspect is announced."""
        free = []
        for lane in lanes:
            if not lane.has_items or self.may_run(lane.head):
                free.append(lane)
                continue
            self.unspilled.add(lane)
            if not self._goes_on(lane):
                self._waiting.append(lane)
        self._invite()
        coming, self._coming = self._coming, []
        return free + coming

    def _goes_on(self, lane: Lane) -> bool:
        """Announce the head of a lane in place of its record. Return False if the record is not announced.

        If an item calls another handler, for example ``on_error``, the name of the item differs from the name of its record. Then the item
        uses the turn of its record, and does not wait for another turn.
        """
        item = lane.head
        record = item.record
        if record not in self._allowed:
            return False
        self._allowed.discard(record)
        self._row.deaths.pop(record, None)  # the record is settled: from here on, only the item can kill the process
        self._wanted[item.name] = lane
        return True

    def _invite(self) -> None:
        """Ask for the announcement of the heads of the lanes that have waited longest, up to ``TOGETHER``."""
        while self._waiting:
            lane = self._waiting[0]
            name = lane.head.name
            deaths = self._row.deaths.get(name)
            if deaths is not None and deaths > self._limit:
                self._coming.append(self._waiting.popleft())  # its head is set aside, not announced
                continue
            if len(self._wanted) + len(self._flying) + len(self._allowed) >= TOGETHER:
                return
            if not self._stage.admits(self, alone=deaths is not None):
                return
            self._wanted[name] = self._waiting.popleft()

    def announce(self) -> bool:
        """Bring the row up to date; return True if it changed and must be committed."""
        self._flying |= self._wanted
        self._wanted = {}
        announced = sorted(self._allowed | self._flying.keys() | self.taking.announced())
        if (announced, self.alone) == (self._row.announced, self._row.alone):
            self.committed()  # the row has the names already, because all deadlines of a dialog have the same name
            return False
        self._row.announce(announced, alone=self.alone)
        return True

    def committed(self) -> None:
        """Note that the row is committed: the records that it names may be decoded, or run."""
        self.taking.committed()
        self._allowed |= self._flying.keys()
        self._coming += self._flying.values()
        self._flying = {}

    # -- an item ---------------------------------------------------------------------------------------------------------

    def may_run(self, item: Item) -> bool:
        """Return True if an item may be carried out: it is not suspect, or it is announced."""
        return not item.suspect or item.name in self._allowed

    def has_turn(self, item: Item) -> bool:
        """Return True if an item has its turn now: it may be carried out, or must be set aside."""
        return self.may_run(item) or self.is_hopeless(item)

    def is_hopeless(self, item: Item) -> bool:
        """Return True if a process died even while it gave up on an item."""
        return item.suspect and self._row.deaths.get(item.name, 0) > self._limit

    def doom(self, item: Item) -> ProcessDied | None:
        """If too many processes died while only this item ran, return the failure that is applied to the item, else None."""
        deaths = self._row.deaths.get(item.name, 0) if item.suspect else 0
        if deaths < self._limit:
            return None
        return ProcessDied(f"{deaths} processes died while only its handler ran")

    def finished(self, item: Item, *, tried: bool = True) -> None:
        """Note that an item had its turn and did not kill the process. If the item was not tried, its earlier deaths still count."""
        if not item.suspect:
            return
        self.left -= 1
        for name in {item.name, item.record}:  # an item and its record may have different names (``_goes_on``)
            self._allowed.discard(name)
            if tried:
                self._row.deaths.pop(name, None)
        if not self.busy:
            self.alone = False
