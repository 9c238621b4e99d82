"""Fixtures for every test: where Kafka is."""

import os
import signal
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from conversations_ops.broker import EmbeddedBroker
from tests.support.sharing import GroupScheduling, begins_late

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As where a script starts the tests with "&". What tests start would inherit it, and know nothing of Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Brokers and Sparks of tests live for minutes: optimizing their code would take a quarter of the tests' time.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the groups that take longest."""
    items.sort(key=lambda item: begins_late(item.nodeid))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> GroupScheduling:
    """Keep the tests of a group in one process, whatever ``--dist`` says."""
    return GroupScheduling(config, log)


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
