"""A commit that a destination refuses is made again without it; what handlers did meanwhile belongs to the next one."""

from collections.abc import Callable, Mapping, Sequence

import pytest

from conversations.errors import DestinationFailed
from conversations.ports import Produced
from conversations.protocol import rows
from tests.crashes.support.mortal_workers import Job, MortalService, until
from tests.support.forms import python_form

pytestmark = python_form


def test_what_a_handler_writes_while_a_commit_is_refused_is_committed_later(monkeypatch: pytest.MonkeyPatch) -> None:
    mortal = MortalService()
    mortal.send(Job(n=0, stuck=True))
    worker = mortal.worker()
    until(mortal.begun.is_set, worker)
    until(lambda: bool(worker.partitions[0].waiting.bytes) and not worker.step(), worker)
    (run,) = worker.partitions[0].work.slow.values()
    commit = worker.context.connection.commit
    refused: list[bool] = []

    def refuse_once(
        outs: Sequence[Produced], offsets: Mapping[int, int], meanwhile: Callable[[], None]
    ) -> Mapping[int, int]:
        if not refused:
            refused.append(True)
            mortal.let_go.set()
            until(lambda: run.done)
            raise DestinationFailed({"conv.other.queue": "it takes nothing"})
        return commit(outs, offsets, meanwhile)

    monkeypatch.setattr(worker.context.connection, "commit", refuse_once)
    mortal.send(Job(n=1))
    until(lambda: sorted(mortal.handled) == [0, 1] and not worker.busy(), worker)
    until(lambda: not worker.step())
    partition = worker.partitions[0]
    assert (list(partition.outbox.store.scan(rows.WAITING)), partition.waiting.bytes) == ([], 0)
    worker.close()
    mortal.opened().step()
    assert sorted(mortal.handled) == [0, 1]
