"""Tests the scenario of two adjacent brokers, on two real Kafkas: nothing is lost, repeated or out of order while the link is cut."""

import pytest

from examples.service_broker import adjacent as them

pytestmark = [pytest.mark.acceptance, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture(autouse=True)
def nothing_yet() -> None:
    them.received.clear()
    them.receipts.clear()
    them.scans.clear()
    them.handles.clear()


def test_everything_arrives_once_and_in_order_after_the_link_was_cut(capsys: pytest.CaptureFixture[str]) -> None:
    them.tour()
    lines = capsys.readouterr().out.splitlines()
    # The first acknowledgement may have been slow, and its item is transmitted again, too.
    assert lines[2].startswith("  transmitted again  items ")
    assert lines[2].endswith("4 5 6")
    del lines[2]
    assert lines == [
        "the link is there  initiator: 3 sent, 0 unacknowledged   target: 3 handled",
        "the link is cut    initiator: 6 sent, 3 unacknowledged   target: 3 handled",
        "  why              no-forwarder, unacknowledged",
        "the link is back   initiator: 6 sent, 0 unacknowledged   target: 6 handled",
        "the target has     1 2 3 4 5 6",
        "the receipts       1 2 3 4 5 6",
        "  receipt 5        2,000,000 bytes, in 4 fragments",
    ]
