"""Which tests stay together when several processes share them (pytest-xdist).

A process pays for what its tests need: a broker, a Spark. So the tests of a file stay in one process, and so do the tests of a
``SHARED`` place. xdist's own groups do not work: xdist 3.8 writes a group's name into a field that pytest 9.2 does not read.
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
"""Tests that one process runs, one after the other: those with the one Spark, and those that need the whole machine."""


def group_of(test: str) -> str:
    """Return the group of a test: the group of its ``SHARED`` place, else its file."""
    file = test.partition("::")[0]
    return next((group for place, group in SHARED.items() if file.startswith(place)), file)


def begins_late(test: str) -> bool:
    """Return True if a test is in no ``SHARED`` place. The shared groups take longest: begun last, they would end alone."""
    return not test.startswith(tuple(SHARED))


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Gives each process whole groups of tests, in the order of collection."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)
