"""A short form of the structured fuzzing: no worker ends, no partition is set aside, and healthy dialogs complete.

``python -m tests.bad_input.structured`` is the long form. Another ``FUZZ_SEED`` draws other records.
"""

import os

import pytest

from tests.bad_input.structured import Tally, on_kafka, round_in_memory

SEED = int(os.environ.get("FUZZ_SEED", "1"))


@pytest.mark.parametrize("number", range(5))
def test_no_worker_ends_of_well_formed_records_at_the_edges(number: int) -> None:
    tally = Tally()
    round_in_memory(f"{SEED} {number}", tally)
    assert tally.rounds == 1


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.timeout(300)
def test_no_worker_ends_of_them_on_kafka(kafka_bootstrap: str) -> None:
    tally = Tally()
    on_kafka(kafka_bootstrap, 10, SEED, tally)
    assert tally.rounds == 1
