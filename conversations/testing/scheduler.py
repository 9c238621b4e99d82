"""A scheduler that runs handlers in the caller's thread, in a seeded order. Slow handlers return in a later step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from conversations.calls import Call, invoke, invoke_async
from conversations.dialog import Dialog
from conversations.errors import PeerError
from conversations.protocol.envelope import Kind
from conversations.scheduler import Inline, Mark, Run
from conversations.testing.faults import Chance
from conversations.testing.ledger import Handled, Ledger, Page
from conversations.worker.room import Room

OVERLAP = 6
"""In one call of ``go_on``, at most ``OVERLAP - 1`` handlers return."""


class SeededLanes(Inline):
    """A scheduler like ``Inline``, but the order of the lanes is drawn by chance.

    Args:
        chance: draws the order of the lanes, and decides for each handler whether it is slow.
        page: returns the page of the worker's present connection. Handled messages are noted on this page.
        ledger: gets the conversations whose handlers failed.
        failed: called with each exception that a handler raised, or because of which its state cannot be kept.
    """

    def __init__(
        self, chance: Chance, page: Callable[[], Page], ledger: Ledger, failed: Callable[[BaseException], None]
    ) -> None:
        super().__init__()
        self._chance = chance
        self._page = page
        self._ledger = ledger
        self._failed = failed
        self._open: list[tuple[Run, Call | None]] = []

    def start(self, runs: list[Run], mark: Mark) -> None:
        """Queue runs for ``wait``."""
        for run in runs:
            run.mark = mark
            self._open.append((run, run.advance(None)))

    def wait(self, mark: Mark, patience: float) -> None:
        """Do the calls of the open runs, one at a time, in an order drawn by chance. Runs with a slow handler stay for a later step."""
        del mark, patience  # no other thread runs handlers, so there is nothing to wait for
        slow: list[tuple[Run, Call | None]] = []
        while self._open:
            index = self._chance.random.randrange(len(self._open)) if self._chance.active else 0
            run, call = self._open.pop(index)
            if call is None:
                run.done = True
            elif self._chance.happens(self._chance.faults.slow):
                slow.append((run, call))
            else:
                self._open.insert(index, (run, self._drive(run, call)))
        self._open = slow

    def go_on(self) -> None:
        """Let some handlers return, and let the next handlers of their lanes begin, while the step's transaction is under way."""
        for _ in range(self._chance.random.randrange(1, OVERLAP)):
            if not self._open:
                return
            index = self._chance.random.randrange(len(self._open))
            run, call = self._open.pop(index)
            following = None if call is None else self._drive(run, call)
            if following is None:
                run.done = True
            else:
                self._open.insert(index, (run, following))

    def _drive(self, run: Run, call: Call) -> Call | None:
        if call.handler.is_async:
            run.begin()
        failure = self._await(invoke_async(call)) if call.handler.is_async else invoke(call)
        if failure is not None:
            self._note_failure(call, failure)
            return run.advance(failure)
        following = run.advance(None)
        if call.refused is None:
            self._note(call)
        else:
            self._note_failure(call, call.refused)
        return following

    def _note_failure(self, call: Call, failure: BaseException) -> None:
        dialog, room = self._where(call)
        if room is not None:
            partition = room._partition  # noqa: SLF001 - the kit looks inside
            if partition.gone:
                return  # the partition belongs to another worker now, so this failure does not count
            self._ledger.failed.add((partition.context.name, UUID(dialog.id).bytes))
        self._failed(failure)

    @staticmethod
    def _where(call: Call) -> tuple[Dialog[Any], Room | None]:
        dialog = call.arguments[-1]
        room = dialog._draft.room  # noqa: SLF001 - the kit looks inside
        return dialog, room if isinstance(room, Room) else None

    def _note(self, call: Call) -> None:
        dialog, room = self._where(call)
        envelope = dialog._envelope  # noqa: SLF001 - the kit looks inside
        if envelope is None or envelope.kind is not Kind.MESSAGE or room is None:
            return
        if len(call.arguments) < 2 or isinstance(call.arguments[0], PeerError):
            return  # the handler of a timer, an end or an error, though a message may have caused it
        partition = room._partition  # noqa: SLF001 - same
        if partition.gone:
            return  # the partition belongs to another worker now, so the result is refused
        prefix = envelope.prefix
        entry = Handled(partition.context.name, prefix.conversation_id, not prefix.from_initiator, envelope.seq)
        self._page().note(partition.number, entry, dialog.attempt)
