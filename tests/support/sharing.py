"""Groups of tests: when pytest-xdist divides the tests among several processes, each group stays in one process.

Each process starts the broker or the Spark session that its tests need. So the tests of a file stay in one process. All tests of a group
in ``SHARED`` stay in one process, too. xdist's own groups do not work, because xdist 3.8 writes the
name of a group into a field that pytest 9.2 does not read.
"""

from xdist.scheduler import LoadScopeScheduling

SHARED = {
    "tests/spark/": "spark",
    "tests/acceptance/test_spark.py": "spark",
    "tests/acceptance/test_chaos.py": "runs",
    "tests/acceptance/test_chaos_cluster.py": "runs",
    "tests/acceptance/test_cut_off_leader.py": "runs",
    "tests/hostile/test_soak.py": "runs",
    "tests/soak/": "runs",
}
"""The group of each file or folder. One process runs all tests of a group, one after the other.

Tests of "spark" share the Spark session. Each test of "runs" needs the whole machine.
"""


def group_of(test: str) -> str:
    """Return the group of a test: the group of its file or folder in ``SHARED``, else its file."""
    file = test.partition("::")[0]
    return next((group for place, group in SHARED.items() if file.startswith(place)), file)


def begins_late(test: str) -> bool:
    """Return True if a test is in no group of ``SHARED``.

    The groups of ``SHARED`` begin first, because they take longest. If they began last, they would run alone at the end.
    """
    return not test.startswith(tuple(SHARED))


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Gives whole groups of tests to each process, in the order of collection."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)
