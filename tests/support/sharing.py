"""Groups of tests: when pytest-xdist divides the tests among several processes, each group stays in one process.

Each process starts the broker or the Spark session that its tests need. So the tests of a file stay in one process. All tests of a group
in ``SHARED`` stay in one process, too. xdist's own groups do not work, because xdist 3.8 writes the
name of a group into a field that pytest 9.2 does not read.
"""

from typing import Any

from xdist.scheduler import LoadScopeScheduling

SHARED = {
    "tests/spark/": "spark",
    "tests/acceptance/test_spark.py": "spark",
    "tests/acceptance/test_chaos.py": "runs",
    "tests/acceptance/test_chaos_cluster.py": "runs",
    "tests/acceptance/test_chaos_remote.py": "runs",
    "tests/acceptance/test_cut_off_leader.py": "runs",
    "tests/acceptance/test_doctor_cluster.py": "runs",
    "tests/hostile/test_soak.py": "runs",
    "tests/soak/": "runs",
}
"""The group of each file or folder. One process runs all tests of a group, one after the other.

Tests of "spark" share the Spark session. Each test of "runs" needs the whole machine.
"""


def file_of(test: str) -> str:
    """Return the file of a test's name."""
    return test.partition("::")[0]


def group_of(test: str) -> str:
    """Return the group of a test: the group of its file or folder in ``SHARED``, else its file."""
    file = file_of(test)
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

    def remove_node(self, node: Any) -> str | None:
        """Take a process out that has ended. Return the test that ended it; no other process runs this test again.

        xdist 3.8 gives that test to the next process, which may then end in the same way.
        """
        units = self.assigned_work.pop(node)
        crashed: str | None = next((test for unit in units.values() for test, done in unit.items() if not done), None)
        if crashed is None:
            return None
        units[group_of(crashed)][crashed] = True
        self.workqueue.update({group: unit for group, unit in units.items() if not all(unit.values())})
        self._give_out()
        return crashed

    def schedule(self) -> None:
        """Give each process two groups, also a process that replaces another.

        A process runs its last test only when it knows what follows. xdist 3.8 gives one group to a process that replaces
        another. If this group has a single test, and another group waits, all processes would wait for ever.
        """
        super().schedule()
        self._give_out()

    def _give_out(self) -> None:
        for node in self.assigned_work:
            self._reschedule(node)
