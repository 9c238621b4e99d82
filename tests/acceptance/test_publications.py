"""Records that handlers publish, while the worker that publishes them is killed, with real processes on a real Kafka."""

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from conversations import Client, Kafka
from conversations.kafka.admin import apply
from tests.acceptance.services.publishing import PAYMENTS, Payment, cashier, payer
from tests.acceptance.support.command_line import Running, conversations
from tests.integration.support.plain_topics import committed, create_topic, delete_topic
from tests.support.waiting import until

pytestmark = [pytest.mark.acceptance, pytest.mark.kafka, pytest.mark.timeout(900)]
DIALOGS, LENGTH, KILLS = 100, 20, 4


@pytest.fixture
def receipts(kafka: Kafka) -> Iterator[str]:
    """A topic with three partitions that belongs to somebody else."""
    topic = create_topic(kafka, f"receipts-{kafka.namespace}", 3)
    yield topic
    delete_topic(kafka, topic)


def handled(out: Path) -> Counter[int]:
    """How many times each process has called the handler."""
    file = out / "handled"
    return Counter(map(int, file.read_text().split())) if file.exists() else Counter()


def kill_at_work(running: Running, out: Path) -> None:
    """Kill the worker while it handles payments, and wait until another process works."""

    def at_work() -> int:
        """Return the pid of the present worker if it has handled enough. A worker may be started again before that."""
        (worker,) = running.workers().values()
        pid = worker["pid"] or 0
        return pid if handled(out)[pid] >= LENGTH else 0

    pid = until(at_work, "the worker is at work", 180, pause=0.1)
    os.kill(pid, signal.SIGKILL)
    until(lambda: running.is_well() and pid not in _pids(running), "another worker works")


@pytest.mark.slow
def test_each_payment_has_one_receipt_in_order_however_often_the_worker_is_killed(
    kafka: Kafka, receipts: str, tmp_path: Path
) -> None:
    apply(kafka, [payer.declaration(), cashier.declaration()], 4, 1)
    variables = {"RECEIPTS": receipts}
    settings = ("--setting", "worker.batch=40")  # many transactions, so that kills hit some of them
    with (
        Client(payer, kafka) as client,
        Running(kafka, tmp_path, "publishing:cashier", *settings, variables=variables) as running,
        Running(kafka, tmp_path, "publishing:payer"),
    ):
        running.ready()
        ids = []
        for share in range(KILLS + 1):
            for _ in range(DIALOGS // (KILLS + 1)):
                with client.begin_dialog("cashier", PAYMENTS) as dialog:
                    for n in range(LENGTH):
                        dialog.send(Payment(n=n))
                ids.append(dialog.id.encode())
            if share == KILLS:
                break
            kill_at_work(running, tmp_path)
        until(lambda: len(committed(kafka, receipts)) >= DIALOGS * LENGTH, "all receipts are there", 120, pause=1)
        until(lambda: _is_at_rest(kafka, receipts, tmp_path), "nothing follows", 60, pause=1)
    assert len(handled(tmp_path)) > KILLS
    found: dict[bytes | None, list[bytes | None]] = {}
    for record in committed(kafka, receipts):
        found.setdefault(record.key(), []).append(record.value())
    assert found == {name: [b"%d %d" % (n, n + 1) for n in range(LENGTH)] for name in ids}


def _pids(running: Running) -> set[int]:
    return {worker["pid"] for worker in running.workers().values()}


def _is_at_rest(kafka: Kafka, topic: str, out: Path) -> bool:
    """Return True if neither the topic nor the number of calls has grown since the call before."""
    before = (len(committed(kafka, topic)), handled(out).total())
    return before == (len(committed(kafka, topic)), handled(out).total())


def test_check_and_apply_name_the_topics_that_a_service_publishes_to(
    kafka: Kafka, receipts: str, tmp_path: Path
) -> None:
    connected = ("--bootstrap", kafka.bootstrap, "--namespace", kafka.namespace)
    here, missing = {"RECEIPTS": receipts}, {"RECEIPTS": f"{receipts}.missing"}
    checked = conversations("check", "publishing:cashier", out=tmp_path, variables=here)
    assert f"publishes to topic {receipts}" in checked.stdout
    for topic, is_named in ((missing, True), (here, False)):
        applied = conversations("apply", "publishing:cashier", *connected, out=tmp_path, variables=topic)
        compared = conversations("check", "publishing:cashier", "--catalog", *connected, out=tmp_path, variables=topic)
        for told in (applied, compared):
            assert told.returncode == 0, told.stderr
            assert (
                f"topic {topic['RECEIPTS']}, to which the service publishes, does not exist" in told.stdout
            ) is is_named
