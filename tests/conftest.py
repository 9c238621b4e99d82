"""Fixtures and hooks for all tests: the address of a Kafka, the order of tests, and their processes."""

import os
import signal
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest

from tests.support import chosen_kafka, spark_classes, turns
from tests.support.forms import needs_python_form
from tests.support.sharing import GroupScheduling, begins_late, file_of
from tests.support.waiting import SLOWER

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # SIGINT is ignored, for example, if a script starts the tests with "&". Processes that tests start would inherit this,
    # and Ctrl-C would not end them.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The brokers and Spark sessions of tests live for minutes. Java's optimizing compiler would take a quarter of the tests' time.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# Tests start hundreds of Python processes. Without the compiled files, each would spend a third of its start on the compilation of the package.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


TURN = pytest.StashKey[int | None]()
"""The turn whose slow tests run; None if those of all turns run."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that choose the Kafka and the tests of the run."""
    parser.addoption("--kafka", metavar="KAFKA", help=chosen_kafka.HELP)
    parser.addoption(
        "--python-form", action="store_true", help="run only the tests that a run of the compiled form skips"
    )
    parser.addoption("--turn", metavar="TURN", default="", help=turns.HELP)


def pytest_configure(config: pytest.Config) -> None:
    """End the run before its first test if the chosen Kafka cannot be used. Only the first process of a run asks."""
    try:
        config.stash[TURN] = turns.turn_of(config.getoption("--turn"), config.rootpath)
    except ValueError as error:
        raise pytest.UsageError(str(error)) from error
    if hasattr(config, "workerinput"):
        return
    if trouble := chosen_kafka.trouble(chosen_kafka.choice(config.getoption("--kafka"))):
        raise pytest.UsageError(trouble)
    # A run of chosen tests may need no Spark.
    spark_classes.use(write=config.args_source is pytest.Config.ArgsSource.TESTPATHS)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the groups of tests that take longest, and give each test its time limit on a shared machine."""
    if config.getoption("--python-form"):
        _leave_out(config, items, lambda item: not needs_python_form(item))
    turn = config.stash[TURN]
    _leave_out(
        config, items, lambda item: bool(item.get_closest_marker("slow")) and turns.waits(file_of(item.nodeid), turn)
    )
    items.sort(key=lambda item: begins_late(item.nodeid))
    for item in items:
        marker = item.get_closest_marker("timeout")
        limit = float(marker.args[0] if marker else config.getini("timeout"))
        item.add_marker(pytest.mark.timeout(limit * SLOWER), append=False)


def _leave_out(config: pytest.Config, items: list[pytest.Item], unwanted: Callable[[pytest.Item], bool]) -> None:
    """Take the unwanted tests out of ``items``, and report them as deselected."""
    others = [item for item in items if unwanted(item)]
    config.hook.pytest_deselected(items=others)
    left = set(others)
    items[:] = [item for item in items if item not in left]


def pytest_report_header(config: pytest.Config) -> str:
    """Say which slow tests are in the run."""
    return turns.told(config.stash[TURN])


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> GroupScheduling:
    """Keep the tests of a group in one process, whatever the option ``--dist`` is."""
    return GroupScheduling(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Escape characters in captured output that UTF-8 cannot encode. Otherwise a report could not be sent to another process."""
    report = yield
    report.sections = [(name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections]
    return report


@pytest.fixture(scope="session")
def kafka_bootstrap(pytestconfig: pytest.Config) -> Iterator[str]:
    """Yield the address of a real Kafka that the option ``--kafka`` or ``KAFKA_BOOTSTRAP`` chooses. By default, an embedded broker runs for the session.

    All tests share this Kafka, so each test uses its own names for topics and groups.
    """
    with chosen_kafka.running(chosen_kafka.choice(pytestconfig.getoption("--kafka"))) as address:
        yield address
