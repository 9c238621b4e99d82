"""A start after a kill waits until the controller has noted in its log that the broker is gone."""

from pathlib import Path

import pytest

from conversations_ops.broker.last_run import CLEAN, is_noted, was_cut_off
from conversations_ops.broker.server import Layout, render_controller

REGISTERED = (
    "Replayed initial RegisterBrokerRecord for broker 1: RegisterBrokerRecord(brokerId=1, fenced=true, logDirs=[])"
)
CHANGED = (
    "Replayed BrokerRegistrationChangeRecord modifying the registration for broker 1: (brokerId=1, fenced={}, x=0)"
)
LEADS, STAYS, GONE = (CHANGED.format(it) for it in (-1, 0, 1))
ACTIVE, STARTED = "WARN Performing controller activation.", "INFO [KafkaRaftServer nodeId=1] Kafka Server started"


@pytest.mark.parametrize(
    ("lines", "noted"),
    [
        ([], False),
        ([REGISTERED], False),
        ([REGISTERED, LEADS, ACTIVE, STARTED], False),
        ([REGISTERED, LEADS, ACTIVE, STARTED, STAYS], False),
        ([REGISTERED, LEADS, ACTIVE, GONE], False),
        ([REGISTERED, LEADS, ACTIVE, STARTED, GONE], True),
        ([REGISTERED, LEADS, ACTIVE, GONE, STARTED], True),
        ([REGISTERED, LEADS, GONE, ACTIVE, STARTED], True),
        ([REGISTERED, LEADS, GONE, STAYS, ACTIVE, STARTED], True),
    ],
)
def test_the_broker_is_gone_when_the_controller_at_work_says_so_last(
    tmp_path: Path, lines: list[str], noted: bool
) -> None:
    earlier = f"{REGISTERED}\n{GONE}\n{ACTIVE}\n{STARTED}\n"
    log = tmp_path / "broker.log"
    log.write_text("\n".join([earlier, *lines]))
    assert is_noted(log, len(earlier)) is noted


def test_only_a_run_that_was_killed_and_had_transactions_was_cut_off(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    assert not was_cut_off(layout), "nothing was formatted"
    layout.logs.mkdir()
    assert not was_cut_off(layout), "no transaction was ever begun"
    (layout.logs / "__transaction_state-0").mkdir()
    assert was_cut_off(layout)
    (layout.logs / CLEAN).touch()
    assert not was_cut_off(layout)


def test_the_controller_alone_serves_no_client(tmp_path: Path) -> None:
    lines = dict(line.split("=", 1) for line in render_controller(Layout(tmp_path), 2222).splitlines())
    assert (lines["process.roles"], lines["listeners"]) == ("controller", "CONTROLLER://127.0.0.1:2222")
    assert lines["log.dirs"] == str(tmp_path / "kafka")
