"""Keys find their partition in columns as they do one by one."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conversations.protocol.topics import partition_of
from spark_jobs.partitioning import partitions_of


@settings(deadline=None)  # numpy takes its time at the first use
@given(st.lists(st.binary(max_size=50)), st.integers(1, 100), st.integers(0, 5))
def test_every_key_goes_where_the_protocol_sends_it(keys: list[bytes], count: int, skipped: int) -> None:
    column = pa.array(keys, pa.binary())[min(skipped, len(keys)) :]
    found = partitions_of(column, np.full(len(column), count, np.int32))
    assert found.tolist() == [partition_of(key, count) for key in column.to_pylist()]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_keys_that_are_not_there_disturb_nobody(kind: pa.DataType) -> None:
    column = pa.array([None, b"a", None, b"bcde"], kind)
    found = partitions_of(column, np.full(4, 7, np.int32)).tolist()
    assert (found[1], found[3]) == (partition_of(b"a", 7), partition_of(b"bcde", 7))
