"""Log time passes on a queue that nobody writes to: its owner sends itself a tick, and goes on."""

from dataclasses import replace

import pytest

from conversations import WorkerSettings
from conversations.config import Periods
from conversations.protocol.command import decode_command
from conversations.worker import Worker
from tests.rules.support.stepped_service import SECOND, Asking, SteppedService, until

pytestmark = pytest.mark.kafka


def queue_time(worker: Worker) -> int:
    return worker.partitions[0].progress.row.queue_time


def test_an_idle_queue_is_brought_forward_by_a_genuine_tick(stepped: SteppedService) -> None:
    """Some time after a dialog was remembered, with the handlers' threads that every worker has; and work goes on."""
    periods = Periods(tick_after=3 * SECOND, grace=2 * SECOND, step=1 * SECOND)
    worker = stepped.open(stepped.worker(settings=WorkerSettings(periods=periods)))
    refused, dialog = Asking(stepped), Asking(stepped)
    refused.prefix = replace(refused.prefix, contract="Nonsense")
    refused.ask(1)
    until(lambda: (worker.step(0.05), len(worker.partitions[0].schedule.tombstones))[1])
    before = queue_time(worker)
    until(lambda: (worker.step(0.05), queue_time(worker) > before)[1])
    ticks = [decode_command(record.value() or b"") for record in stepped.read(stepped.topic("commands"))]
    assert {tick.issued_by for tick in ticks} == {"clerk"}
    dialog.ask(2)
    stepped.answered(worker, 2)
