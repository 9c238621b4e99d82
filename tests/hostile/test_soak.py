"""A short hostile soak on a real Kafka: honest dialogs are done and right, limits are kept, no worker dies. No time is judged."""

from pathlib import Path

import pytest

from tests.hostile import soak
from tests.hostile.soak import Options, Outcome
from tests.hostile.support.figures import Round
from tests.hostile.support.two_workers import Pace, Window


@pytest.mark.long
@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_peer_that_may_write_one_queue_stops_nobody_and_grows_nothing_beyond_its_limits(tmp_path: Path) -> None:
    options = Options(rounds=1, dialogs=12, orders=10, hostile=300, seed=7, pace=Pace(0.02, 0.5))
    outcome = soak.carry_out(options, tmp_path)
    assert outcome.wrong == []
    assert len(outcome.rounds) == 1
    assert outcome.sent > options.hostile
    assert len(outcome.kinds) > 10, "it sent of nearly everything"


def window(shop: float, web: float) -> Window:
    return Window(1.0, 100, 10, {"shop": shop, "web": web}, {"shop": 10, "web": 10}, 0)


def test_what_hostile_records_cost_is_theirs_and_what_they_make_others_cost_is_judged() -> None:
    standing = {"shop": 0.0, "web": 0.0}
    cheap = Round(window(1.0, 1.0), window(5.0, 0.5), window(6.1, 1.6), window(1.2, 1.0), standing)
    dear = Round(window(1.0, 1.0), window(5.0, 0.5), window(7.0, 1.6), window(1.2, 1.4), standing)
    assert Outcome(rounds=[cheap, dear, cheap]).dear() == []
    assert Outcome(rounds=[dear, dear, cheap]).dear() == [
        "shop under attack: 2.00, more than 1.33",
        "web after it: 1.40, more than 1.33",
    ]
