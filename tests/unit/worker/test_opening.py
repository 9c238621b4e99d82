"""What the log says about partitions that a worker opens."""

import pytest

from conversations import Service
from conversations.testing import Simulation


def test_one_line_names_all_partitions_that_were_opened(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    with Simulation(Service("many"), partitions=3) as sim:
        sim.run()
    said = [it.getMessage() for it in caplog.records if "rows restored" in it.getMessage()]
    assert said == ["partitions 0, 1, 2 of many are open, 0 rows restored"]
