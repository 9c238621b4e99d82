"""The queue that Spark reads in the benchmark has the records it says."""

import pytest

from bench import fill
from bench.spark import subject
from bench.workload import Job, Workload


@pytest.mark.parametrize("count", [1, 50, 51, 1_234])
def test_what_comes_twice_comes_as_often_as_is_expected(count: int) -> None:
    job = Job(subject.CONTENDER, "", "space", "", Workload(count, 7))
    records = list(subject.repeated(fill.messages(job)))
    contents = subject.contents_of(job.workload)
    assert len(records) == contents.records == subject.expected("plain", contents)
    assert len({(key, value) for _, _, key, value, _ in records}) == contents.messages == count
    assert contents.dialogs == min(7, count)
