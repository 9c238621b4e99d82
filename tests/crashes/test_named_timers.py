"""A worker that dies between the setting of named timers and the end of their handlers: each of them has one effect."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from conversations.protocol import rows
from conversations.testing.reading import state_of
from tests.crashes.support.mortal_workers import Job, MortalService, die, until


@pytest.fixture
def mortal() -> Iterator[MortalService]:
    made = MortalService()
    yield made
    made.let_go.set()


def fired(mortal: MortalService) -> list[str]:
    """Return the names of the timers whose handlers are committed, in order."""
    with mortal.broker.changed:
        table = dict(state_of(mortal.broker, "slow")[0])
    groups = [rows.decode_group(row) for key, row in table.items() if key[:1] == rows.GROUP]
    return [name for group in groups for name in json.loads(group.state or b"{}").get("fired", [])]


def set_timers(mortal: MortalService) -> set[str]:
    """Return the names of the timers that are committed as set."""
    with mortal.broker.changed:
        table = dict(state_of(mortal.broker, "slow")[0])
    found = (rows.decode_endpoint(key[1:], row, "slow")[0] for key, row in table.items() if key[:1] == rows.ENDPOINT)
    return {name for endpoint in found for name in endpoint.timers()}


@pytest.mark.parametrize("deaths", [0, 1, 2])
def test_each_named_timer_has_one_effect_whenever_the_worker_dies(mortal: MortalService, deaths: int) -> None:
    """It dies while the first handler runs. The timers are set and committed, and none has fired."""
    mortal.send(Job(n=1, timers=("a", "b", "c")))
    for _ in range(deaths):
        mortal.begun.clear()
        worker = mortal.worker()
        until(mortal.begun.is_set, worker)
        until(lambda: set_timers(mortal) == {"a", "b", "c"}, worker)
        assert fired(mortal) == []
        die(worker)
    mortal.let_go.set()
    worker = mortal.opened()
    until(lambda: len(fired(mortal)) >= 3, worker)
    until(lambda: mortal.row().unclean_starts == 0, worker)
    assert sorted(fired(mortal)) == ["a", "b", "c"]
    worker.close()
