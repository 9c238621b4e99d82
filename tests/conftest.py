"""Fixtures for every test: where Kafka is."""

import os
import signal
from collections.abc import Generator, Iterator

import pytest

from conversations_ops.broker import EmbeddedBroker

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As where a script starts the tests with "&". What tests start would inherit it, and know nothing of Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Brokers and Sparks of tests live for minutes: optimizing their code would take a quarter of the tests' time.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

SHARED = {
    "tests/spark/": "spark",
    "tests/acceptance/test_spark.py": "spark",
    "tests/acceptance/test_chaos.py": "runs",
    "tests/acceptance/test_chaos_cluster.py": "runs",
    "tests/acceptance/test_cut_off_leader.py": "runs",
    "tests/hostile/test_soak.py": "runs",
    "tests/soak/": "runs",
}
"""Tests of which only one process has any, when several share the work: one Spark, and one run that takes the whole machine."""


@pytest.hookimpl(wrapper=True)  # xdist looks at the groups in a hook of this name: this one is before
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None, None, None]:
    """Keep the tests of a file, and those of ``SHARED``, in one process: they share fixtures, or the machine."""
    for item in items:
        file = item.nodeid.partition("::")[0]
        group = next((name for place, name in SHARED.items() if file.startswith(place)), file)
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=is_short)
    yield


def is_short(item: pytest.Item) -> bool:
    """Whether a test belongs to no group of ``SHARED``. The groups begin first: the longest would end alone."""
    return not item.nodeid.startswith(tuple(SHARED))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Write what UTF-8 cannot say, in captured output, as its escape: reports travel between processes."""
    report = yield
    report.sections = [(name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections]
    return report


@pytest.fixture(scope="session")
def kafka_bootstrap() -> Iterator[str]:
    """Address of a real Kafka: ``KAFKA_BOOTSTRAP`` if set, else a broker embedded for the session.

    Tests share it, so they name topics and groups of their own.
    """
    if given := os.environ.get("KAFKA_BOOTSTRAP"):
        yield given
        return
    with EmbeddedBroker() as broker:
        yield broker.bootstrap
